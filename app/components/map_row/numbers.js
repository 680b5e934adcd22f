// Decodes the row's bytes and gives every map's numbers of one layer and head, differences included, and their words.

const SUPERSCRIPT = "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079";
const MINUS = "\u2212";

/* A token keeps the number of its place in the sentence, also where the words stand in another order. */
function numberedTokens({ tokens }) {
  return displayTokens(tokens, 0).map((token, index) => ({ ...token, number: tokens[index].number }));
}

function decodeRow(raw) {
  const [queries, keys] = [raw.queries, raw.keys].map(numberedTokens);
  const cells = queries.length * keys.length;
  return {
    site: raw.site,
    opened: raw.opened,
    layers: raw.layers,
    heads: raw.heads,
    queries,
    keys,
    words: { query: raw.queries.words, key: raw.keys.words },
    cells,
    open: unpackBits(raw.mask, cells),
    maps: raw.maps.map((map, place) => ({ ...map, floats: map.minus ? null : asFloats(raw[`values_${place}`]) })),
  };
}

/* One map at one layer and head, with its numbers and the limit of its scale, null for weights. */
function mapAt(data, place, layer, head) {
  const map = data.maps[place];
  const note = Array.isArray(map.note) ? map.note[layer][head] : map.note;
  return { ...map, note, limit: map.limits && map.limits[layer][head], values: valuesOf(data, place, layer, head) };
}

/* Numbers by query * keys + key; the difference of two 32-bit numbers is taken in 64 bits. */
function valuesOf(data, place, layer, head) {
  const { minus, floats } = data.maps[place];
  if (!minus) {
    const start = (layer * data.heads + head) * data.cells;
    return floats.subarray(start, start + data.cells);
  }
  const [first, second] = minus.map((other) => valuesOf(data, other, layer, head));
  return Float64Array.from(first, (value, cell) => value - second[cell]);
}

/* 0.25 or \u22124.8 \u00b7 10\u207b\u2077: as the rest of the page writes a number of any size. */
function scientific(value) {
  const size = Math.abs(value);
  const sign = value < 0 ? MINUS : "";
  if (size === 0) return "0";
  if (size >= 0.001 && size < 10_000) return sign + String(Number(size.toPrecision(3)));
  const [digits, exponent] = size.toExponential(1).split("e");
  const raised = [...exponent.replace("+", "")].map((digit) => (digit === "-" ? "\u207b" : SUPERSCRIPT[digit])).join("");
  return `${sign}${digits}\u00a0\u00b7\u00a010${raised}`;
}

/* Four decimals; what they would round away is written by its size. */
function exactly(value) {
  const shown = Math.abs(value).toFixed(4);
  if (Number(shown) === 0 && value !== 0) return scientific(value);
  return (value < 0 ? MINUS : "") + shown;
}

/* What is said of a whole map under its name. */
function noteOf(data, map) {
  if (map.minus) return `largest in this map: ${scientific(largestOf(map.values))}`;
  if (map.limit === null) return map.note;
  let [low, high] = [Infinity, -Infinity];
  map.values.forEach((value, cell) => {
    if (!data.open[cell]) return;
    low = Math.min(low, value);
    high = Math.max(high, value);
  });
  const span = `from ${low.toFixed(2)} to ${high.toFixed(2)}`.replaceAll("-", MINUS);
  return map.note ? `${map.note}, ${span}` : span;
}

const largestOf = (values) => values.reduce((largest, value) => Math.max(largest, Math.abs(value)), 0);
