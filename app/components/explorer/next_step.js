// The next step: the head that the pinned word needs most, the one that repairs the damage, and what an edit did, in a sentence.

import { bold, element } from "../shared/dom.js";
import { fixed, signed } from "../shared/numbers.js";
import { tokenName } from "../shared/tokens.js";
import { effectOf, pinnedProduced } from "./captions.js";
import { KINDS } from "./data.js";
import { editsOf, laterHeads, lookOf } from "./edited.js";
import { fatesOf } from "./edited_target.js";
import { focusOf, itemOfToken, itemsOf } from "./focus.js";
import { hasHeadPage } from "./link.js";
import { WEIGHTS } from "./maps.js";
import { request } from "./requests.js";
import { nextView } from "./view.js";
import { allHeads, allLayers } from "./words.js";

/* nats: a smaller effect is no step to offer. */
const LEAST_EFFECT = 0.1;

/* Tokens of the longer side: effects of longer sentences take seconds, so they are computed only if somebody asks for them. */
const MOST_TOKENS = 40;

/* ms after painting until effects are requested: a visitor who goes on at once does not wait for them. */
const PAUSE = 400;

/**
 * The produced token or word in question: the pinned one or, for the encoder, the one that was pinned last.
 * @param {Explorer} explorer
 */
function wordInQuestion(explorer) {
  if (explorer.view.kind !== "encoder") return pinnedProduced(explorer);
  const word = itemsOf(explorer, "produced")[itemOfToken(explorer, "produced", explorer.now.step)];
  return word?.special ? null : word;
}

/**
 * The head whose ablation changes the log-probability of some tokens most, as `better` ranks them.
 * @param {Explorer} explorer @param {number[]} tokens
 */
function bestHead({ data }, tokens, better, kinds = KINDS) {
  let best = null;
  const isOff = (kind, layer, head) => editsOf(data).some((one) => one.what === "off" && one.kind === kind && one.layer === layer && one.head === head);
  for (const kind of kinds) {
    for (let layer = 0; layer < data.layers[kind]; layer++) {
      for (let head = 0; head < data.headsOf[kind]; head++) {
        const nats = effectOf(data, kind, layer, head, tokens);
        if (!isOff(kind, layer, head) && (!best || better(nats, best.nats))) best = { kind, layer, head, nats };
      }
    }
  }
  return best;
}

/**
 * The head that the word in question needs most, as an edit with its label; null if it is not known or there is none.
 * @param {Explorer} explorer
 */
export function strongestHead(explorer) {
  const word = wordInQuestion(explorer);
  const head = explorer.data.effects && word ? bestHead(explorer, word.members, (a, b) => a < b) : null;
  if (!head || head.nats > -LEAST_EFFECT) return null;
  const label = `Switch off ${shortName(head)}, which \u201c${tokenName(word)}\u201d needs most (${signed(head.nats, 1)} nats)`;
  return { ...head, word, text: headText(head), label };
}

const headText = ({ kind, layer, head }) => `off.${kind}.${layer}.${head}`;

const shortName = ({ kind, layer, head }) => `${kind} head ${layer + 1}.${head + 1}`;

/**
 * The edit to offer next, and its words; null without effects, which decide it.
 * @param {Explorer} explorer
 * @returns {{command: string, head?: any, words: (string | Node)[], title?: string, inside?: boolean} | null}
 */
export function nextStep(explorer) {
  const { data, host } = explorer;
  if (!data.whatIf || !host.answers.has("edit") || !host.answers.has("effects")) return null;
  const edits = editsOf(data);
  const word = wordInQuestion(explorer);
  if (!edits.length) {
    const head = strongestHead(explorer);
    return head && { command: `+${head.text}`, head, words: ["Next: switch off the head that \u201c", bold(tokenName(head.word)), "\u201d needs most"], title: head.label };
  }
  const isFirst = edits.length === 1 && edits[0].what === "off";
  if (isFirst && !data.effects) return explorer.memory.asked === data.sentence && !explorer.requests.effects ? undoing(edits) : null;
  const damage = word && data.whatIf.change ? word.members.reduce((sum, token) => sum + data.whatIf.change[token], 0) : 0;
  if (isFirst && damage <= -LEAST_EFFECT) {
    const head = bestHead(explorer, word.members, (a, b) => a > b);
    if (head.nats >= LEAST_EFFECT) {
      const title = `Without ${shortName(head)} as well, the log-probability of \u201c${tokenName(word)}\u201d changes by ${signed(head.nats, 1)} nats.`;
      return { command: `+${headText(head)}`, head, words: ["Next: switch off a second head that repairs it"], title };
    }
  }
  const needed = edits.length === 2 && edits.find(({ text }) => text !== explorer.memory.repair?.text);
  const isRepaired = needed && edits.some(({ text }) => text === explorer.memory.repair?.text);
  if (isRepaired && hasHeadPage(explorer)) return { command: "", head: needed, inside: true, words: [`Next: see how ${shortName(needed)} gets its weights`] };
  return undoing(edits);
}

