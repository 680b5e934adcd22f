// Reads passes for the lessons from payloads, and compares two passes of one target. No DOM.

import { asFloats, unpack, unpackBits } from "../shared/bytes.js";
import { bytesOf, packBits, packPayload } from "../shared/packing.js";

/**
 * Read a payload whose maps are float32 numbers, not quantised, as the worker sends them.
 * @param {Uint8Array} packed
 * @returns {Pass}
 */
export function readPass(packed) {
  const raw = unpack(packed);
  const [S, T] = [raw.source.length, raw.target_out.length];
  const pass = {
    source: raw.source,
    targetIn: raw.target_in,
    targetOut: raw.target_out,
    languages: { source: raw.source_language, target: raw.target_language },
    heads: raw.heads,
    layers: raw.layers,
    probabilities: Array.from(asFloats(raw.log_probs), (logProb) => Math.exp(Math.min(0, logProb))), // not rounded
    text: raw.source_text,
    translation: raw.translation,
    maps: {},
    masks: {},
    positions: asFloats(raw.positions),
    scaled: raw.scaled,
    order: raw.order,
  };
  for (const kind of /** @type {Kind[]} */ (["encoder", "decoder", "cross"])) {
    const cells = (kind === "encoder" ? S : T) * (kind === "decoder" ? T : S);
    pass.masks[kind] = unpackBits(raw[`${kind}_mask`], cells);
    pass.maps[kind] = spread(asFloats(raw[kind]), pass.masks[kind], raw.layers[kind] * raw.heads[kind]);
  }
  return /** @type {Pass} */ (pass);
}

/* Put the unmasked cells of each map back in place; masked cells are 0. */
function spread(numbers, mask, maps) {
  const whole = new Float32Array(maps * mask.length);
  let at = 0;
  for (let map = 0; map < maps; map++) {
    mask.forEach((unmasked, cell) => {
      if (unmasked) whole[map * mask.length + cell] = numbers[at++];
    });
  }
  return whole;
}

const withNumbers = (tokens, first) => tokens.map((token, place) => ({ ...token, number: first + place }));

/* Axes of a kind's maps: tokens with their numbers, and words for their role. */
function axesOf({ source, targetIn, targetOut, languages }, kind) {
  const keys = kind === "decoder" ? withNumbers(targetIn, 0) : withNumbers(source, 1);
  const language = kind === "decoder" ? languages.target : languages.source;
  const queries = kind === "encoder" ? withNumbers(source, 1) : withNumbers(targetOut, 1);
  const role = kind === "encoder" ? `${languages.source} token being read` : `${languages.target} token being produced`;
  return { queries: { tokens: queries, words: role }, keys: { tokens: keys, words: `${language} token` } };
}

/**
 * Return the packed data of a row of maps: a kind's maps before and after a change, and after − before. Each map hatches
 * the cells that its own pass masks. The difference hatches only cells that both passes mask.
 * @param {Kind} kind
 * @param {[Pass, Pass]} passes
 * @param {[MapName, MapName]} names
 */
export function rowOfPasses(kind, [before, after], names) {
  const mask = after.masks[kind].map((unmasked, cell) => unmasked | before.masks[kind][cell]);
  const difference = { name: `${names[1].name} \u2212 ${names[0].name.toLowerCase()}`, short: "difference", note: "" };
  const ones = Array.from({ length: before.layers[kind] }, () => Array(before.heads[kind]).fill(1));
  return packPayload({
    site: { encoder: "Encoder", decoder: "Decoder", cross: "Cross-attention" }[kind],
    layers: [...Array(before.layers[kind]).keys()],
    heads: before.heads[kind],
    ...axesOf(before, kind),
    maps: [
      ...names.map((name) => ({ ...name, word: "weight", limits: null })),
      { ...difference, word: "difference", limits: ones, minus: [1, 0] },
    ],
    opened: null,
    mask: packBits(mask),
    values_0: bytesOf(before.maps[kind]),
    mask_0: packBits(before.masks[kind]),
    values_1: bytesOf(after.maps[kind]),
    mask_1: packBits(after.masks[kind]),
  });
}

/**
 * Return the packed data of a row of maps with one matrix [token, token] on a scale from −limit to limit.
 * @param {SentToken[]} tokens
 * @param {Float32Array} values
 * @param {MapName & {word: string, site: string, titles: {query: string, key: string}}} named  titles: of the axes
 * @param {number} limit
 */
export function rowOfMatrix(tokens, values, { site, titles, ...named }, limit) {
  const side = { tokens: withNumbers(tokens, 1), words: "" };
  return packPayload({
    site,
    layers: [0],
    heads: 1,
    queries: side,
    keys: side,
    titles,
    maps: [{ ...named, limits: [[limit]] }],
    opened: null,
    mask: packBits(new Uint8Array(values.length).fill(1)),
    values_0: bytesOf(values),
  });
}

/** Count masked cells and all cells of one map. @param {Pass} pass @param {Kind} kind */
export function countMasked({ masks }, kind) {
  return { masked: masks[kind].filter((unmasked) => !unmasked).length, cells: masks[kind].length };
}

/**
 * Measure how the probabilities of the target's tokens change: their means, and how many rise and fall.
 * @param {Pass} before @param {Pass} after
 */
export function compareProbabilities(before, after) {
  const mean = ({ probabilities }) => probabilities.reduce((sum, p) => sum + p, 0) / probabilities.length;
  const changes = after.probabilities.map((p, token) => p - before.probabilities[token]);
  return {
    before: mean(before),
    after: mean(after),
    more: changes.filter((change) => change > 0).length,
    less: changes.filter((change) => change < 0).length,
  };
}

/**
 * Return the share of the decoder's attention that goes to later tokens, averaged over all layers
 * and heads, and over all rows except the last, which has no later token. Return 0 for a single
 * row.
 * @param {Pass} pass
 */
export function shareOnFuture({ maps: { decoder }, layers, heads, targetOut: { length } }) {
  if (length < 2) return 0;
  const cells = length * length;
  const rows = layers.decoder * heads.decoder * (length - 1);
  return decoder.reduce((sum, weight, at) => (at % length > Math.floor((at % cells) / length) ? sum + weight : sum), 0) / rows;
}
