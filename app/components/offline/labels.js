// Describes tokens and edits in words, as app/look/labels.py, app/components/tokens.py and app/components/edits.py do.

import { editsText } from "../network/edits.js";

/* Visible characters of category Cf: they enclose the digits that follow. */
const SHOWN_FORMATS = new Set([0x600, 0x601, 0x602, 0x603, 0x604, 0x605, 0x6dd, 0x70f, 0x890, 0x891, 0x8e2, 0x110bd, 0x110cd]);

/* Default-ignorable characters outside category Cf, and the blank Braille pattern. */
const IGNORABLE = [[0x34f], [0x115f, 0x1160], [0x17b4, 0x17b5], [0x180b, 0x180f], [0x2800], [0x3164], [0xfe00, 0xfe0f], [0xffa0], [0xe0100, 0xe01ef]];

const BLANK = /^[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Zs}]$/u;
const PICTOGRAPH = /^[\p{So}\p{Sk}\ufe0f]$/u;
const SELECTOR = /^[\ufe00-\ufe0f]$/;
const ZERO_WIDTH_JOINER = "\u200d";

function isInvisible(character) {
  const code = character.codePointAt(0);
  if (SHOWN_FORMATS.has(code)) return false;
  return (BLANK.test(character) && character !== " ") || IGNORABLE.some(([first, last = first]) => code >= first && code <= last);
}

/* Whether a character is invisible; joiners and selectors inside an emoji are not. */
function isHidden(characters, index) {
  const character = characters[index];
  if (!isInvisible(character)) return false;
  if (SELECTOR.test(character)) return index === 0 || isInvisible(characters[index - 1]);
  const joins = character === ZERO_WIDTH_JOINER && index > 0 && index < characters.length - 1;
  return !(joins && PICTOGRAPH.test(characters[index - 1]) && PICTOGRAPH.test(characters[index + 1]));
}

const nameOfHidden = (character) => `\u2039U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}\u203a`;

/**
 * Split text into visible parts (false) and names of invisible characters (true).
 * @param {string} text
 * @returns {[string, boolean][]}
 */
function segmentsOf(text) {
  const characters = [...text.replace(/\p{Cs}/gu, "?")]; // a lone surrogate becomes ?
  if (characters.every((character) => character === " ")) return [["\u2423".repeat(Math.max(1, characters.length)), false]];
  const parts = [];
  characters.forEach((character, index) => {
    if (isHidden(characters, index)) parts.push([nameOfHidden(character), true]);
    else if (parts.length && !parts.at(-1)[1]) parts.at(-1)[0] += character;
    else parts.push([character, false]);
  });
  return parts;
}

/** Return a token's visible text. @param {{text: string}} token */
const labelOf = ({ text }) => segmentsOf(text).map(([shown]) => shown).join("");

/** Whether a text is nonempty and all punctuation. @param {string} text */
const isPunctuation = (text) => /^\p{P}+$/u.test(text);

/**
 * Return a token of a record in the form that shared/tokens.js reads.
 * @param {RecordToken} token
 * @returns {SentToken}
 */
export function describeToken({ text, startsWord, special, unknown }) {
  const parts = segmentsOf(text);
  const shown = {
    label: parts.map(([part]) => part).join(""),
    start: startsWord,
    special,
    unknown,
    punctuation: !special && isPunctuation(text),
  };
  return parts.some(([, hidden]) => hidden) ? { ...shown, parts } : shown;
}

/** Return the label, with a hyphen in front if the token continues a word. @param {RecordToken} token */
export function shortLabel(token) {
  const inside = !(token.startsWord || token.special || isPunctuation(token.text));
  return (inside ? "\u2010" : "") + labelOf(token);
}

/**
 * Return the token positions of each word, in order, as core/record/words.py does.
 * @param {RecordToken[]} tokens
 * @returns {number[][]}
 */
export function groupWords(tokens) {
  const words = [];
  let joins = false;
  tokens.forEach(({ text, startsWord, special }, position) => {
    const alone = special || isPunctuation(text);
    if (joins && !alone && !startsWord) words.at(-1).push(position);
    else words.push([position]);
    joins = !alone;
  });
  return words;
}

const subscripted = (number) => String(number).replace(/\d/g, (digit) => String.fromCodePoint(0x2080 + Number(digit)));

/* Labels of tokens; repeated ones get their number, counted from `first`. */
function numberedLabels(tokens, first) {
  const plain = tokens.map(labelOf);
  const counts = new Map();
  for (const text of plain) counts.set(text, (counts.get(text) ?? 0) + 1);
  return plain.map((text, index) => (counts.get(text) === 1 ? text : text + subscripted(first + index)));
}

/**
 * Return the text form and description of each edit, in the order of the text form.
 * @param {any[]} singles  from `listEdits`
 * @param {PassRecord} record
 * @returns {{text: string, label: string}[]}
 */
export const listedEdits = (singles, record) => singles.map((one) => ({ text: editsText(one), label: describeEdit(one, record) }));

/* Describe a single edit with the record's tokens. */
function describeEdit(one, record) {
  for (const [heads, what] of [[one.headsOff, "off"], [one.headsMean, "at its average over sample sentences"], [one.headsUniform, "with equal weights"]]) {
    for (const { kind, layer, head } of heads) return `${nameOfHead(kind, layer, head)} ${what}`;
  }
  for (const edge of one.edges) {
    const what = edge.factor ? `\xd7 ${general(edge.factor)}` : "cut";
    return `${nameOfEdge(edge, record)}: ${what}, ${nameOfHead(edge.kind, edge.layer, edge.head)}`;
  }
  for (const { kind, layer, head, query } of one.rows) return `row of ${nameOfToken(queriesOf(record, kind), query)} drawn by hand, ${nameOfHead(kind, layer, head)}`;
  for (const { kind, layer, head, value } of one.temperatures) return `${nameOfHead(kind, layer, head)} at temperature ${general(value)}`;
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
