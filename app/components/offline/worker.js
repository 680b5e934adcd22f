// The worker of the offline page: holds the networks, and answers the page's questions one after the other.

import { editsText, fitEdits, listEdits, NO_EDITS, parseEdits } from "../network/edits.js";
import { InputError } from "../network/input.js";
import { readings } from "../network/lens.js";
import { headEffects, inspectUnchecked, translate } from "../network/record.js";
import { tokenizersOf } from "../network/tokenizers.js";
import { makeNetwork } from "../network/transformer.js";
import { readWeights } from "../network/weights.js";
import { changedEdits } from "./edit_commands.js";
import { listedEdits } from "./edit_words.js";
import { openingView } from "./first_view.js";
import { identityOf, npzOf, sha256 } from "./npz.js";
import { copyData, copyPictures, pushData } from "./states_answers.js";
import { bytesOf, packPayload } from "../shared/packing.js";
import { changeOf, effectFields, KINDS_OF_MAPS, lensFields, logProbOf, payloadOf, quantityFields, rolloutOf } from "./payload.js";

/*
 * Questions {id, ask, …}, each answered once by {id, …} or by {id, failed: one line}:
 *   open {direction, weights: ArrayBuffer, sha256, plain?} or {direction, stored: as `readWeights` returns} → {about, config, simd: whether products run as WebAssembly};
 *     refuses weights with another SHA-256; plain: without WebAssembly
 *   speak {direction, codes, names: both [of the source, of the target]} → {}: the languages of a network with codes, from now on
 *   translate {direction, text, target: string | null, beam, edits, view: Link | null, request: number | null}
 *     → {payload: of the pass under the edits, translation: of the pass without them}
 *   edited {edits, command} → {edits}: the text form of all edits after a command of the explorer
 *   again {} → {answer}: a packed `Answer` that the explorer did not request, with the translation of the sentence translated
 *     last, searched under its edits
 *   answer {name, value} → {answer}: a packed `Answer` to a request of the explorer; see `Requests` in types.js
 *   checks {} → {answer}: a packed `Answer` that the explorer did not request, with the checks of the pass translated last
 *   npz {} → {npz, name}: the record of that pass as a file
 *   inspect {direction, text, beam, edits} → {record: {source, target, translation, ids, logProbs, maps}}
 *   lesson {direction, text, beam, edits} → {payload, again}: the translation is found without edits; `payload` is a pass
 *     over it under `edits`. It also has float32 `positions`, the encodings added
 *     to the source tokens [token, dimension], and says whether scores are `scaled` and in which `order` positions are told apart: ""
 *     by a table, "-bias" by distance, "-nothing". `again` is a new translation under `edits`, or null if `edits` removes the
 *     causal mask
 *   states {mode: "copy" | "push", direction, text, other, beam, turn, way, copied, pushed, asked: the push that was chosen | null} → {data}:
 *     `CopyData` or `PushData`, with the text form of its `edits`; pictures {direction, text, other, beam, way, copied, about} →
 *     {pictures}: `CopyPictures`
 * `inspect`, `lesson`, `states` and `pictures` leave the pass translated last as it is. A new `translate` fails every
 * `translate`, `again` and `checks` that still waits. It also interrupts head effects, which take
 * longest, so that fast typing builds no queue.
 */
const QUESTIONS = { open, speak, translate: show, edited, again, answer, checks, npz, inspect: inspectText, lesson, states, pictures };

/* Records kept, so that the unedited pass need not run again when an edit changes. */
const MOST_RECORDS = 4;

/* Weights of a network: the effects of a larger one's heads and its states take long, so they are computed only if somebody asks. */
const MOST_UNASKED = 20e6;

const networks = new Map();
const records = new Map();
/* By record: the function that makes its checks. They wait until the maps are painted. */
const unchecked = new WeakMap();
/* What was translated last: {direction, text, beam, edits, before, after}. */
let shown = null;
/* The quantity that the explorer wants, for later sentences too. */
let wanted = "weights";

