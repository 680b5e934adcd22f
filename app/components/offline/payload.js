// Turns a record of the worker into the explorer's payload, field by field as explorer/payload.py and core/analysis/rollout.py.

import { describeToken, shortLabel } from "./labels.js";

/** @type {Kind[]} */
const MAP_KINDS = ["encoder", "decoder", "cross"];

/**
 * @template T
 * @param {(kind: Kind) => T} valueOf
 */
const forKinds = (valueOf) =>
  /** @type {Record<Kind, T>} */ (Object.fromEntries(MAP_KINDS.map((kind) => [kind, valueOf(kind)])));

/** Convert nats to a probability, rounded to six digits. */
const probabilityOf = (logProb) => Number(Math.exp(Math.min(0, logProb)).toFixed(6));

/** Numbers as little-endian bytes, without a copy. @param {Float32Array | Uint8Array} numbers */
export const bytesOf = (numbers) => new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength);

/**
 * Return the payload of a record: JSON values and, at the top level, byte strings. All numbers are float32.
 * @param {PassRecord} record
 * @param {{view: Link, quantities?: Record<string, Record<Kind, Float32Array> | null>, whatIf?: WhatIf | null,
 *   effects?: Record<Kind, Float32Array> | null, failed?: Record<string, string>}} shown  quantities: null for those
 *   that have to be requested
 * @throws {RangeError} for a map that is not finite or outside 0..1, or a quantity that is not finite
 */
export function payloadOf(record, { view, quantities = {}, whatIf = null, effects = null, failed = {} }) {
  for (const kind of MAP_KINDS) {
    if (!record[kind].every((weight) => weight >= 0 && weight <= 1 + 1e-4)) throw new RangeError(`the ${kind} maps contain a value outside 0..1`);
  }
  const data = {
    sentence: record.id,
    model: record.model,
    weights_sha256: record.weightsSha256,
    source_text: record.sourceText,
    translation: record.translation,
    levels: null,
    heads: record.heads,
    layers: record.layers,
    source_language: record.sourceLanguage,
    target_language: record.targetLanguage,
    search: record.search,
    given_target: record.decode === null,
    log_prob: logProbOf(record),
    checks: record.checks,
    verdict: "here",
    source: record.source.map(describeToken),
    target_in: record.targetIn.map(describeToken),
    target_out: record.targetOut.map((token, t) => ({ ...describeToken(token), p: probabilityOf(record.logProbs[t]) })),
    alternatives: alternativesOf(record),
    inside: null,
    view,
    offered: ["weights", ...Object.keys(quantities)],
    quantities: {},
    failed,
    what_if: whatIf,
    offers_effects: true,
    together: null,
    effects: effects !== null,
  };
  for (const kind of MAP_KINDS) {
    data[kind] = bytesOf(unmaskedNumbers(record[kind], record.masks[kind]));
    data[`${kind}_mask`] = packBits(record.masks[kind]);
  }
  for (const [name, arrays] of Object.entries(quantities)) if (arrays) addQuantity(data, name, arrays, record.masks);
  if (effects) addEffects(data, effects);
  return data;
}

/** Return the log-probability of the whole target, in nats. @param {PassRecord} record */
export const logProbOf = ({ logProbs }) => logProbs.reduce((sum, logProb) => sum + logProb, 0);

/** Add a quantity's unmasked cells; the range includes 0, so that a length of 0 is the start of the scale. */
export function addQuantity(data, name, arrays, masks) {
  const range = forKinds((kind) => {
    const numbers = unmaskedNumbers(arrays[kind], masks[kind]);
    data[`${name}_${kind}`] = bytesOf(numbers);
    let [low, high] = [0, -Infinity];
    for (const number of numbers) {
      if (!Number.isFinite(number)) throw new RangeError(`the ${name} of the ${kind} contain a number that is not finite`);
      low = Math.min(low, number);
      high = Math.max(high, number);
    }
    return [low, name === "rollout" ? 1 : high];
  });
  data.quantities[name] = { levels: null, heads: name === "rollout" ? 1 : data.heads, range };
}

/** Add the change in each target token's log-probability when a head is ablated, [layer, head, target token]. */
export function addEffects(data, effects) {
  for (const kind of MAP_KINDS) data[`effects_${kind}`] = bytesOf(effects[kind]);
}

/*
 * The most probable tokens of each step as [label, probability, written]. The token written is always included; if
 * necessary it replaces the last one. `written` is 0, 1, or 2 for such a replacement.
 */