const undoing = ({ length }) => ({ command: "", words: [length === 1 ? "Next: undo the edit" : "Next: undo the edits"] });

/** @param {Explorer} explorer */
export function paintNextStep(explorer) {
  const button = explorer.dom.parts["next-step"];
  const step = nextStep(explorer);
  button.hidden = !step;
  if (!step) return;
  button.replaceChildren(...step.words);
  button.title = step.title ?? "";
  button.disabled = Boolean(explorer.requests.edit);
}

/**
 * Carry the offered edit out, and show the head that it switches off.
 * @param {Explorer} explorer
 * @param {(explorer: Explorer, change: object) => void} update
 * @param {(explorer: Explorer, command: string, repair?: Explorer["memory"]["repair"]) => void} edit
 */
export function takeNextStep(explorer, update, edit) {
  const step = nextStep(explorer);
  if (!step || explorer.requests.edit) return;
  const word = wordInQuestion(explorer);
  const { data } = explorer;
  const isRepair = step.head && editsOf(data).length > 0;
  const repair = isRepair ? { text: headText(step.head), from: logProbOf(data, word), isGone: fateOf(data, word)?.isSame === false } : null;
  if (step.head) {
    const { kind, layer, head } = step.head;
    explorer.now.wanted = WEIGHTS;
    update(explorer, { quantity: WEIGHTS, kind, layer, head });
  }
  if (step.inside) return explorer.dom.parts.inside.click();
  edit(explorer, step.command, repair);
}

const logProbOf = ({ logProbs }, { members }) => members.reduce((sum, token) => sum + logProbs[token], 0);

/** What becomes of the word that a token or word belongs to. @param {Readonly<RecordData>} data */
function fateOf(data, { members: [token] }) {
  const words = data.items.words.produced;
  return fatesOf(data)?.fates[words.findIndex(({ members }) => members.includes(token))] ?? null;
}

/**
 * What the edits did, as nodes of a sentence; null without edits, before the new translation and while pointing at something.
 * @param {Explorer} explorer
 * @returns {(string | Node)[] | null}
 */
export function editResult(explorer) {
  const { data, memory } = explorer;
  const edits = editsOf(data);
  if (!edits.length || !data.whatIf.change || !data.again || data.again.problem || focusOf(explorer).previewed) return null;
  const word = wordInQuestion(explorer);
  if (!word) {
    const sum = data.whatIf.change.reduce((total, change) => total + change, 0);
    return [`${subject(explorer, edits)} the log-probability of the translation ${course(data.whatIf.before, data.whatIf.before + sum)}.`];
  }
  const after = logProbOf(data, word);
  const before = after - word.members.reduce((sum, token) => sum + data.whatIf.change[token], 0);
  const fate = word.special ? null : fateOf(data, word);
  const name = bold(fate?.block ? fate.block.old.join(" ") : tokenName(word));
  const repaired = memory.repair && edits.length === 2 ? edits.find(({ text }) => text === memory.repair.text) : null;
  const start = repaired ? `Without ${shortName(repaired)} as well ` : `${subject(explorer, edits)} `;
  if (!fate) return [start, "the log-probability of ", name, ` ${course(before, after)}.`];
  const what = fate.isSame
    ? [repaired && memory.repair.isGone ? " comes back" : " stays"]
    : (fate.block?.now ?? fate.words).length ? [" becomes ", edited((fate.block?.now ?? fate.words).join(" "))] : [" is no longer written"];
  if (repaired) return [start, name, ...what, `: its log-probability ${course(memory.repair.from, after)}.`];
  const moved = movedLooks(explorer, word);
  // Of a word that stays, one head more or less says little.
  if (!moved || (fate.isSame && moved.count === 1)) return [start, name, ...what, `: its log-probability ${course(before, after)}.`];
  return [start, name, ...what, fate.isSame ? ", but " : ": ", ...moved.words];
}

const edited = (words) => element("b", "edited", words);

