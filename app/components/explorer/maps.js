// Makes the maps that are shown: of one head, over heads, over layers, of tokens or of words; each is made once.

import { rampStep, signedStep } from "../shared/theme.js";
import { COLUMN_SIDE, exactName, ROW_SIDE } from "./data.js";

export const WEIGHTS = "weights";

export const SCORES = "scores";

/* What edits change in the weights: the edited pass less the one without edits. */
export const CHANGE = "change";

const NORMS = "norms";

export const isSigned = (quantity) => quantity === SCORES || quantity === CHANGE;

export const ROLLOUT = "rollout";

/* Rows of these add up to 1, so that entropy and shares have a meaning. */
const SUMS_TO_ONE = { [WEIGHTS]: true, [ROLLOUT]: true };

/* The records that share a scale, as far as they have the quantity: of explorers that are shown together, all. */
const sharing = (data, quantity) =>
  [data, ...data.beside.values()].filter(({ quantities }) => quantities[quantity]);

/* The ends of a kind's one scale: of what has either sign they lie as far on both sides of 0. */
function scaleOf(data, quantity, kind) {
  const ends = sharing(data, quantity).map(({ quantities }) => quantities[quantity].kinds[kind]);
  const lo = Math.min(...ends.map((end) => end.lo));
  const hi = Math.max(...ends.map((end) => end.hi));
  const limit = Math.max(-lo, hi);
  return isSigned(quantity) ? { lo: -limit, hi: limit } : { lo, hi };
}

/* One map's numbers as Python sent them after all, if it did. */
const exactOf = ({ exact, quantities }, quantity, kind, layer, head) =>
  exact.get(exactName(quantity, kind, layer, Math.min(head, quantities[quantity].heads - 1)));

/**
 * One head's numbers for every cell of tokens; a masked cell is 0. Rollout has one map a layer for all heads.
 *
 * @param {RecordData} data
 */
function tokenValues(data, quantity, kind, layer, head) {
  const { heads, kinds } = data.quantities[quantity];
  const own = exactOf(data, quantity, kind, layer, head);
  const { codes, offset: lo, step: scale } = own ? { codes: own, offset: 0, step: 1 } : kinds[kind];
  const cells = data.cells[kind];
  const values = new Float32Array(data.unmasked[kind].length);
  const start = (layer * heads + Math.min(head, heads - 1)) * (own ? 0 : cells.length);
  for (let index = 0; index < cells.length; index++) values[cells[index]] = lo + scale * codes[start + index];
  return values;
}

/*
 * From tokens to words: what the tokens of a looked-at word receive is added, the tokens of a produced word are
 * averaged. So a row of weights still adds up to 1. Scores have no shares to add: they are averaged both ways.
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

/* Cell by cell the mean or the maximum of several maps of the same shape. */
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
 * The map of a choice {quantity, unit, combine, kind, layer, head}. `head` equal to the number of heads stands for
 * all of them together, `layer` likewise; `combine` says how: "mean" or "max".
 *
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
  const map = /** @type {AttentionMap} */ ({ kind, quantity, rows, columns, queries: rows.length, keys: columns.length, lo, hi, signed });
  map.sumsToOne = SUMS_TO_ONE[quantity] === true && !(together && combine === "max");
  if (together) {
    const allHeads = [...Array(data.heads).keys()];
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
      // The errors of what is added may add up.
      if (quantity !== SCORES) map.error *= Math.max(...columns.map(({ members }) => members.length));
    }
  }
  // Tokens of a word together may hold more than any one of them did.
  if (quantity === NORMS && unit === "words") map.hi = wordCeiling(data, kind);
  data.maps.set(name, map);
  return map;
}

/**
 * One scale for all heads of a kind: norms of words may exceed the largest norm of a token.
 *
 * @param {RecordData} data
 */
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
    for (let head = 0; head < data.quantities[NORMS].heads; head++) {
      const tokens = tokenValues(data, NORMS, kind, layer, head);
      const words = wordValues(tokens, data.unmasked[kind], rows, columns, keys, false);
      for (const value of words.values) if (value > largest) largest = value;
    }
  }
  return largest;
}

/**
 * Forgets what was made with a scale that may be another one now: that of weights is the same always.
 *
 * @param {RecordData} data
 */
export function forgetScales(data) {
  for (const name of data.maps.keys()) if (!name.startsWith(WEIGHTS)) data.maps.delete(name);
}

/** @param {AttentionMap} map */
export const valueAt = (map, query, key) => map.values[query * map.keys + key];

/** @param {AttentionMap} map */
export const isMasked = (map, query, key) => !map.unmasked[query * map.keys + key];

/** @param {RecordData} data */
export const hasMasked = (data, kind) => data.unmasked[kind].includes(0);

/* Where a number of this map stands on its scale: 0..1, and as a step of the colours, 0..255. */
export const shareOf = ({ lo, hi }, value) => (value - lo) / (hi - lo || 1);

/** @param {AttentionMap} map */
export const stepOf = (map, value) => (map.signed ? signedStep(value / (map.hi || 1)) : rampStep(shareOf(map, value)));

/**
 * @param {Theme} theme
 * @param {AttentionMap} map
 */
export const rampOf = (theme, map) => (map.signed ? theme.signed : theme.ramp);

/**
 * How far a number stands from what has no colour, 0..1: of a score this is its distance from 0.
 *
 * @param {AttentionMap} map
 */
export const strengthOf = (map, value) => (map.signed ? Math.abs(value) / (map.hi || 1) : shareOf(map, value));

/* Below this part of the scale a word stays unshaded: a tint that cannot be told from the page only makes it dirty. */
const SHADED_FROM = 0.02;

/**
 * The step of the scale on which a word is shaded, or null.
 *
 * @param {AttentionMap} map
 */
export const shadeOf = (map, value) => (strengthOf(map, value) < SHADED_FROM ? null : stepOf(map, value));
