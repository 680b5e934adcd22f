// Builds and caches the displayed maps: of one head or combined over heads or layers, by token or by word.

import { rampStep, signedStep } from "../shared/theme.js";
import { COLUMN_SIDE, exactName, ROW_SIDE } from "./data.js";
import { headEdit } from "./edited.js";

export const WEIGHTS = "weights";

export const SCORES = "scores";

/* Weights after the edits minus weights before them. */
export const CHANGE = "change";

const NORMS = "norms";

export const isSigned = (quantity) => quantity === SCORES || quantity === CHANGE;

export const ROLLOUT = "rollout";

/* Quantities whose rows sum to 1, so that entropy and shares are defined. */
const SUMS_TO_ONE = { [WEIGHTS]: true, [ROLLOUT]: true };

/* Records that share a colour scale: all records of the group of explorers that have the quantity. */
const sharing = (data, quantity) =>
  [data, ...data.peers.values()].filter(({ quantities }) => quantities[quantity]);

/* Range of a kind's colour scale; symmetric about 0 for signed quantities. */
function scaleOf(data, quantity, kind) {
  const ends = sharing(data, quantity).map(({ quantities }) => quantities[quantity].kinds[kind]);
  const lo = Math.min(...ends.map((end) => end.lo));
  const hi = Math.max(...ends.map((end) => end.hi));
  const limit = Math.max(-lo, hi);
  return isSigned(quantity) ? { lo: -limit, hi: limit } : { lo, hi };
}

/* Exact numbers of a map, if Python has sent them. */
const exactOf = ({ exact, quantities }, quantity, kind, layer, head) =>
  exact.get(exactName(quantity, kind, layer, Math.min(head, quantities[quantity].heads[kind] - 1)));

/** One head's numbers per token cell, 0 where masked. Rollout has one map per layer. @param {RecordData} data */
function tokenValues(data, quantity, kind, layer, head) {
  const { heads: headsByKind, kinds } = data.quantities[quantity];
  const heads = headsByKind[kind];
  const own = exactOf(data, quantity, kind, layer, head);
  const { codes, offset: lo, step: scale } = own ? { codes: own, offset: 0, step: 1 } : kinds[kind];
  const cells = data.cells[kind];
  const values = new Float32Array(data.unmasked[kind].length);
  const start = (layer * heads + Math.min(head, heads - 1)) * (own ? 0 : cells.length);
  for (let index = 0; index < cells.length; index++) values[cells[index]] = lo + scale * codes[start + index];
  return values;
}

/*
 * Merge tokens into words: sum over the tokens of a key, average over those of a query, so that a row of weights still
 * sums to 1. With `average` (scores, which are not shares), average over both.
 */
function wordValues(values, unmasked, rows, columns, keys, average) {
  const joined = { values: new Float32Array(rows.length * columns.length), unmasked: null };
  joined.unmasked = new Uint8Array(joined.values.length);
  rows.forEach((row, query) => {
    columns.forEach((column, key) => {
      let sum = 0;
      let cells = 0;
      for (const q of row.members) {
        for (const k of column.members) {
          if (!unmasked[q * keys + k]) continue;
          sum += values[q * keys + k];
          cells++;
        }
      }
      const cell = query * columns.length + key;
      joined.values[cell] = cells ? sum / (average ? cells : row.members.length) : 0;
      joined.unmasked[cell] = cells > 0 ? 1 : 0;
    });
  });
  return joined;
}

/* Cell-wise mean or maximum of several maps. */
function combineValues(maps, combine) {
  const values = Float32Array.from(maps[0].values);
  for (const map of maps.slice(1)) {
    for (let cell = 0; cell < values.length; cell++) {
      if (combine === "max") values[cell] = Math.max(values[cell], map.values[cell]);
      else values[cell] += map.values[cell];
    }
  }
  if (combine !== "max") for (let cell = 0; cell < values.length; cell++) values[cell] /= maps.length;
  return values;
}

/**
 * The map of a view. `layer` or `head` equal to its count means all of them, combined by `combine` ("mean" or "max").
 * @param {RecordData} data
 */