async function open({ direction, weights, sha256: expected, plain = false, stored: given = null }) {
  const stored = given ?? (await checkedWeights(weights, expected));
  const { about, config } = stored;
  // Records of rounded weights must not pass for those of the checkpoint.
  if (about.precision === "int8") Object.assign(about, { name: `${about.name} (8-bit)`, weights_sha256: expected });
  const network = await makeNetwork(stored, { plain });
  networks.set(direction, { network, means: stored.means, lens: stored.lens, imported: stored.imported ?? null, functionWords: new Set(stored.function_words), tokenizers: tokenizersOf(stored) });
  return { about, config, simd: network.heap.kernel !== null };
}

function speak({ direction, codes: [from, to], names: [source, target] }) {
  const { network, tokenizers } = networks.get(direction);
  for (const side of /** @type {const} */ (["source", "target"])) tokenizers[side] = tokenizers[side].between(from, to);
  network.about = { ...network.about, source_language: source, target_language: target };
  records.clear();
  return {};
}

async function checkedWeights(weights, expected) {
  const found = await sha256(new Uint8Array(weights));
  if (found !== expected) {
    const sums = `SHA-256 ${found.slice(0, 8)}\u2026 instead of ${expected.slice(0, 8)}\u2026`;
    throw new InputError(`The weights in this file are damaged (${sums}): copy or download the file again.`);
  }
  return readWeights(new Uint8Array(weights));
}

function edited({ edits, command }) {
  return { edits: changedEdits(edits, command) };
}

/** Return the record of a pass, made now or taken from those kept. @returns {Promise<PassRecord>} */
async function recordOf(direction, text, { beam, edits = NO_EDITS, target = null }) {
  const name = JSON.stringify([direction, text, beam, editsText(edits), target]);
  const { network, tokenizers } = networks.get(direction);
  let record = records.get(name);
  records.delete(name);
  if (!record) {
    const made = inspectUnchecked(network, tokenizers, text, { beam, edits, target });
    record = made.record;
    record.id = await identityOf(record);
    unchecked.set(record, made.makeChecks);
  }
  records.set(name, record); // used last, so dropped last
  if (records.size > MOST_RECORDS) records.delete(records.keys().next().value);
  return record;
}

async function show({ direction, text, target, beam, edits: written, view, request = null }) {
  const { network, means, lens, imported, tokenizers } = networks.get(direction);
  const before = await recordOf(direction, text, { beam, target });
  const problems = [];
  const fitting = fitEdits(parseEdits(written, problems), network.config, before.source.length);
  problems.push(...fitting.problems);
  let [edits, after] = [fitting.edits, before];
  if (listEdits(edits).length) {
    try {
      after = await recordOf(direction, text, { beam, edits, target: before.targetOut.map(({ id }) => id) });
    } catch (error) {
      if (!(error instanceof InputError || error instanceof RangeError)) throw error; // RangeError: the edits exceed this network
      problems.push(error.message);
      edits = NO_EDITS;
    }
  }
  const next = { direction, text, beam, edits, before, after };
  const isEdited = after !== before;
  /** @type {Quantity[]} */
  const offered = ["scores", "norms", "rollout"];
  if (isEdited) offered.unshift("change");
  const whatIf = {
    text: editsText(edits),
    edits: listedEdits(listEdits(edits), before, (id) => tokenizers.target.token(id)),
    problems,
    before: logProbOf(before),
    change: isEdited ? Array.from(after.logProbs, (logProb, t) => Number(Math.fround(logProb - before.logProbs[t]).toFixed(6))) : null,
    request,
    means: edits.headsMean.length ? means : null,
  };
  const quantities = offered.find((name) => name === wanted) ? { [wanted]: quantityOf(next, wanted) } : {};
  const checked = unchecked.has(after) ? "pending" : "here";
  const payload = packPayload(payloadOf(after, { view: openingView(before, view), offered, quantities, whatIf, before: isEdited ? before : null, checked, hasLens: lens !== null, imported, isLarge: network.about.parameters > MOST_UNASKED }));
  shown = next;
  return { payload, translation: before.translation };
}

