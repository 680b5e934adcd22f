// The checks of a record that need no Python, with the fields of RecordCheck in core/record/parts.py.

import { EOS, UNK, idsOf } from "./subwords.js";

const WEIGHT_LIMIT = 1e-5; // rounding to float32 is about 1e-6 at most; real errors are far larger
const LOGIT_LIMIT = 1e-4; // a search and a pass add numbers in different orders

const counted = (number) => number.toLocaleString("en-US");

const check = (name, figure, limit, words) => ({ name, passed: figure <= limit, figure, limit, words });

/**
 * Check a record's rows and masked cells, that recording changed nothing, that no row sees a later token, and that search
 * and pass agree. Encodes the source once and decodes twice, or once without a causal mask.
 * @param {Float32Array} logits of the recorded pass, [T, V] @param {number} forced how many tokens of a hypothesis count as certain @returns {Check[]}
 */
export function checksOf(network, record, logits, forced) {
  const { edits, hypotheses } = record;
  const targetIn = idsOf(record.targetIn);
  network.free();
  const memory = network.encode(idsOf(record.source), edits);
  const plain = largestDifference(network.decode(targetIn, memory, edits), logits, logits.length);
  const words =
    "All logits, compared with those of the same pass without recording: not a bit may differ. Shown: the largest difference.";
  const found = [...weightChecks(record), check("Recording leaves the output unchanged", plain, 0, words)];
  if (edits.causalMask) found.push(causalCheck(network, memory, targetIn, edits, logits));
  if (hypotheses.length) found.push(searchCheck(hypotheses[0], record.logProbs.slice(forced)));
  return found;
}

/* Rows with an unmasked cell sum to 1; cells that are masked, or cut by an edit, hold 0. */
function weightChecks(record) {
  const edited = record.editsText ? ", as changed by the edits" : "";
  let rows = 0, deviation = 0, masked = 0, violations = 0;
  for (const kind of Object.keys(record.layers)) {
    const { cells, keys } = unmaskedCells(record, kind);
    for (let at = 0; at < cells.length; at += keys) {
      let sum = 0, open = 0;
      for (let cell = at; cell < at + keys; cell++) {
        sum += record[kind][cell];
        open += cells[cell];
        if (!cells[cell] && record[kind][cell] !== 0) violations++;
      }
      masked += keys - open;
      if (open) [rows, deviation] = [rows + 1, Math.max(deviation, Math.abs(sum - 1))];
    }
  }
  const ofRows = `The sum of each of ${counted(rows)} rows with an unmasked cell. Shown: the largest deviation from 1.`;
  const ofCells = `${counted(masked)} cells are masked: padding and later target tokens${edited}. Shown: the number of violations.`;
  return [check("Every row sums to 1", deviation, WEIGHT_LIMIT, ofRows), check("A masked cell is exactly 0", violations, 0, ofCells)];
}

/*
 * The cells that may hold weight, [layer, head, query, key], as in core/record/softmax.py: neither masked nor cut. In a
 * row set by hand, only unmasked cells with a nonzero weight count.
 */
function unmaskedCells({ layers, heads: byKind, source, targetOut, masks, edits }, kind) {
  const mask = masks[kind], heads = byKind[kind];
  const keys = kind === "decoder" ? targetOut.length : source.length;
  const queries = mask.length / keys;
  const cells = new Uint8Array(layers[kind] * heads * mask.length);
  for (let at = 0; at < cells.length; at += mask.length) cells.set(mask, at);
  for (const edge of edits.edges.filter((one) => one.kind === kind && one.factor === 0))
    for (let cell = 0; cell < cells.length; cell++) {
      const row = Math.floor(cell / keys);
      const map = Math.floor(row / queries);
      const place = { layer: Math.floor(map / heads), head: map % heads, query: row % queries, key: cell % keys };
      if (Object.entries(place).every(([name, index]) => (edge[name] ?? index) === index)) cells[cell] = 0;
    }
  for (const { layer, head, query, weights } of edits.rows.filter((one) => one.kind === kind && one.query < queries)) {
    const at = ((layer * heads + head) * queries + query) * keys;
    for (let key = 0; key < keys; key++) cells[at + key] = Number(weights[key] > 0 && mask[query * keys + key] === 1);
  }
  return { cells, keys };
}

/* Replace the last token that is fed: no earlier row may change. */
function causalCheck(network, memory, targetIn, edits, logits) {
  const earlier = targetIn.length - 1;
  const changed = network.decode([...targetIn.slice(0, -1), targetIn.at(-1) === UNK ? EOS : UNK], memory, edits);
  const figure = largestDifference(changed, logits, (earlier * logits.length) / targetIn.length);
  const words = `The last token that is fed was replaced. Shown: the largest change of a logit in the ${counted(earlier)} rows before it.`;
  return check("A later token changes no earlier row", figure, 0, words);
}

/* The search read one token after the other and kept keys and values; the pass read all tokens at once. */
function searchCheck({ ids, logProb }, logProbs) {
  const figure = Math.abs(logProb - logProbs.reduce((sum, one) => sum + one, 0)) / ids.length;
  const words = `The translation's log-probability by the search, token by token, and by this pass over all ${counted(ids.length)} tokens. Shown: the difference per token, in nats.`;
  return check("Search and pass agree", figure, LOGIT_LIMIT, words);
}

/* The largest difference of the first `count` numbers; NaN stays NaN, which fails any limit. */
function largestDifference(some, others, count) {
  let largest = 0;
  for (let i = 0; i < count; i++) largest = Math.max(largest, Math.abs(some[i] - others[i]));
  return largest;
}
