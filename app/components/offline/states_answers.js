// What the grids of states show, in the worker: copies and pushes of this sentence's states, as app/views/states/ in Python.

import { editsText, fitEdits, parseEdits } from "../network/edits.js";
import { InputError } from "../network/input.js";
import { MOST_WORDS, readings } from "../network/lens.js";
import { contrastOf, firstDifference, LEAST_DIFFERENCE, logitDifference, pairsOf, patchAll } from "../network/patching.js";
import { pushCurve, replacements } from "../network/push_curve.js";
import { idsOf, UNK } from "../network/subwords.js";
import { labelOf } from "../shared/labels.js";

/**
 * The network of a direction and its passes: `inspect` gives the record of a text, `translate` its translation under edits.
 * @typedef {{network: import("../network/transformer.js").Transformer, tokenizer: import("../network/subwords.js").Tokenizer, hasLens: boolean, functionWords: Set<string>,
 *   inspect: (text: string, options?: {edits?: any, target?: number[]}) => Promise<PassRecord>, translate: (text: string, edits: any) => string,
 *   pause: () => Promise<void>}} Passes
 */

const MOST_SUGGESTED = 8;

/* Pairs of tokens that differ: the copy that the page opens with is the best of the first ones. */
const MOST_COMPARED = 4;

/** By record: what its states say, and the curves of its pushes. */
const read = new WeakMap(), drawn = new WeakMap();

async function readingsOf({ network, hasLens, pause }, record) {
  if (!hasLens) return null;
  if (!read.has(record)) read.set(record, await readings(network, record, pause));
  return read.get(record);
}

const tokensOf = (record, side) => (side === "encoder" ? record.source : record.targetOut);
const statesOf = ({ network: { config } }, side) => 1 + (side === "encoder" ? config.num_encoder_layers : config.num_decoder_layers);

/** Each state's best word with its probability, by layer and position; null without a lens. @param {Passes} passes */
async function wordsOf(passes, record, side) {
  const found = await readingsOf(passes, record);
  if (!found) return null;
  const { ids, probabilities } = found[side], N = tokensOf(record, side).length;
  const word = (cell) => [labelOf(passes.tokenizer.token(ids[cell * MOST_WORDS])), probabilities[cell * MOST_WORDS]];
  return Array.from({ length: statesOf(passes, side) }, (_, layer) => Array.from({ length: N }, (__, n) => word(layer * N + n)));
}

/** The sentences of a copy, by the way: A is this one, B the other. @param {Passes} passes */
async function rolesOf({ inspect }, { text, other, way }) {
  const [A, B] = [await inspect(text), await inspect(other)];
  const named = [["A", A], ["B", B]];
  const [[from, donor], [to, receiver]] = /** @type {[string, PassRecord][]} */ (way === "damage" ? named.toReversed() : named);
  return { A, B, from, donor, to, receiver };
}

/** The data of the grids: both passes, the chosen copy or one that shows the difference, and what it does. @param {Passes} passes */
export async function copyData(passes, question) {
  const { copied = "", way, turn } = question, { from, donor, to, receiver } = await rolesOf(passes, question);
  /** @type {Side} */
  const side = copied.startsWith("copy.decoder") ? "decoder" : "encoder";
  const sideOf = async (name, record) => ({
    name, source: record.sourceText, translation: record.translation, tokens: tokensOf(record, side), words: await wordsOf(passes, record, side),
  });
  const data = {
    mode: "copy", key: "copied_states", about: `${donor.id} ${receiver.id} ${side}`, turn, way, side, layers: statesOf(passes, side),
    donor: await sideOf(from, donor), receiver: await sideOf(to, receiver), pairs: [], copy: null, after: null, after_text: null, measure: null, problem: "",
  };
  try {
    data.pairs = pairsOf(receiver, donor, side).map(([b, a]) => [a, b]);
    const copy = chosenCopy(passes, copied, donor, receiver, side) ?? firstCopy(passes, donor, receiver, side, data.pairs);
    return copy ? { ...data, ...(await copiedBy(passes, copy, donor, receiver, side)) } : data;
  } catch (error) {
    if (!(error instanceof InputError)) throw error;
    return { ...data, problem: error.message };
  }
}

