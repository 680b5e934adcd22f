// Copies every state and every head's output from one sentence's pass into another's, as core/experiments/patching.py does.

import { alignWords } from "../shared/alignment.js";
import { groupWords } from "../shared/labels.js";
import { NO_EDITS } from "./edits.js";
import { InputError } from "./input.js";
import { BOS, idsOf } from "./subwords.js";

export const LEAST_DIFFERENCE = 0.5; // nats, below which a share is not defined

/** @typedef {"restore" | "damage"} Way  clean states into the corrupted pass, or corrupted states into the clean pass */
/** @typedef {{fed: number[], words: [number, number]}} Contrast  the common beginning, and the words of both translations after it */

/** The first step at which two translations differ; null if they are the same. @param {PassRecord} one @param {PassRecord} other */
export function firstDifference(one, other) {
  const at = one.targetOut.findIndex(({ id }, t) => t < other.targetOut.length && id !== other.targetOut[t].id);
  return at < 0 ? null : at;
}

/** Throws InputError, one line, for equal translations. @param {PassRecord} one @param {PassRecord} other @returns {Contrast} */
export function contrastOf(one, other) {
  const step = firstDifference(one, other);
  if (step === null) throw new InputError("both sentences have the same translation: there is no difference to restore");
  return { fed: [BOS, ...idsOf(one.targetOut).slice(0, step)], words: [one.targetOut[step].id, other.targetOut[step].id] };
}

/**
 * Positions of two passes that belong together: of source tokens by place if there are equally many, otherwise by a diff of
 * words; in the decoder, steps with equal tokens before them. Throws InputError for sources that cannot be paired.
 * @param {PassRecord} one @param {PassRecord} other @param {Side} side @returns {[number, number][]}
 */
export function pairsOf(one, other, side) {
  if (side === "encoder") return pairedTokens(one.source, other.source);
  const both = Math.min(one.targetIn.length, other.targetIn.length);
  return Array.from({ length: Math.min(both, (firstDifference(one, other) ?? both) + 1) }, (_, t) => [t, t]);
}

function pairedTokens(source, other) {
  if (source.length === other.length) return source.map((_, p) => [p, p]);
  const words = [source, other].map(groupWords);
  const texts = [source, other].map((tokens, side) => words[side].map((word) => word.map((p) => tokens[p].text).join("")));
  const { fates, before } = alignWords(texts[0], texts[1]), pairs = [];
  const pair = (at, place) => words[0][at].forEach((p, i) => i < words[1][place].length && pairs.push([p, words[1][place][i]]));
  let next = before.length; // of the other's words
  for (let at = 0; at < fates.length; ) {
    let [end, added] = [at + 1, fates[at].words.length];
    if (fates[at].isSame) pair(at, next);
    else {
      for (; end < fates.length && !fates[end].isSame; end++) added += fates[end].words.length;
      if (added === end - at) for (let i = 0; i < added; i++) pair(at + i, next + i);
    }
    [at, next] = [end, next + added];
  }
  if (pairs.every(([p]) => source[p].special))
    throw new InputError(`sentences of ${source.length} and ${other.length} tokens without a common word cannot be paired: choose two that differ in a word or two`);
  return pairs;
}

/**
 * The logit of a contrast's first word minus that of its second, under edits.
 * @param {import("./transformer.js").Transformer} network @param {number[]} source ids @param {Contrast} contrast
 * @param {import("./edits.js").Edits} edits @param {import("./transformer.js").Memory | null} memory  of that source, if it is encoded
 */
export function logitDifference(network, source, { fed, words: [first, second] }, edits = NO_EDITS, memory = null) {
  if (!memory) network.free();
  const logits = network.decode(fed, memory ?? network.encode(source, edits), edits);
  const last = logits.length - network.config.target_vocab_size;
  return logits[last + first] - logits[last + second];
}

/**
 * The share of the logit difference that each copy brings: of a side's states [layer, position], null for a position without a
 * partner, and of heads [layer, head]. `problem` says why there are none.
 * @param {import("./transformer.js").Transformer} network @param {PassRecord} clean @param {PassRecord} corrupted
 * @param {Way} way @param {Side} side @param {() => Promise<void>} pause called between layers; nothing else may run the network meanwhile
 */
export async function patchAll(network, clean, corrupted, way, side, pause = async () => {}) {
  const contrast = contrastOf(clean, corrupted);
  const [into, from] = way === "restore" ? [corrupted, clean] : [clean, corrupted];
  const same = contrast.fed.map((_, t) => [t, t]), partners = { encoder: pairsOf(into, from, "encoder"), decoder: same };
  const donor = { source: idsOf(from.source), target: contrast.fed }, source = idsOf(into.source);
  const [start, end] = [source, donor.source].map((ids) => logitDifference(network, ids, contrast));
  const difference = Math.abs(start - end), { num_encoder_layers, num_decoder_layers } = network.config;
  if (difference < LEAST_DIFFERENCE)
    return { cells: [], heads: {}, problem: `both sentences differ by ${difference.toFixed(2)} nats in these two words: below ${LEAST_DIFFERENCE} nats, shares are not defined` };
  let memory = null; // once copies no longer reach the encoder, it runs no more
  const share = (change) => (logitDifference(network, source, contrast, { ...NO_EDITS, donor, ...change }, memory) - start) / (end - start);
  const copies = (kind, layer, head) => partners[kind === "encoder" ? kind : "decoder"].map(([query, donorQuery]) => ({ kind, layer, head, query, donorQuery }));
  const layersOf = { encoder: num_encoder_layers, decoder: num_decoder_layers, cross: num_decoder_layers };
  const cells = [], heads = { cross: [], [side]: [] };
  for (const kind of /** @type {Kind[]} */ ([side, "cross"])) {
    if (kind !== "encoder" && !memory) {
      network.free();
      memory = network.encode(source, { ...NO_EDITS, donor, headPatches: copies("cross", 0, 0) });
    }
    for (let layer = 0; kind === side && layer <= layersOf[side]; layer++) {
      cells.push(Array.from({ length: side === "encoder" ? source.length : contrast.fed.length }, () => null));
      for (const [position, donorPosition] of partners[side]) cells[layer][position] = share({ patches: [{ side, layer, position, donorPosition }] });
      await pause();
    }
    for (let layer = 0; layer < layersOf[kind]; layer++) {
      heads[kind].push(Array.from({ length: into.heads[kind] }, (_, head) => share({ headPatches: copies(kind, layer, head) })));
      await pause();
    }
  }
  return { cells, heads, problem: "" };
}
