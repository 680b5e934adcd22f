// Decodes the bytes that Python sent into maps, one at a time and once each, and measures what a map does.

const KINDS = ["encoder", "decoder", "cross"];
const ROW_SIDE = { encoder: "source", decoder: "produced", cross: "produced" };
const COLUMN_SIDE = { encoder: "source", decoder: "fed", cross: "source" };

/* Undoes payload.py's pack(): header length, JSON header, byte strings. */
function unpack(bytes) {
  const start = 4 + new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  const raw = JSON.parse(new TextDecoder().decode(bytes.subarray(4, start)));
  for (const name of KINDS.flatMap((kind) => [kind, `${kind}_mask`])) {
    const { at, length } = raw[name];
    raw[name] = bytes.subarray(start + at, start + at + length);
  }
  return raw;
}

/* Streamlit hands over new bytes with each call, also when only the theme changed. */
function sameBytes(a, b) {
  if (!a || a.length !== b.length) return false;
  for (let index = 0; index < a.length; index++) if (a[index] !== b[index]) return false;
  return true;
}

function decodePayload(raw) {
  const source = displayTokens(raw.source, 1);
  const target = displayTokens([raw.target_in[0], ...raw.target_out], 0);
  return {
    sentence: raw.sentence,
    levels: raw.levels,
    heads: raw.heads,
    layers: raw.layers,
    sourceLanguage: raw.source_language,
    targetLanguage: raw.target_language,
    search: raw.search,
    checks: raw.checks,
    link: raw.link,
    logProb: raw.log_prob,
    // The row on the page holds what is fed in and what comes out; a map's rows and columns are parts of it.
    sides: { source, target, produced: target.slice(1), fed: target.slice(0, -1) },
    codes: Object.fromEntries(KINDS.map((kind) => [kind, asIntegers(raw[kind], raw.levels)])),
    open: Object.fromEntries(KINDS.map((kind) => [kind, raw[`${kind}_mask`]])),
    maps: new Map(),
  };
}

function asIntegers(bytes, levels) {
  if (levels <= 255) return bytes;
  // A 16-bit view must start on an even byte; the bytes arrive wherever the message put them.
  const even = bytes.byteOffset % 2 === 0 ? bytes : bytes.slice();
  return new Uint16Array(even.buffer, even.byteOffset, even.byteLength / 2);
}

/* The map of one head, or of the mean of a layer's heads when `head` is the number of heads. */
function attentionMap(data, kind, layer, head) {
  const name = `${kind}.${layer}.${head}`;
  if (data.maps.has(name)) return data.maps.get(name);
  const rows = data.sides[ROW_SIDE[kind]];
  const columns = data.sides[COLUMN_SIDE[kind]];
  const cells = rows.length * columns.length;
  const weights = new Float32Array(cells);
  const [first, last] = head < data.heads ? [head, head] : [0, data.heads - 1];
  const scale = 1 / (data.levels * (last - first + 1));
  for (let h = first; h <= last; h++) {
    const start = (layer * data.heads + h) * cells;
    for (let cell = 0; cell < cells; cell++) weights[cell] += data.codes[kind][start + cell];
  }
  for (let cell = 0; cell < cells; cell++) weights[cell] *= scale;
  const map = { kind, rows, columns, queries: rows.length, keys: columns.length, weights, open: data.open[kind] };
  data.maps.set(name, map);
  return map;
}

const weightAt = (map, query, key) => map.weights[query * map.keys + key];
const isMasked = (map, query, key) => !map.open[query * map.keys + key];
const hasMasked = (data, kind) => data.open[kind].includes(0);

/* Spread of each row in bits, share of all weight that each column receives, mean peak, and the role, if any. */
function measure(map) {
  if (map.measured) return map.measured;
  const { queries, keys, weights } = map;
  const spread = new Float32Array(queries);
  const received = new Float32Array(keys);
  let peaks = 0;
  for (let query = 0; query < queries; query++) {
    let sum = 0;
    let bits = 0;
    let peak = 0;
    for (let key = 0; key < keys; key++) {
      const weight = weights[query * keys + key];
      received[key] += weight / queries;
      if (weight <= 0) continue;
      sum += weight;
      bits -= weight * Math.log2(weight);
      if (weight > peak) peak = weight;
    }
    // Entropy of weights that add up to `sum` instead of 1, which they miss by the rounding of the bytes.
    spread[query] = sum > 0 ? Math.max(0, bits / sum + Math.log2(sum)) : 0;
    peaks += peak;
  }
  const meanSpread = spread.reduce((total, bits) => total + bits, 0) / queries;
  map.measured = { spread, received, peak: peaks / queries, meanSpread, role: strongestRole(map) };
  return map.measured;
}

/* A head that rests on one place has a role: the piece before, itself, the next one, <bos> or <eos>. */
function strongestRole(map) {
  const { kind, queries, keys } = map;
  const places = {
    encoder: { prev: (q) => q - 1, self: (q) => q, next: (q) => q + 1, eos: () => keys - 1 },
    // The first two rows have so few open cells that every head would seem to have a role there.
    decoder: { prev: (q) => (q > 1 ? q - 1 : -1), self: (q) => (q > 1 ? q : -1), bos: (q) => (q > 1 ? 0 : -1) },
    cross: { eos: () => keys - 1 },
  }[kind];
  let best = null;
  for (const [name, keyOf] of Object.entries(places)) {
    let total = 0;
    let count = 0;
    for (let query = 0; query < queries; query++) {
      const key = keyOf(query);
      if (key < 0 || key >= keys) continue;
      total += weightAt(map, query, key);
      count++;
    }
    if (count && (!best || total / count > best.share)) best = { name, share: total / count };
  }
  return best && best.share >= 0.3 ? best : null;
}

/* Keys of a row, or queries of a column, from the largest weight to the smallest; closed cells are left out. */
function rankedKeys(map, query) {
  const keys = [...Array(map.keys).keys()].filter((key) => !isMasked(map, query, key));
  return keys.sort((a, b) => weightAt(map, query, b) - weightAt(map, query, a));
}

function rankedQueries(map, key) {
  const queries = [...Array(map.queries).keys()].filter((query) => !isMasked(map, query, key));
  return queries.sort((a, b) => weightAt(map, b, key) - weightAt(map, a, key));
}