/* The copy that a text describes; null if these passes do not have it. */
function chosenCopy(passes, text, donor, receiver, side) {
  const [word, kind, ...rest] = text.split("."), places = rest.map(Number);
  if (!places.every(Number.isInteger)) return null;
  const [layer, to, from] = places;
  if (word === "copyhead" && places.length === 2) return layer < (donor.layers[kind] ?? 0) && to < donor.heads[kind] ? { kind, layer, head: to } : null;
  const isKnown = layer < statesOf(passes, side) && to < tokensOf(receiver, side).length && from < tokensOf(donor, side).length;
  return word === "copy" && kind === side && places.length === 3 && isKnown ? { layer, from, to } : null;
}

/* Of the first pairs that differ, the one whose state has the largest share in its layer; null if no state differs. */
function firstCopy(passes, donor, receiver, side, pairs) {
  const step = firstDifference(donor, receiver), count = statesOf(passes, side);
  const layer = side === "encoder" ? count >> 1 : Math.max(0, count - 2);
  const differs = ([a, b]) => tokensOf(donor, side)[a].id !== tokensOf(receiver, side)[b].id;
  const copies = pairs.filter(differs).slice(0, MOST_COMPARED).map(([from, to]) => ({ layer, from, to }));
  if (copies.length < 2 || step === null) return copies[0] ?? null;
  const shares = copies.map((copy) => measureOf(passes, donor, receiver, editsOfCopy(passes, copy, donor, receiver, side)).share ?? 0);
  return copies[shares.indexOf(Math.max(...shares))];
}

function editsOfCopy(passes, copy, donor, receiver, side) {
  const pass = `pass.${idsOf(donor.source).join("-")}.${idsOf(donor.targetIn).join("-")}`;
  const { kind, layer, head } = copy;
  const copies = kind
    ? pairsOf(receiver, donor, kind === "encoder" ? "encoder" : "decoder").map((pair) => ["copyhead", kind, layer, head, ...pair].join("."))
    : [["copy", side, layer, copy.to, copy.from].join(".")];
  return fittingEdits(passes, [pass, ...copies].join("~"), receiver);
}

async function copiedBy(passes, copy, donor, receiver, side) {
  const edits = editsOfCopy(passes, copy, donor, receiver, side);
  const edited = await passes.inspect(receiver.sourceText, { edits, target: idsOf(receiver.targetOut) });
  const after_text = passes.translate(receiver.sourceText, edits);
  return { copy, edits: editsText(edits), after: await wordsOf(passes, edited, side), after_text, measure: measureOf(passes, donor, receiver, edits) };
}

function fittingEdits({ network }, text, { source }) {
  const problems = [], { edits, problems: unfit } = fitEdits(parseEdits(text, problems), network.config, source.length);
  problems.push(...unfit);
  if (problems.length) throw new InputError(problems[0]);
  return edits;
}

/* The logit difference at the first word that differs, and the share that the edits bring. */
function measureOf({ network }, donor, receiver, edits) {
  const t = firstDifference(donor, receiver);
  if (t === null) return null;
  const contrast = contrastOf(donor, receiver);
  const [high, low] = [donor, receiver].map(({ source }) => logitDifference(network, idsOf(source), contrast));
  const now = logitDifference(network, idsOf(receiver.source), contrast, edits);
  const share = Math.abs(high - low) < LEAST_DIFFERENCE ? null : (now - low) / (high - low);
  return { other: labelOf(donor.targetOut[t]), own: labelOf(receiver.targetOut[t]), before: low, now, goal: high, share };
}

/** The share of every state of the side and of every head: `CopyPictures`. @param {Passes} passes */
export async function copyPictures(passes, question) {
  const { A, B, donor, receiver } = await rolesOf(passes, question), { way, copied = "", about } = question;
  const side = copied.startsWith("copy.decoder") ? "decoder" : "encoder";
  if (about !== `${donor.id} ${receiver.id} ${side}`) return { about, cells: [], heads: {}, problem: "" };
  try {
    return { about, ...(await patchAll(passes.network, A, B, way, side, passes.pause)) };
  } catch (error) {
    if (!(error instanceof InputError)) throw error;
    return { about, cells: [], heads: {}, problem: error.message };
  }
}

