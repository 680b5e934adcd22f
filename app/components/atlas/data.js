// Decodes an atlas, and writes its values as Python does: see measures.py.

import { asFloats, unpack } from "../shared/bytes.js";
import { digitsOf, fixed, isEven, percent, signed } from "../shared/numbers.js";

/** @returns {AtlasData} */
export function decodeAtlas(bytes) {
  const raw = unpack(bytes);
  const places = [];
  for (const kind of Object.keys(raw.kinds)) {
    for (let layer = 0; layer < raw.layers[kind]; layer++) {
      for (let head = 0; head < raw.heads; head++) places.push({ kind, layer, head });
    }
  }
  const starts = {};
  places.forEach(({ kind }, n) => (starts[kind] ??= n));
  const values = asFloats(raw.values);
  const measures = raw.measures.map((measure, at) => ({
    ...measure,
    no_effect: measure.no_effect && new Set(measure.no_effect),
    values: values.subarray(3 * places.length * at, 3 * places.length * (at + 1)),
  }));
  const roles = Object.fromEntries(Object.keys(raw.kinds).map((kind) => [kind, asFloats(raw[`role_${kind}`])]));
  return {
    ...raw,
    places,
    starts,
    measures,
    byKey: Object.fromEntries(measures.map((measure) => [measure.key, measure])),
    distance: asFloats(raw.distance),
    roleValues: roles,
    strength: raw.strength ? asFloats(raw.strength) : null,
    cell: raw.cell ? new Int16Array(raw.cell.slice().buffer) : null,
  };
}

export const valueOf = (measure, n) => measure.values[3 * n];

/** [value, low, high] of a head. */
export const intervalOf = (measure, n) => measure.values.subarray(3 * n, 3 * n + 3);

export const isMeasured = (measure, n) => Number.isFinite(valueOf(measure, n));

/** A head's mean weight by distance. */
export const profileOf = ({ distance, distances }, n) => distance.subarray(n * distances.length, (n + 1) * distances.length);

/** A head's short name, counted from 1: cross 1.3. */
export const headName = ({ places }, n) => `${places[n].kind} ${places[n].layer + 1}.${places[n].head + 1}`;

/** A head's full name, counted from 1: "Cross-attention, layer 1, head 3". */
export function fullName({ places, kinds }, n) {
  const { kind, layer, head } = places[n];
  return `${kinds[kind][0].toUpperCase()}${kinds[kind].slice(1)}, layer ${layer + 1}, head ${head + 1}`;
}

/** A head as the URL names it, counted from 0. */
export const headId = ({ places }, n) => `${places[n].kind}.${places[n].layer}.${places[n].head}`;

/** Decimals that show two digits of half a head's interval. */
export function placesOf(measure, n) {
  const [, low, high] = intervalOf(measure, n);
  return high > low ? digitsOf(low, high) : measure.places;
}

/** A head's value, or an end of its interval, without its unit, except for the per cent sign. */
export function valueText(measure, value, n) {
  if (!Number.isFinite(value)) return "not measured";
  if (measure.unit === "share") return percent(value);
  return measure.signed ? signed(value, placesOf(measure, n)) : fixed(value, placesOf(measure, n));
}

export const withUnit = (measure, text) => (measure.unit_words ? `${text} ${measure.unit_words}` : text);

/** "+0.120 nats per token (±0.021)"; the ends of a lopsided interval, and of a share's. */
export function fullText(measure, n) {
  const [value, low, high] = intervalOf(measure, n);
  if (!Number.isFinite(value)) return "not measured";
  const text = withUnit(measure, valueText(measure, value, n));
  if (!Number.isFinite(low) || !Number.isFinite(high)) return text;
  if (measure.signed && isEven(value, low, high)) return `${text} (\u00b1${fixed((high - low) / 2, placesOf(measure, n))})`;
  return `${text} (${valueText(measure, low, n)} to ${valueText(measure, high, n)})`;
}

/** Rank by value, the largest first (BLEU: the largest drop first), and the number of heads measured. */
export function rankOf({ places }, measure, n) {
  const sign = measure.lowest_first ? -1 : 1;
  const all = places.map((_, other) => sign * valueOf(measure, other)).filter(Number.isFinite);
  return { rank: 1 + all.filter((value) => value > sign * valueOf(measure, n)).length, count: all.length };
}

/** Whether any head has an interval for this measure. In an atlas of a single sentence, none has. */
export const hasIntervals = (measure) => measure.values.some((value, at) => at % 3 === 1 && Number.isFinite(value));

/** "1 sentence", "1,014 sentences". */
export const counted = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

/** The heads of a kind in words: "encoder heads", "cross-attention heads". */
export const headsOfKind = (kind) => (kind === "cross" ? "cross-attention heads" : `${kind} heads`);
