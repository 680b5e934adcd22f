// Measures a map: entropy, peak, distance and role of a head, what each column receives, what is hidden.

import { isMasked, valueAt } from "./maps.js";

/**
 * Spread of each row in bits, share of all weight that each column receives, and the means over rows.
 *
 * @param {AttentionMap} map
 */
export function measure(map) {
  if (map.measured) return map.measured;
  const { queries, keys, values } = map;
  const entropy = new Float32Array(queries);
  const peaks = new Float32Array(queries).fill(-Infinity);
  const received = new Float32Array(keys);
  const seenBy = new Uint32Array(keys);
  let distance = 0;
  for (let query = 0; query < queries; query++) {
    let sum = 0;
    let bits = 0;
    for (let key = 0; key < keys; key++) {
      if (isMasked(map, query, key)) continue;
      const value = values[query * keys + key];
      received[key] += value;
      seenBy[key]++;
      if (value > peaks[query]) peaks[query] = value;
      if (value <= 0) continue;
      sum += value;
      bits -= value * Math.log2(value);
      distance += value * Math.abs(key - placeOf(map, query));
    }
    // Entropy of weights that add up to `sum` instead of 1, which they miss by the rounding of the bytes.
    entropy[query] = sum > 0 ? Math.max(0, bits / sum + Math.log2(sum)) : 0;
    if (peaks[query] === -Infinity) peaks[query] = 0;
  }
  // Of weights, a column's share of everything; of another quantity, its mean over the rows that see it.
  for (let key = 0; key < keys; key++) received[key] /= map.sumsToOne ? queries : Math.max(1, seenBy[key]);
  const mean = (list) => list.reduce((total, value) => total + value, 0) / list.length;
  map.measured = {
    entropy,
    peaks,
    received,
    mostReceived: Math.max(...received),
    peak: mean(peaks),
    meanEntropy: mean(entropy),
    distance: distance / queries,
    roles: rolesOf(map),
  };
  return map.measured;
}

/*
 * Where a row's own token stands among the columns; between two languages, the same part of the way. A decoder's row is
 * named by what it produces, which will be fed in one place later: the column below it, masked in this row.
 */
function placeOf({ kind, queries, keys }, query) {
  if (kind === "cross") return (query * (keys - 1)) / Math.max(1, queries - 1);
  return kind === "decoder" ? query + 1 : query;
}

export const ROLE_PLACES = {
  encoder: { prev: (q) => q - 1, self: (q) => q, next: (q) => q + 1, eos: (_q, keys) => keys - 1 },
  // The token before the one produced is the one just fed in. The first two rows have so few unmasked cells that every head
  // would seem to have a role there.
  decoder: { prev: (q) => (q > 1 ? q : -1), second: (q) => (q > 1 ? q - 1 : -1), bos: (q) => (q > 1 ? 0 : -1) },
  cross: { eos: (_q, keys) => keys - 1 },
};

/**
 * Mean weight on the token before, itself, the next one, <bos> or <eos>, as far as the kind has them.
 *
 * @param {AttentionMap} map
 */
function rolesOf(map) {
  const shares = {};
  for (const [name, keyOf] of Object.entries(ROLE_PLACES[map.kind])) {
    let total = 0;
    let count = 0;
    for (let query = 0; query < map.queries; query++) {
      const key = keyOf(query, map.keys);
      if (key < 0 || key >= map.keys) continue;
      total += valueAt(map, query, key);
      count++;
    }
    if (count) shares[name] = total / count;
  }
  return shares;
}

/**
 * A head that rests on one place has a role.
 *
 * @param {AttentionMap} map
 */
export function roleOf(map) {
  const [name, share] = Object.entries(measure(map).roles).reduce((a, b) => (b[1] > a[1] ? b : a), ["", 0]);
  return share >= 0.3 ? { name, share } : null;
}

/**
 * Which columns are left out: `hide` is a set of "eos", which is <bos> in the decoder, and "punctuation".
 *
 * @param {AttentionMap} map
 */
export function isHidden(map, key, hide) {
  const { special, punctuation } = map.columns[key];
  return (special && hide.has("eos")) || (punctuation && hide.has("punctuation"));
}

/**
 * How much of a row, or of all rows on average, stands in hidden columns.
 *
 * @param {AttentionMap} map
 */
export function hiddenMass(map, hide, query = null) {
  let mass = 0;
  const rows = query === null ? [...Array(map.queries).keys()] : [query];
  for (const row of rows) {
    for (let key = 0; key < map.keys; key++) if (isHidden(map, key, hide)) mass += valueAt(map, row, key);
  }
  return mass / rows.length;
}

/**
 * Keys of a row, or queries of a column, from the largest number to the smallest; masked cells are left out.
 *
 * @param {AttentionMap} map
 */
export function rankedKeys(map, query, hide = new Set()) {
  const shown = (key) => !isMasked(map, query, key) && !isHidden(map, key, hide);
  return [...Array(map.keys).keys()].filter(shown).toSorted((a, b) => valueAt(map, query, b) - valueAt(map, query, a));
}

/** @param {AttentionMap} map */
export function rankedQueries(map, key) {
  const queries = [...Array(map.queries).keys()].filter((query) => !isMasked(map, query, key));
  return queries.toSorted((a, b) => valueAt(map, b, key) - valueAt(map, a, key));
}

/**
 * The smallest set of cells that holds at least `share` of each row's visible weight, as [query, key, value], and
 * how many cells there were to choose from. Scores are no weights: their softmax decides, see `linesMap`.
 *
 * @param {AttentionMap} map
 */
export function smallestSet(map, hide, share) {
  const lines = [];
  let unmasked = 0;
  for (let query = 0; query < map.queries; query++) {
    const keys = rankedKeys(map, query, hide);
    unmasked += keys.length;
    const goal = share * keys.reduce((total, key) => total + valueAt(map, query, key), 0);
    let held = 0;
    for (const key of keys) {
      if (held >= goal - 1e-9) break;
      lines.push([query, key, valueAt(map, query, key)]);
      held += valueAt(map, query, key);
    }
  }
  return { lines, unmasked };
}