/** The data of the push: its words, its curve, and what is translated then. @param {Passes} passes */
export async function pushData(passes, question) {
  const { text, other, turn, asked, pushed = "" } = question;
  if (!passes.hasLens) throw new InputError("this network has no Jacobian lens, which gives the direction of a push");
  const record = await passes.inspect(text), rival = other ? await passes.inspect(other) : record;
  const ranks = await ranksOf(passes, record);
  let [push, problem] = [linkedPush(passes, pushed, record), ""];
  if (asked) {
    try {
      push = askedPush(passes, record, rival, ranks, asked);
    } catch (error) {
      if (!(error instanceof InputError)) throw error;
      problem = error.message;
    }
  }
  push ??= openingPush(passes, record, rival, ranks);
  const data = { mode: "push", key: "pushed_state", turn, source: text, tokens: record.source, layers: statesOf(passes, "encoder"), typed: problem ? asked.new : null, problem, push: null };
  if (!push) return { ...data, problem: problem || "The translation has no word to push away from." };
  return { ...data, ...(await pushedBy(passes, record, rival, push)) };
}

/* How far down the lens reads each target token in a source token's states, summed over the layers: [source][target]. */
async function ranksOf(passes, record) {
  const { source, targetOut } = record, { ranks } = (await readingsOf(passes, record)).encoder, T = targetOut.length, S = source.length;
  const summed = (s, t) => Array.from({ length: statesOf(passes, "encoder") }, (_, layer) => ranks[(layer * S + s) * T + t]).reduce((a, b) => a + b);
  const isWord = (token) => !token.special && token.starts_word;
  return source.map((token, s) => targetOut.map((word, t) => (token.special || !isWord(word) ? Infinity : summed(s, t))));
}

const placeOfLeast = (numbers) => numbers.indexOf(Math.min(...numbers));

/** @typedef {import("../network/edits.js").Push} Push */

/** @returns {Push | null} */
function linkedPush({ network }, text, { source, targetOut }) {
  const { pushes } = fitEdits(parseEdits(text), network.config, source.length).edits;
  return pushes.find((one) => one.side === "encoder" && !("seed" in one) && idsOf(targetOut).includes(one.old)) ?? null;
}

/* Whole content words come first: that of the other sentence, then the best read ones. @returns {Push | null} */
function openingPush(passes, record, rival, ranks) {
  const { targetOut } = record, known = firstDifference(record, rival), { functionWords } = passes;
  const columns = targetOut.map((_, t) => ranks.map((row) => row[t])), least = columns.map((column) => Math.min(...column));
  const order = (step) => [!isWhole(targetOut[step], targetOut[step + 1]), functionWords.has(targetOut[step].text.toLowerCase()), step !== known, least[step]].map(Number);
  const steps = [...least.keys()].slice(0, -1).filter((step) => Number.isFinite(least[step])).map((step) => ({ step, order: order(step) }));
  steps.sort((a, b) => a.order.map((one, place) => one - b.order[place]).find(Boolean) ?? 0);
  for (const { step } of steps) {
    const [first] = suggested(passes, record, rival, step);
    if (!first) continue;
    /** @type {Side} */
    const side = "encoder";
    return { side, layer: 0, position: placeOfLeast(columns[step]), old: targetOut[step].id, new: first.id, strength: 0 };
  }
  return null;
}

/* A word of at least three letters that the next token does not go on; punctuation may. */
function isWhole(token, following) {
  const ends = following.special || following.starts_word || !/^[\p{L}\p{N}]/u.test(following.text);
  return token.starts_word && !token.special && /^\p{L}{3,}$/u.test(token.text) && ends;
}

/*
 * Words to push towards: that of the other sentence, and those used like the old one, but no other form of it and no word of the
 * source. They are whole words, and function words only for a function word.
 */
