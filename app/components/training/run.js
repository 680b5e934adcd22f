// Decodes the snapshots of a training run, and builds the explorer's payload of one sentence at one point.

import { KINDS } from "../explorer/data.js";
import { asFloats, unpackBits } from "../shared/bytes.js";
import { fixed } from "../shared/numbers.js";
import { bytesOf, packPayload } from "../shared/packing.js";

/* Name of the group in which the explorer and the timeline follow each other. */
export const GROUP = "training";

/* Largest rounding error of a 16-bit float between 0.5 and 1. */
const HALF_ERROR = 2 ** -12;

/* Value of each 16-bit float from 0 to 1, by its bits. */
const HALVES = Float32Array.from({ length: 0x3c01 }, (_, bits) => {
  const [exponent, fraction] = [bits >> 10, bits & 1023];
  return exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : fraction * 2 ** -24;
});

/** @param {any} raw  `Training`, unpacked @returns {Run} */
export function decodeRun(raw) {
  const measures = Object.fromEntries(
    KINDS.map((kind) => [
      kind,
      raw.measures[kind].map((measure, n) => ({ ...measure, values: asFloats(raw[`measure_${kind}_${n}`]) })),
    ]),
  );
  return Object.freeze({ ...raw, measures, points: raw.steps.length, lastStep: raw.steps[raw.steps.length - 1] });
}

/* Bits of all weights of a kind and sentence: [point, layer, head, unmasked cell]. */
function bitsOf(run, kind, sentence) {
  const bytes = run[`maps_${kind}_${sentence}`];
  // A Uint16Array needs 2-byte alignment; copy when the message is unaligned.
  const even = bytes.byteOffset % 2 === 0 ? bytes : bytes.slice();
  return new Uint16Array(even.buffer, even.byteOffset, even.byteLength / 2);
}

/** The unmasked weights of all heads at a point: [layer, head, unmasked cell]. @param {Run} run */
function weightsAt(run, kind, sentence, point) {
  const bits = bitsOf(run, kind, sentence);
  const count = bits.length / run.points;
  return Float32Array.from(bits.subarray(point * count, (point + 1) * count), (half) => HALVES[half]);
}

export const stepName = ({ steps, lastStep }, point) => `step ${fixed(steps[point], 0)} of ${fixed(lastStep, 0)}`;

/**
 * The explorer's payload: weights alone, without probabilities.
 * @param {Run} run
 * @param {Link} view  the view that the explorer opens with
 */
export function explorerPayload(run, sentence, point, view) {
  const { source, target_in, target_out, source_text, translation } = run.sentences[sentence];
  /** @type {Payload} */
  const payload = {
    sentence: `${run.name}-${source_text}`,
    model: run.name,
    weights_sha256: "",
    source_text,
    translation,
    levels: null,
    error: HALF_ERROR,
    heads: run.heads,
    layers: run.layers,
    source_language: run.languages[0],
    target_language: run.languages[1],
    search: stepName(run, point),
    given_target: true,
    checks: [],
    checked: "elsewhere",
    source,
    target_in,
    target_out,
    alternatives: [],
    log_probs: new Uint8Array(0),
    alternative_log_probs: new Uint8Array(0),
    view,
    offered: ["weights"],
    quantities: {},
    what_if: null,
    together: GROUP,
    ...Object.fromEntries(KINDS.map((kind) => [kind, bytesOf(weightsAt(run, kind, sentence, point))])),
    ...Object.fromEntries(KINDS.map((kind) => [`${kind}_mask`, run[`mask_${kind}_${sentence}`]])),
  };
  return packPayload(payload);
}

/**
 * The heads behind a view: one, all of a layer, the same head of every layer, or all of the kind.
 * @param {Run} run
 * @param {{kind?: any, layer?: any, head?: any}} view
 * @returns {[number, number][]}
 */
export function headsOf(run, { kind, layer, head }) {
  const all = (count) => [...Array(count).keys()];
  const chosen = (value, count) => (/^\d+$/.test(String(value)) ? [Math.min(Number(value), count - 1)] : all(count));
  const heads = chosen(head, run.heads);
  return chosen(layer, run.layers[kind]).flatMap((l) => heads.map((h) => /** @type {[number, number]} */ ([l, h])));
}

const meanOf = (numbers) => numbers.reduce((sum, number) => sum + number, 0) / numbers.length;

/** A measure of one head at each point. @param {Run} run @returns {number[]} */
export const curveOf = (run, kind, { values }, [layer, head]) =>
  run.steps.map((_, point) => values[(point * run.layers[kind] + layer) * run.heads + head]);

/** The mean of a measure over heads, at each point. @param {Run} run */
export function meanCurve(run, kind, measure, heads) {
  const curves = heads.map((head) => curveOf(run, kind, measure, head));
  return run.steps.map((_, point) => meanOf(curves.map((curve) => curve[point])));
}

/**
 * One cell's weight at each point, of the shown head or combined as in the map; null for a masked cell.
 * @param {Run} run
 * @param {Link} view
 */
export function cellCurve(run, sentence, view, query, key) {
  const kind = /** @type {Kind} */ (view.kind);
  const { source, target_out } = run.sentences[sentence];
  const [queries, keys] = [kind === "encoder" ? source : target_out, kind === "decoder" ? target_out : source].map((side) => side.length);
  const mask = unpackBits(run[`mask_${kind}_${sentence}`], queries * keys);
  const cell = query * keys + key;
  if (query >= queries || key >= keys || !mask[cell]) return null;
  const before = mask.subarray(0, cell).reduce((sum, unmasked) => sum + unmasked, 0);
  const bits = bitsOf(run, kind, sentence);
  const cells = mask.reduce((sum, unmasked) => sum + unmasked, 0);
  const combine = [view.layer, view.head].includes("max") ? (numbers) => Math.max(...numbers) : meanOf;
  const heads = headsOf(run, view);
  return run.steps.map((_, point) =>
    combine(heads.map(([layer, head]) => HALVES[bits[((point * run.layers[kind] + layer) * run.heads + head) * cells + before]])),
  );
}
