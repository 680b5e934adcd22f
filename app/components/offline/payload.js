// Turns a record of the worker into the explorer's payload, as explorer/payload.py does, and computes its rollout.

import { SIDES } from "../network/lens.js";
import { bytesOf, packBits } from "../shared/packing.js";

/** @type {Kind[]} */
export const KINDS_OF_MAPS = ["encoder", "decoder", "cross"];

/**
 * @template T
 * @param {(kind: Kind) => T} valueOf
 */
const forKinds = (valueOf) =>
  /** @type {Record<Kind, T>} */ (Object.fromEntries(KINDS_OF_MAPS.map((kind) => [kind, valueOf(kind)])));

/**
 * Return the payload of a record: JSON values and, at the top level, byte strings. They hold masks
 * as bits, and all other numbers as float32.
 * @param {PassRecord} record
 * @param {{view: Link, offered: Quantity[], quantities?: Record<string, Record<Kind, Float32Array>>,
 *   whatIf?: WhatIf | null, before?: PassRecord | null, checked?: "here" | "pending", hasLens?: boolean, imported?: Imported | null, isLarge?: boolean}} shown  offered: quantities that can be requested besides the
 *   weights; quantities: those to send along; before: of an edited pass, the one without edits; checked: "pending" if the checks follow as an answer
 * @returns {Payload}
 * @throws {RangeError} for a map that is not finite or outside 0..1, or a quantity that is not finite
 */
export function payloadOf(record, { view, offered, quantities = {}, whatIf = null, before = null, checked = "here", hasLens = false, imported = null, isLarge = false }) {
  for (const kind of KINDS_OF_MAPS) {
    if (!record[kind].every((weight) => weight >= 0 && weight <= 1 + 1e-4)) throw new RangeError(`the ${kind} maps contain a value outside 0..1`);
  }
  const { masks } = record;
  return {
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
    checks: record.checks,
    checked,
    source: record.source,
    target_in: record.targetIn,
    target_out: record.targetOut,
    alternatives: record.alternatives,
    log_probs: bytesOf(record.logProbs),
    alternative_log_probs: bytesOf(record.alternativeLogProbs),
    view,
    offered: ["weights", ...offered],
    what_if: whatIf,
    together: null,
    ...(imported ? { imported } : {}),
    ...(hasLens ? { lens_offer: { unasked: !isLarge } } : {}),
    ...(isLarge ? { effects_if_asked: true } : {}),
    ...Object.fromEntries(KINDS_OF_MAPS.map((kind) => [kind, bytesOf(unmaskedNumbers(record[kind], masks[kind]))])),
    ...Object.fromEntries(KINDS_OF_MAPS.map((kind) => [`${kind}_mask`, packBits(masks[kind])])),
    ...Object.fromEntries(before ? KINDS_OF_MAPS.map((kind) => [`looked_at_${kind}`, lookedAt([before, record], kind)]) : []),
    ...quantityFields(record, quantities),
  };
}

/** The unmasked key with the most weight in each row, for each record [layer, head, query], as two bytes. @param {PassRecord[]} records @param {Kind} kind */
function lookedAt(records, kind) {
  const keysOf = (/** @type {PassRecord} */ { masks, source, targetIn, ...maps }) => {
    const [weights, mask] = [maps[kind], masks[kind]];
    const keys = (kind === "decoder" ? targetIn : source).length;
    return Array.from({ length: weights.length / keys }, (_, row) => {
      let best = -1;
      for (let key = 0; key < keys; key++) {
        const cell = row * keys + key;
        if (mask[cell % mask.length] && (best < 0 || weights[cell] > weights[row * keys + best])) best = key;
      }
      return Math.max(0, best);
    });
  };
  return bytesOf(Uint16Array.from(records.flatMap(keysOf)));
}

/** Return the log-probability of the whole target, in nats. @param {PassRecord} record */
export const logProbOf = ({ logProbs }) => logProbs.reduce((sum, logProb) => sum + logProb, 0);

/**
 * Return the fields of quantities: their unmasked cells, and their ranges. A range includes 0, so
 * that the colour scale of lengths starts at 0. Throws RangeError for a number that is not finite.
 * @param {PassRecord} record
 * @param {Record<string, Record<Kind, Float32Array>>} quantities
 * @returns {{quantities: Record<string, SentQuantity>}}
 */
export function quantityFields({ heads, masks }, quantities) {
  const fields = { quantities: {} };
  for (const [name, arrays] of Object.entries(quantities)) {
    const range = forKinds((kind) => {
      const numbers = unmaskedNumbers(arrays[kind], masks[kind]);
      fields[`${name}_${kind}`] = bytesOf(numbers);
      let [low, high] = [0, -Infinity];
      for (const number of numbers) {
        if (!Number.isFinite(number)) throw new RangeError(`the ${name} of the ${kind} contain a number that is not finite`);
        low = Math.min(low, number);
        high = Math.max(high, number);
      }
      return [low, name === "rollout" ? 1 : high];
    });
    fields.quantities[name] = { levels: null, heads: name === "rollout" ? 1 : heads, range };
  }
  return fields;
}

/** Return the fields of head effects, [layer, head, target token] in nats. @param {Record<Kind, Float32Array>} effects */
export const effectFields = (effects) => ({
  effects: true,
  ...Object.fromEntries(KINDS_OF_MAPS.map((kind) => [`effects_${kind}`, bytesOf(effects[kind])])),
});

/**
 * Return the fields of what the states say, as `lens_answer` in explorer/payload.py does.
 * @param {Record<Side, import("../network/lens.js").Reading>} found
 * @param {import("../network/subwords.js").Tokenizer} tokenizer
 * @param {LensFacts} facts
 */
export function lensFields(found, tokenizer, facts) {
  const ids = [...new Set(SIDES.flatMap((side) => [...found[side].ids, ...found[side].logitIds]))].toSorted((a, b) => a - b);
  const places = new Map(ids.map((id, index) => [id, index]));
  const fields = {};
  const add = (name, numbers) => (fields[`lens_${name}`] = bytesOf(Float32Array.from(numbers)));
  for (const side of SIDES) {
    const { ids: said, logitIds, probabilities, ranks } = found[side];
    add(`${side}_ids`, said.map((id) => places.get(id)));
    add(`${side}_logit_ids`, logitIds.map((id) => places.get(id)));
    add(`${side}_probabilities`, probabilities);
    add(`${side}_ranks`, ranks);
  }
  return { lens: { tokens: ids.map((id) => tokenizer.token(id)), ...facts }, ...fields };
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

/** Return the change of each map, after minus before. @param {PassRecord} after @param {PassRecord} before */
export const changeOf = (after, before) => forKinds((kind) => after[kind].map((weight, cell) => weight - before[kind][cell]));

/**
 * Compute how much of each input reaches each layer's output, [layer, 1, query, key] (Abnar & Zuidema 2020, §3). In
 * self-attention, it is the product of ½(Ā + I) over the layers so far; Ā is the mean of a layer's heads. In
 * cross-attention, it is Ā times the encoder's full rollout.
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
function meanMaps({ heads: byKind, layers, masks, ...maps }, kind) {
  const cells = masks[kind].length, heads = byKind[kind];
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