function alternativesOf({ targetOut, logProbs, alternatives, alternativeLogProbs }) {
  return alternatives.map((tokens, t) => {
    const own = targetOut[t];
    const row = tokens.map((token, k) => [token, alternativeLogProbs[t * tokens.length + k]]);
    const among = tokens.some(({ id }) => id === own.id);
    if (!among) row.splice(-1, 1, [own, logProbs[t]]);
    return row.map(([token, logProb]) => [shortLabel(token), probabilityOf(logProb), token.id !== own.id ? 0 : among ? 1 : 2]);
  });
}

/** Keep the unmasked cells of maps [layer, head, query, key]. */
function unmaskedNumbers(numbers, mask) {
  const cells = Uint32Array.from(mask.keys()).filter((cell) => mask[cell]);
  if (cells.length === mask.length) return numbers;
  const found = new Float32Array((numbers.length / mask.length) * cells.length);
  let at = 0;
  for (let map = 0; map < numbers.length; map += mask.length) for (const cell of cells) found[at++] = numbers[map + cell];
  return found;
}

/* One bit per cell, the first in the highest bit. */
function packBits(mask) {
  const bits = new Uint8Array((mask.length + 7) >> 3);
  mask.forEach((unmasked, cell) => (bits[cell >> 3] |= unmasked << (7 - (cell & 7))));
  return bits;
}

/** Return the change of each map, after minus before. @param {PassRecord} after @param {PassRecord} before */
export const changeOf = (after, before) => forKinds((kind) => after[kind].map((weight, cell) => weight - before[kind][cell]));

/**
 * Compute how much of each input reaches each layer's output, [layer, 1, query, key]: the product of ½(Ā + I) over the
 * layers so far; a cross-attention layer's mean weights times the encoder's full rollout (Abnar & Zuidema 2020, §3).
 * @param {PassRecord} record
 * @returns {Record<Kind, Float32Array>}
 */
export function rolloutOf(record) {
  const [S, T] = [record.source.length, record.targetOut.length];
  const encoder = selfRollout(record, "encoder", S);
  const decoder = selfRollout(record, "decoder", T);
  const whole = encoder.subarray(-S * S);
  return { encoder, decoder, cross: stacked(meanMaps(record, "cross").map((mean) => product(mean, whole, T, S))) };
}

function selfRollout(record, kind, N) {
  let soFar = null;
  const layers = meanMaps(record, kind).map((mean) => {
    const mixed = mean.map((weight, cell) => 0.5 * weight + (Math.floor(cell / N) === cell % N ? 0.5 : 0));
    return (soFar = soFar ? product(mixed, soFar, N, N) : mixed);
  });
  return stacked(layers);
}

/** Return each layer's weights, averaged over heads: one [query, key] per layer. */
function meanMaps({ heads, layers, masks, ...maps }, kind) {
  const cells = masks[kind].length;
  return Array.from({ length: layers[kind] }, (_, layer) => {
    const mean = new Float64Array(cells);
    for (let head = 0; head < heads; head++) {
      const start = (layer * heads + head) * cells;
      for (let cell = 0; cell < cells; cell++) mean[cell] += maps[kind][start + cell];
    }
    return mean.map((sum) => sum / heads);
  });
}

/* [rows, N] times [N, N]. */
function product(left, right, rows, N) {
  const result = new Float64Array(rows * N);
  for (let row = 0; row < rows; row++) {
    for (let n = 0; n < N; n++) {
      const factor = left[row * N + n];
      for (let column = 0; column < N; column++) result[row * N + column] += factor * right[n * N + column];
    }
  }
  return result;
}

function stacked(layers) {
  const whole = new Float32Array(layers.length * layers[0].length);
  layers.forEach((layer, index) => whole.set(layer, index * layer.length));
  return whole;
}

/**
 * Serialise a payload: header length, JSON header padded to a multiple of 4, byte strings padded likewise; the inverse
 * of `unpack` in shared/bytes.js.
 * @returns {Uint8Array<ArrayBuffer>}
 */
export function packPayload(data) {
  const header = {};
  const blobs = [];
  let at = 0;
  for (const [name, value] of Object.entries(data)) {
    if (!(value instanceof Uint8Array)) {
      header[name] = value;
      continue;
    }
    header[name] = { at, length: value.length };
    blobs.push([at, value]);
    at += Math.ceil(value.length / 4) * 4;
  }
  const text = new TextEncoder().encode(JSON.stringify(header));
  const start = 4 + Math.ceil(text.length / 4) * 4;
  const packed = new Uint8Array(start + at);
  new DataView(packed.buffer).setUint32(0, start - 4, true);
  packed.fill(0x20, 4, start).set(text, 4);
  for (const [offset, blob] of blobs) packed.set(blob, start + offset);
  return packed;
}