/** The scores, value norms, rollout or change of a pass, under its edits. @returns {Record<Kind, Float32Array>} */
function quantityOf({ direction, edits, before, after }, name) {
  if (name === "change") return changeOf(after, before);
  if (name === "rollout") return rolloutOf(after);
  const { network } = networks.get(direction);
  const capture = { [name]: true };
  const ids = (tokens) => tokens.map(({ id }) => id);
  network.free();
  network.decode(ids(after.targetIn), network.encode(ids(after.source), edits, capture), edits, capture);
  return /** @type {any} */ (Object.fromEntries(KINDS_OF_MAPS.map((kind) => [kind, capture[kind][name]])));
}

function again() {
  const { direction, text, beam, edits, before, after } = shown;
  const { network, tokenizers } = networks.get(direction);
  const found = { translation: "", target: [], log_prob: 0, search: beam === 1 ? "greedy" : `beam ${beam}`, own: "" };
  try {
    found.own = before.decode ? before.translation : translate(network, tokenizers, text, { beam }).text;
    const { text: translation, hypotheses: [{ ids, logProb }] } = translate(network, tokenizers, text, { beam, edits });
    Object.assign(found, { translation, log_prob: logProb, target: ids.map((id) => tokenizers.target.token(id)) });
  } catch (error) {
    found.problem = lineOf(error);
  }
  return { answer: packPayload({ sentence: after.id, name: "again", request: null, again: found }) };
}

const ANSWERS = {
  quantity({ quantity }) {
    wanted = quantity;
    return quantity === "weights" ? {} : quantityFields(shown.after, { [quantity]: quantityOf(shown, quantity) });
  },
  lens: async () => {
    const { network, lens, tokenizers } = networks.get(shown.direction);
    return lensFields(await readings(network, shown.after, giveWay), tokenizers.target, lens);
  },
  effects: async () => effectFields(await headEffects(networks.get(shown.direction).network, shown.after, giveWay)),
};

/* Let a translation that has come in the meantime go first. */
async function giveWay() {
  await otherMessages();
  if (waiting.some(({ ask }) => ask === "translate")) throw new Interrupted();
}

class Interrupted extends Error {}

/* A failure is an answer, too. A request about a sentence that is no longer shown fails. */
async function answer({ name, value }) {
  const { request, sentence = shown.after.id } = value;
  const fields = { sentence, name, request };
  try {
    if (sentence !== shown.after.id) throw new InputError("another sentence is shown now");
    return { answer: packPayload({ ...fields, ...(await ANSWERS[name](value)) }) };
  } catch (error) {
    if (error instanceof Interrupted) throw error;
    const what = { effects: "effect of each head", lens: "reading of the states" }[name] ?? value.quantity;
    return { answer: packPayload({ ...fields, failed: `The ${what} could not be computed: ${lineOf(error)}` }) };
  }
}

/* Make the checks of the shown record, once. */
function checkShown() {
  const { after } = shown;
  if (unchecked.has(after)) after.checks = unchecked.get(after)();
  unchecked.delete(after);
  return after;
}

function checks() {
  const record = checkShown();
  return { answer: packPayload({ sentence: record.id, name: "checks", request: null, checked: "here", checks: record.checks }) };
}

function npz() {
  const after = checkShown();
  return { npz: npzOf(after), name: `headlight-${after.id}.npz` };
}