export function mapOf(data, choice) {
  const { quantity, unit, combine, kind, layer, head } = choice;
  const layers = data.layers[kind];
  const together = quantity !== ROLLOUT && (head === data.heads || layer === layers);
  const name = [quantity, unit, kind, layer, head, together ? combine : ""].join();
  if (data.maps.has(name)) return data.maps.get(name);
  const rows = data.items[unit][ROW_SIDE[kind]];
  const columns = data.items[unit][COLUMN_SIDE[kind]];
  const { lo, hi } = scaleOf(data, quantity, kind);
  const signed = isSigned(quantity);
  const map = /** @type {AttentionMap} */ ({ kind, quantity, rows, columns, queries: rows.length, keys: columns.length, lo, hi, signed, edit: headEdit(data, kind, layer, head) });
  map.sumsToOne = SUMS_TO_ONE[quantity] === true && !(together && combine === "max");
  if (together) {
    const allHeads = [...Array(data.headsOf[kind]).keys()];
    const allLayers = [...Array(layers).keys()];
    const parts = (layer === layers ? allLayers : [layer]).flatMap((l) =>
      (head === data.heads ? allHeads : [head]).map((h) => mapOf(data, { ...choice, layer: l, head: h })),
    );
    map.values = combineValues(parts, combine);
    map.error = Math.max(...parts.map(({ error }) => error));
    map.unmasked = parts[0].unmasked;
  } else {
    const one = Math.min(layer, layers - 1);
    map.values = tokenValues(data, quantity, kind, one, head);
    map.error = exactOf(data, quantity, kind, one, head) ? 0 : data.quantities[quantity].kinds[kind].error;
    map.unmasked = data.unmasked[kind];
    if (unit === "words") {
      const keys = data.items.pieces[COLUMN_SIDE[kind]].length;
      Object.assign(map, wordValues(map.values, map.unmasked, rows, columns, keys, quantity === SCORES));
      // Errors of summed cells may add up.
      if (quantity !== SCORES) map.error *= Math.max(...columns.map(({ members }) => members.length));
    }
  }
  // A word's sum may exceed every token's value.
  if (quantity === NORMS && unit === "words") map.hi = wordCeiling(data, kind);
  data.maps.set(name, map);
  return map;
}

/** Upper end of the scale for word norms, shared by all heads of a kind. @param {RecordData} data */
function wordCeiling(data, kind) {
  const name = `ceiling ${kind}`;
  if (!data.maps.has(name)) {
    const largest = sharing(data, NORMS).map((each) => largestOfWords(each, kind));
    data.maps.set(name, Math.max(scaleOf(data, NORMS, kind).hi, ...largest));
  }
  return data.maps.get(name);
}

/** @param {RecordData} data */
function largestOfWords(data, kind) {
  const rows = data.items.words[ROW_SIDE[kind]];
  const columns = data.items.words[COLUMN_SIDE[kind]];
  const keys = data.items.pieces[COLUMN_SIDE[kind]].length;
  let largest = 0;
  for (let layer = 0; layer < data.layers[kind]; layer++) {
    for (let head = 0; head < data.quantities[NORMS].heads[kind]; head++) {
      const tokens = tokenValues(data, NORMS, kind, layer, head);
      const words = wordValues(tokens, data.unmasked[kind], rows, columns, keys, false);
      for (const value of words.values) if (value > largest) largest = value;
    }
  }
  return largest;
}

/** Drop cached maps whose scale may have changed; weights always use 0 to 1. @param {RecordData} data */
export function clearScaledMaps(data) {
  for (const name of data.maps.keys()) if (!name.startsWith(WEIGHTS)) data.maps.delete(name);
}

/** @param {AttentionMap} map */
export const valueAt = (map, query, key) => map.values[query * map.keys + key];

/** @param {AttentionMap} map */
export const isMasked = (map, query, key) => !map.unmasked[query * map.keys + key];

/** @param {RecordData} data */
export const hasMasked = (data, kind) => data.unmasked[kind].includes(0);

/* Position of a value on the map's scale, 0..1; `stepOf`: as a colour step, 0..255. */
export const shareOf = ({ lo, hi }, value) => (value - lo) / (hi - lo || 1);

/** @param {AttentionMap} map */
export const stepOf = (map, value) => (map.signed ? signedStep(value / (map.hi || 1)) : rampStep(shareOf(map, value)));

/** @param {Theme} theme @param {AttentionMap} map */
export const rampOf = (theme, map) => (map.signed ? theme.signed : theme.ramp);

/** Colour intensity of a value, 0..1: for signed maps, its distance from 0. @param {AttentionMap} map */
export const strengthOf = (map, value) => (map.signed ? Math.abs(value) / (map.hi || 1) : shareOf(map, value));

/* Values below this fraction of the scale leave a token unshaded: the tint would be indistinguishable from the page. */
const SHADED_FROM = 0.02;

/** Colour step that shades a token, or null. @param {AttentionMap} map */
export const shadeOf = (map, value) => (strengthOf(map, value) < SHADED_FROM ? null : stepOf(map, value));