function course(from, to) {
  const [before, after] = [fixed(from, 1), fixed(to, 1)];
  return before === after ? `is still ${after}` : `goes from ${before} to ${after}`;
}

/** @param {Explorer} explorer */
function subject({ data, view }, edits) {
  const off = edits.filter(({ what }) => what === "off");
  if (off.length < edits.length) return edits.length === 1 ? "With this edit" : `With these ${edits.length} edits`;
  const [{ kind, layer, head }] = off;
  if (off.length > 1) return `Without these ${off.length} heads`;
  const isShown = kind === view.kind && layer === view.layer && head === view.head;
  return isShown && !allHeads(data, view) && !allLayers(data, view) ? "Without it" : `Without ${shortName(off[0])}`;
}

/**
 * How many later heads moved the word's row from one key to another: the pair of keys that most of them share.
 * @param {Explorer} explorer
 */
function movedLooks({ data, view }, { members: [query, ...more] }) {
  const kind = view.kind === "decoder" ? "decoder" : "cross";
  if (more.length) return null;
  const heads = laterHeads(data, kind);
  const counts = new Map();
  for (const [layer, head] of heads) {
    const look = lookOf(data, kind, layer, head, query);
    if (look && look.before !== look.now) counts.set(`${look.before} ${look.now}`, (counts.get(`${look.before} ${look.now}`) ?? 0) + 1);
  }
  if (!counts.size) return null;
  const [pair, count] = [...counts].reduce((a, b) => (b[1] > a[1] ? b : a));
  const keys = data.sides[kind === "decoder" ? "fed" : "source"];
  const [before, now] = pair.split(" ").map((place) => tokenName(keys[Number(place)]));
  const all = count === heads.length && count > 1 ? `all ${count}` : `${count} of the ${heads.length}`;
  return { count, words: [`${all} later ${kind} heads now ${count === 1 ? "looks" : "look"} at `, edited(now), ", not at ", bold(before), "."] };
}

/**
 * Request the head effects that the next step needs, once per record, some time after it was painted and while the browser is
 * idle. With edits, wait for the new translation, which the same queue computes.
 * @param {Explorer} explorer
 */
export function scheduleNextStep(explorer) {
  clearTimeout(explorer.stepTimer);
  const { data, host, memory, requests } = explorer;
  const edits = editsOf(data);
  if (Math.max(data.sides.source.length, data.sides.produced.length) > MOST_TOKENS || data.effectsIfAsked) return;
  const isDecided = edits.length > 1 || (edits.length === 1 && (edits[0].what !== "off" || !data.again));
  if (!data.whatIf || !host.answers.has("edit") || !host.answers.has("effects") || data.effects || requests.effects || isDecided || memory.asked === data.sentence) return;
  const ask = () => {
    if (explorer.data.sentence !== data.sentence || explorer.data.effects || requests.effects || requests.edit) return;
    memory.asked = data.sentence;
    request(explorer, "effects", { sentence: data.sentence }, {
      what: "The effect of each head",
      take: ({ effects }) => effects !== null,
      giveUp: () => paintNextStep(explorer),
      isQuiet: true,
    });
  };
  explorer.stepTimer = setTimeout(() => (window.requestIdleCallback ? window.requestIdleCallback(ask) : ask()), PAUSE);
}

/**
 * Pin the word that one head changes most, in that head, if the page opened with a view that no link named and the visitor has not
 * done anything yet.
 * @param {Explorer} explorer
 */
export function openAtLargestEffect(explorer) {
  const { data, memory, now } = explorer;
  if (!memory.suggested || !data.effects) return;
  const isUntouched = !memory.chosen && !focusOf(explorer).previewed && !now.stepping && !editsOf(data).length;
  memory.suggested = false;
  if (!isUntouched) return;
  const kinds = KINDS.filter((kind) => kind !== "encoder" && data.layers[kind]);
  const words = data.items.pieces.produced.filter(({ special, punctuation }) => !special && !punctuation);
  const found = words.map((word) => ({ word, head: bestHead(explorer, word.members, (a, b) => Math.abs(a) > Math.abs(b), kinds) }));
  const best = found.reduce((a, b) => (b.head && Math.abs(b.head.nats) > Math.abs(a?.head?.nats ?? 0) ? b : a), null);
  if (!best || Math.abs(best.head.nats) < LEAST_EFFECT) return;
  const { kind, layer, head } = best.head;
  const [query] = best.word.members;
  explorer.view = nextView(data, nextView(data, explorer.view, { kind, layer, head, unit: "pieces" }), { pinned: { query, key: null } });
  now.step = query;
}