function suggested({ network, tokenizer, functionWords }, record, rival, step) {
  const old = record.targetOut[step], source = new Set(record.source.map((token) => token.text)), words = [];
  const isFunction = ({ text }) => functionWords.has(text.toLowerCase());
  const stem = old.text.toLowerCase().slice(0, 3);
  const add = (token, following) => {
    const isOther = words.every(({ id }) => id !== token.id) && !token.text.toLowerCase().startsWith(stem);
    if (isWhole(token, following) && isOther && isFunction(token) === isFunction(old)) words.push(token);
  };
  const [first, next] = rival.targetOut.slice(step, step + 2);
  if (firstDifference(record, rival) === step && next) add(first, next);
  for (const [id, after] of replacements(network, record, step)) {
    const token = tokenizer.token(id);
    if (!source.has(token.text)) add(token, tokenizer.token(after()));
    if (words.length === MOST_SUGGESTED) break;
  }
  return words;
}

/** @returns {Push} */
function askedPush(passes, record, rival, ranks, asked) {
  const ids = idsOf(record.targetOut), old = ids.includes(asked.old) ? asked.old : ids[placeOfLeast(ranks[asked.position])];
  const [first] = suggested(passes, record, rival, ids.indexOf(old));
  /** @type {Push} */
  const push = { side: "encoder", layer: asked.layer, position: asked.position, old, new: asked.new || !first ? idOfWord(passes, asked.new) : first.id, strength: 1 };
  fittingEdits(passes, pushText(push), record);
  return { ...push, strength: asked.strength ?? 0 };
}

/** @param {Push} push */
const pushText = ({ side, layer, position, old, new: to, strength }) => ["push", side, layer, position, old, to, strength].join(".");

function idOfWord({ tokenizer }, word) {
  const tokens = tokenizer.encode(word);
  if (!tokens.length) throw new InputError("there is no word to push towards: type one");
  if (tokens.length > 1) throw new InputError(`'${word.slice(0, 40)}' is ${tokens.length} tokens (${tokens.slice(0, 20).map((one) => one.text).join(" ")}): choose a word of one token`);
  if (tokens[0].id === UNK) throw new InputError(`'${word.slice(0, 40)}' is unknown to the network: choose another word`);
  return tokens[0].id;
}

/* Drawn once for all strengths. */
async function curveOf({ network, pause }, record, push, step) {
  const key = pushText({ ...push, strength: 1 });
  if (drawn.get(record)?.key !== key) drawn.set(record, { key, curve: await pushCurve(network, record, push, step, pause) });
  return drawn.get(record).curve;
}

async function pushedBy(passes, record, rival, given) {
  const { tokenizer } = passes, step = idsOf(record.targetOut).indexOf(given.old);
  const { length, ...curve } = await curveOf(passes, record, given, step);
  const { strengths } = curve, distance = strengths.map((strength) => Math.abs(strength - given.strength));
  const flip = strengths.findIndex((_, k) => curve.new[k] > curve.old[k]);
  // Not chosen yet: the first at which the words have changed places.
  const place = given.strength ? placeOfLeast(distance) : flip < 0 ? 8 : Math.max(1, flip);
  const push = { ...given, strength: strengths[place] }, at = `${push.side}.${push.layer}.${push.position}`;
  const text = pushText(push), [after, aside] = [text, `pushrandom.${at}.0.${push.strength}`].map((one) => passes.translate(record.sourceText, fittingEdits(passes, one, record)));
  const named = (id) => labelOf(tokenizer.token(id));
  const words = new Map(record.targetOut.filter(({ special }) => !special).map((token) => [token.id, labelOf(token)]));
  return {
    edits: text,
    push: { ...push, old: { id: push.old, text: named(push.old) }, new: { id: push.new, text: named(push.new) }, length },
    olds: [...words].map(([id, word]) => ({ id, text: word })),
    news: suggested(passes, record, rival, step).map((token) => ({ text: labelOf(token) })),
    curve,
    before: record.translation,
    after,
    random: aside,
  };
}
