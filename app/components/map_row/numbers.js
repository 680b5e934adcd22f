// Decodes the row's payload, and computes the values of each map at one layer and head, differences included.

import { asFloats, unpackBits } from "../shared/bytes.js";
import { fixed, scientific } from "../shared/numbers.js";
import { displayTokens } from "../shared/tokens.js";

/* A token's number is its position in the original sentence, even if the sentence shown is reordered. */
function numberedTokens({ tokens }) {
  return displayTokens(tokens, 0).map((token, index) => ({ ...token, number: tokens[index].number }));
}

/* Where maps of a row have words of their own, the row's tokens and those of a difference are named by all of them. */
function namedByAll(tokens, others) {
  return tokens.map((token, at) => ({ ...token, label: [...new Set([token, ...others.map((other) => other[at])].map(({ label }) => label))].join("/") }));
}

export function decodeRow(raw) {
  const own = raw.maps.map((map) => ["queries", "keys"].map((side) => numberedTokens(map[side] ?? raw[side])));
  const [queries, keys] = [raw.queries, raw.keys].map((side, at) => namedByAll(numberedTokens(side), own.map((sides) => sides[at])));
  const cells = queries.length * keys.length;
  const unmasked = unpackBits(raw.mask, cells);
  // A map can have its own mask, `mask_N`, as when a row shows a pass before and after an edit of the mask.
  const maskOf = (place) => (raw[`mask_${place}`] ? unpackBits(raw[`mask_${place}`], cells) : unmasked);
  return {
    ...raw,
    outlined: raw.outlined ?? null,
    covered: raw.covered ?? [],
    about: raw.about ?? "",
    queries,
    keys,
    words: { query: raw.queries.words, key: raw.keys.words },
    cells,
    unmasked,
    maps: raw.maps.map((map, place) => ({
      ...map,
      queries: map.minus ? queries : own[place][0],
      keys: map.minus ? keys : own[place][1],
      floats: map.minus ? null : asFloats(raw[`values_${place}`]),
      unmasked: maskOf(place),
    })),
  };
}

/** A map at one layer and head, with its values and the limit of its scale (null for weights). @param {RowData} data */
export function mapAt(data, place, layer, head) {
  const map = data.maps[place];
  const note = Array.isArray(map.note) ? map.note[layer][head] : map.note;
  return { ...map, note, limit: map.limits && map.limits[layer][head], values: valuesOf(data, place, layer, head) };
}

/** Values at index query * keys + key; differences are computed in 64 bits. @param {RowData} data */
function valuesOf(data, place, layer, head) {
  const { minus, floats } = data.maps[place];
  if (!minus) {
    const start = (layer * data.heads + head) * data.cells;
    return floats.subarray(start, start + data.cells);
  }
  const [first, second] = minus.map((other) => valuesOf(data, other, layer, head));
  return Float64Array.from(first, (value, cell) => value - second[cell]);
}

/* The note below a map's name. */
export function noteOf(map) {
  if (map.minus) return `largest difference in this map: ${scientific(largestOf(map.values))}`;
  if (map.limit === null) return map.note;
  let [low, high] = [Infinity, -Infinity];
  map.values.forEach((value, cell) => {
    if (!map.unmasked[cell]) return;
    low = Math.min(low, value);
    high = Math.max(high, value);
  });
  const span = `from ${fixed(low, 2)} to ${fixed(high, 2)}`;
  return map.note ? `${map.note}, ${span}` : span;
}

const largestOf = (values) => values.reduce((largest, value) => Math.max(largest, Math.abs(value)), 0);