/* For programs: see `window.headlight` in main.js. */
function inspectText({ direction, text, beam, edits }) {
  const { network, tokenizers } = networks.get(direction);
  const problems = [];
  const parsed = parseEdits(edits, problems);
  if (problems.length) throw new InputError(problems[0]);
  const { source, targetOut, translation, logProbs, encoder, decoder, cross } = inspectUnchecked(network, tokenizers, text, { beam, edits: parsed }).record;
  const texts = (tokens) => tokens.map((token) => token.text);
  const ids = targetOut.map(({ id }) => id);
  return { record: { source: texts(source), target: texts(targetOut), translation, ids, logProbs, maps: { encoder, decoder, cross } } };
}

/* For the lessons on masks and positions. */
async function lesson({ direction, text, beam, edits: written }) {
  const { network, tokenizers } = networks.get(direction);
  const before = await recordOf(direction, text, { beam });
  const edits = parseEdits(written);
  const target = before.targetOut.map(({ id }) => id);
  const after = written ? await recordOf(direction, text, { beam, edits, target }) : before;
  const { scale_scores: scaled, position_table, relative_buckets } = network.config;
  const order = position_table !== "none" ? "" : relative_buckets ? "-bias" : "-nothing";
  const more = { positions: bytesOf(before.sourcePositions), scaled, order };
  const payload = packPayload({ ...payloadOf(after, { view: {}, offered: [] }), ...more });
  return { payload, again: edits.causalMask ? translate(network, tokenizers, text, { beam, edits }).text : null };
}

/* The network of a question, and its passes. @returns {import("./states_answers.js").Passes} */
function passesOf({ direction, beam }) {
  const { network, tokenizers, lens, functionWords } = networks.get(direction);
  return {
    network,
    tokenizer: tokenizers.target,
    functionWords,
    hasLens: lens !== null,
    inspect: (text, options = {}) => recordOf(direction, text, { beam, ...options }),
    translate: (text, edits) => translate(network, tokenizers, text, { beam, edits }).text,
    pause: giveWay,
  };
}

async function states(question) {
  return { data: await (question.mode === "push" ? pushData : copyData)(passesOf(question), question) };
}

async function pictures(question) {
  return { pictures: await copyPictures(passesOf(question), question) };
}

/** An error as one line. @param {Error} error */
const lineOf = ({ message }) => message.replace(/\s+/g, " ").trim().slice(0, 300);

/* The worker sends itself a message, so that newer messages arrive before it goes on. */
const turns = new MessageChannel();
turns.port1.start();
const otherMessages = () =>
  new Promise((resolve) => {
    turns.port1.addEventListener("message", resolve, { once: true });
    turns.port2.postMessage(null);
  });

const waiting = [];
let working = false;

async function work() {
  working = true;
  for (await otherMessages(); waiting.length; await otherMessages()) {
    const { id, ask, ...question } = waiting.shift();
    try {
      reply({ id, ...(await QUESTIONS[ask](question)) });
    } catch (error) {
      if (error instanceof Interrupted) waiting.push({ id, ask, ...question });
      else reply({ id, failed: lineOf(error) });
    }
  }
  working = false;
}

/* Transfer byte arrays instead of copying them: the worker does not need them any more. */
const reply = (message) => self.postMessage(message, { transfer: [message.payload, message.answer, message.npz].flatMap((bytes) => bytes?.buffer ?? []) });

/* A new translation fails every `translate`, `again` and `checks` that still waits. */
function accept(question) {
  if (question.ask === "translate") {
    for (let at = waiting.length - 1; at >= 0; at--) {
      if (!["translate", "again", "checks"].includes(waiting[at].ask)) continue;
      reply({ id: waiting[at].id, failed: "A newer translation was asked for." });
      waiting.splice(at, 1);
    }
  }
  waiting.push(question);
  if (!working) work();
}

self.addEventListener("message", ({ data }) => accept(data));

/* Hold a lock for life, so that the page learns of the worker's end. Without locks it only says that an answer takes long. */
if (self.name) {
  const forLife = () => {
    reply({ lock: self.name });
    return new Promise(() => {});
  };
  navigator.locks?.request(self.name, forLife).catch(() => {});
}
