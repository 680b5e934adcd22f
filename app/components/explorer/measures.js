// Measures of a map: entropy, largest weight, distance, head roles, share received, hidden mass.

import { isMasked, valueAt } from "./maps.js";

/**
 * Measure a map once: entropy per row (bits), share received per column, and means over rows.
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
    // Divide the weights by their sum first: weights that were rounded to bytes do not sum to 1 exactly.
    entropy[query] = sum > 0 ? Math.max(0, bits / sum + Math.log2(sum)) : 0;
    if (peaks[query] === -Infinity) peaks[query] = 0;
  }
  // For weights: a column's share of the total. For other quantities: its mean over unmasked rows.
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
 * Column of a row's own token; in cross-attention, the same relative position. A decoder row is named by the token it
 * produces, which is fed in one step later: that column is masked in this row.
 */
function placeOf({ kind, queries, keys }, query) {
  if (kind === "cross") return (query * (keys - 1)) / Math.max(1, queries - 1);
  return kind === "decoder" ? query + 1 : query;
}

export const ROLE_PLACES = {
  encoder: { prev: (q) => q - 1, self: (q) => q, next: (q) => q + 1, eos: (_q, keys) => keys - 1 },
  // A row predicts the token after the one fed in, so the one fed in is the previous token (`prev`). The first two rows
  // are left out: with so few unmasked cells, every head would appear to have a role.
  decoder: { prev: (q) => (q > 1 ? q : -1), second: (q) => (q > 1 ? q - 1 : -1), bos: (q) => (q > 1 ? 0 : -1) },
  cross: { eos: (_q, keys) => keys - 1 },
};

/* The roles of a map, with <bos> if the source begins with it. @param {AttentionMap} map */
export function rolePlaces({ kind, columns }) {
  const beginsWithBos = kind !== "decoder" && columns[0].label === "<bos>" && columns[0].special;
  return beginsWithBos ? { ...ROLE_PLACES[kind], bos: () => 0 } : ROLE_PLACES[kind];
}

/** The mean weight on each role's position, over the rows that have the position. @param {AttentionMap} map */
function rolesOf(map) {
  const shares = {};
  for (const [name, keyOf] of Object.entries(rolePlaces(map))) {
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

/** The role of a head that puts at least 0.3 of its weight on one position; else null. @param {AttentionMap} map */
export function roleOf(map) {
  const [name, share] = Object.entries(measure(map).roles).reduce((a, b) => (b[1] > a[1] ? b : a), ["", 0]);
  return share >= 0.3 ? { name, share } : null;
}

/**
 * Whether a column is hidden: `hide` may contain "eos" (all special tokens) and "punctuation".
 * @param {AttentionMap} map
 */
export function isHidden(map, key, hide) {
  const { special, punctuation } = map.columns[key];
  return (special && hide.has("eos")) || (punctuation && hide.has("punctuation"));
}

/** Weight in hidden columns: of one row, or averaged over all rows. @param {AttentionMap} map */
export function hiddenMass(map, hide, query = null) {
  let mass = 0;
  const rows = query === null ? [...Array(map.queries).keys()] : [query];
  for (const row of rows) {
    for (let key = 0; key < map.keys; key++) if (isHidden(map, key, hide)) mass += valueAt(map, row, key);
  }
  return mass / rows.length;
}

/** Unmasked keys of a row by descending value. @param {AttentionMap} map */
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
 * Smallest set of cells covering `share` of each row's visible weight, as [query, key, value], and the number of
 * candidates.
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
