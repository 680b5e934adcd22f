// Decodes the bytes that Python sent: tokens, masks and, for each quantity, the numbers of every open cell.

const KINDS = ["encoder", "decoder", "cross"];
const ROW_SIDE = { encoder: "source", decoder: "produced", cross: "produced" };
const COLUMN_SIDE = { encoder: "source", decoder: "fed", cross: "source" };

const byKind = (valueOf) => Object.fromEntries(KINDS.map((kind) => [kind, valueOf(kind)]));

function decodePayload(raw) {
  const source = displayTokens(raw.source, 1);
  const target = displayTokens([raw.target_in[0], ...raw.target_out], 0);
  // The row on the page holds what is fed in and what comes out; a map's rows and columns are parts of it.
  const sides = { source, target, produced: target.slice(1), fed: target.slice(0, -1) };
  const itemsOf = (make) => ({ source: make(source), produced: make(sides.produced), fed: make(sides.fed) });
  const cellsOf = (kind) => sides[ROW_SIDE[kind]].length * sides[COLUMN_SIDE[kind]].length;
  const open = byKind((kind) => unpackBits(raw[`${kind}_mask`], cellsOf(kind)));
  return {
    sentence: raw.sentence,
    heads: raw.heads,
    layers: raw.layers,
    sourceLanguage: raw.source_language,
    targetLanguage: raw.target_language,
    search: raw.search,
    checks: raw.checks,
    verdict: raw.verdict,
    address: raw.address,
    inside: raw.inside,
    logProb: raw.log_prob,
    alternatives: raw.alternatives.map((step) => step.map(decodeAlternative)),
    sides,
    items: { pieces: itemsOf(pieceItems), words: itemsOf(wordItems) },
    open,
    cells: byKind((kind) => openCells(open[kind])),
    quantities: decodeQuantities(raw),
    maps: new Map(),
  };
}

/* One of the likeliest pieces at a step; a piece inside a word is shown with a hyphen before it. */
function decodeAlternative([text, start, probability, written]) {
  const label = visibleSegments(text).map((segment) => segment.text).join("");
  const inside = !start && !PUNCTUATION.test(text);
  return { label: inside ? `\u2010${label}` : label, probability, written: written === 1 };
}

const openCells = (mask) => Uint32Array.from(mask.keys()).filter((cell) => mask[cell]);

/* Weights always; one other quantity, if Python was asked for it. Numbers stand as integers between lo and hi. */
function decodeQuantities(raw) {
  const weights = byKind((kind) => ({ codes: asIntegers(raw[kind], raw.levels), lo: 0, hi: 1 }));
  const quantities = { weights: { levels: raw.levels, heads: raw.heads, kinds: weights } };
  if (!raw.quantity) return quantities;
  const { name, levels, heads, range } = raw.quantity;
  const codes = (kind) => asIntegers(raw[`${kind}_quantity`], levels);
  const kinds = byKind((kind) => ({ codes: codes(kind), lo: range[kind][0], hi: range[kind][1] }));
  return { ...quantities, [name]: { levels, heads, kinds } };
}

function asIntegers(bytes, levels) {
  if (levels <= 255) return bytes;
  // A 16-bit view must start on an even byte; the bytes arrive wherever the message put them.
  const even = bytes.byteOffset % 2 === 0 ? bytes : bytes.slice();
  return new Uint16Array(even.buffer, even.byteOffset, even.byteLength / 2);
}
