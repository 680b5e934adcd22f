// Describes edits in words, as app/components/edits.py does.

import { editsText } from "../network/edits.js";
import { labelOf } from "../shared/labels.js";
import { subscript } from "../shared/tokens.js";

/* Labels of tokens; repeated ones get their number, counted from `first`. */
function numberedLabels(tokens, first) {
  const plain = tokens.map(labelOf);
  const counts = new Map();
  for (const text of plain) counts.set(text, (counts.get(text) ?? 0) + 1);
  return plain.map((text, index) => (counts.get(text) === 1 ? text : text + subscript(first + index)));
}

/**
 * Return the text form and description of each edit, in the order of the text form.
 * @param {any[]} singles  from `listEdits`
 * @param {PassRecord} record
 * @param {(id: number) => {text: string}} tokenOf  the token of a target id
 * @returns {{text: string, label: string}[]}
 */
export const listedEdits = (singles, record, tokenOf) => singles.map((one) => ({ text: editsText(one), label: describeEdit(one, record, tokenOf) }));

/* Describe a single edit with the record's tokens. */
function describeEdit(one, record, tokenOf) {
  for (const [heads, what] of [[one.headsOff, "off"], [one.headsMean, "at its average over sample sentences"], [one.headsUniform, "with equal weights"]]) {
    for (const { kind, layer, head } of heads) return `${nameOfHead(kind, layer, head)} ${what}`;
  }
  for (const edge of one.edges) {
    const what = edge.factor ? `\xd7 ${general(edge.factor)}` : "cut";
    return `${nameOfEdge(edge, record)}: ${what}, ${nameOfHead(edge.kind, edge.layer, edge.head)}`;
  }
  for (const { kind, layer, head, query } of one.rows) return `row of ${nameOfToken(queriesOf(record, kind), query)} drawn by hand, ${nameOfHead(kind, layer, head)}`;
  for (const { kind, layer, head, value } of one.temperatures) return `${nameOfHead(kind, layer, head)} at temperature ${general(value)}`;
  for (const copy of one.patches) return `${nameOfState(copy, record)} copied from token ${copy.donorPosition + 1}`;
  for (const { kind, layer, head, query, donorQuery } of one.headPatches) {
    return `output at ${nameOfToken(queriesOf(record, kind), query)} copied from token ${donorQuery + 1}, ${nameOfHead(kind, layer, head)}`;
  }
  for (const push of one.pushes) return `${nameOfState(push, record)} pushed ${nameOfDirection(push, tokenOf)}`;
  if (one.donor) return `copies come from a sentence of ${one.donor.source.length - 1} token${one.donor.source.length === 2 ? "" : "s"}`;
  for (const place of one.hiddenSource) return `${nameOfToken(numberedLabels(record.source, 1), place)} hidden`;
  const sides = { source: one.sourcePositions, target: one.targetPositions };
  for (const [side, edit] of Object.entries(sides)) if (describePositions(edit, side)) return describePositions(edit, side);
  return one.causalMask ? "no padding mask" : "no causal mask";
}

function describePositions({ scale, stretch, shift, order }, side) {
  if (scale === 0) return `no positions in the ${side}`;
  const changes = [
    scale === 1 ? "" : `\xd7 ${general(scale)}`,
    stretch === 1 ? "" : `stretched \xd7 ${stretch}`,
    shift === 0 ? "" : `shifted by ${shift > 0 ? "+" : "\u2212"}${Math.abs(shift)}`,
    order.length ? "in another order" : "",
  ].filter(Boolean);
  return changes.length ? `positions of the ${side} ${changes.join(", ")}` : "";
}

function nameOfState({ side, layer, position }, record) {
  const what = side === "encoder" ? "state of" : "state that writes";
  return `${what} ${nameOfToken(queriesOf(record, side), position)}, ${side} ${layer ? `layer ${layer}` : "embeddings"},`;
}

function nameOfDirection({ strength, seed, old, new: to }, tokenOf) {
  const by = `by ${strength < 0 ? "\u2212" : ""}${general(Math.abs(strength))}`;
  if (seed !== undefined) return `${by} in random direction ${seed}`;
  const name = (id) => `\u201c${labelOf(tokenOf(id))}\u201d`;
  return `${by} towards ${name(to)}${old === null ? "" : `, away from ${name(old)}`}`;
}

const nameOfHead = (kind, layer, head) =>
  `${kind === "cross" ? "cross-attention" : kind}, ${layer === null ? "every layer" : `layer ${layer + 1}`}, ${head === null ? "every head" : `head ${head + 1}`}`;

function nameOfEdge({ kind, query, key }, record) {
  const keys = kind === "decoder" ? numberedLabels(record.targetIn, 0) : numberedLabels(record.source, 1);
  return `${nameOfToken(keys, key)} \u2192 ${nameOfToken(queriesOf(record, kind), query)}`;
}

const queriesOf = (record, kind) => numberedLabels(kind === "encoder" ? record.source : record.targetOut, 1);

const nameOfToken = (labels, place) => (place === null ? "every token" : place < labels.length ? `\u201c${labels[place]}\u201d` : `token ${place + 1}`);

/* Python's `{:g}`: at most six significant digits, an exponent below 0.0001 and from a million. */
function general(value) {
  const rounded = Number(value.toPrecision(6));
  const [digits, exponent] = rounded.toExponential().split("e");
  if (Number(exponent) >= -4 && Number(exponent) < 6) return String(rounded);
  return `${digits}e${exponent[0]}${exponent.slice(1).padStart(2, "0")}`;
}
