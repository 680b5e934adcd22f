// Prepares a record's tokens for display: joins the tokens of a word and numbers repeated words.

import { isPunctuation, segmentsOf } from "./labels.js";

/* Grapheme clusters: an emoji sequence is never split. */
const SEGMENTER = new Intl.Segmenter(undefined, { granularity: "grapheme" });

export const graphemes = (text) => Array.from(SEGMENTER.segment(text), ({ segment }) => segment);

/* The label of a token that is only spaces. */
const LONE_SPACE = "\u2423";

/* Isolate a label so that right-to-left text does not reorder its neighbours. */
export const isolated = (text) => `\u2068${text}\u2069`;

const RIGHT_TO_LEFT = /[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\p{Script=Adlam}]/u;

/* The writing direction of a sentence, by its first letter outside special tokens, as `dir="auto"` would decide. */
export function directionOf(tokens) {
  const [letter] = tokens.filter(({ special }) => !special).map(({ label }) => label).join("").match(/\p{L}/u) ?? [""];
  return RIGHT_TO_LEFT.test(letter) ? "rtl" : "ltr";
}

/*
 * Return the tokens of a sentence for display. `words` lists the tokens of each word; by default
 * each token is a word. A token may have its probability. `firstNumber` is the number of the first token: 0 for tokens that start
 * with the target's <bos>, which no step produces, else 1.
 */
export function displayTokens(raw, firstNumber, words = raw.map((_, index) => [index])) {
  const firstOfWords = new Set(words.map(([first]) => first));
  const tokens = raw.map((token, index) => {
    const parts = segmentsOf(token.text);
    const label = parts.map(([part]) => part).join("");
    const startsWord = firstOfWords.has(index);
    return {
      label,
      parts,
      special: Boolean(token.special),
      punctuation: isPunctuation(token),
      unknown: Boolean(token.unknown),
      blank: label.startsWith(LONE_SPACE),
      probability: token.probability,
      startsWord,
      // No space before this word: "Hemd." is two words.
      close: startsWord && !token.starts_word && !token.special && index > 0,
      number: firstNumber + index,
      repeated: false,
    };
  });
  return markRepeated(tokens);
}

function markRepeated(tokens) {
  const counts = new Map();
  for (const token of tokens) counts.set(token.label, (counts.get(token.label) ?? 0) + 1);
  for (const token of tokens) token.repeated = !token.special && !token.blank && counts.get(token.label) > 1;
  return tokens;
}

/* Rows or columns of a map, one per token; `members` are the token indices. */
export const tokenItems = (tokens) => tokens.map((token, index) => ({ ...token, members: [index] }));

/*
 * Rows or columns per word. A word has the number of its first token and the product of its tokens' probabilities.
 * `tokens` may begin or end inside a word.
 */
export function wordItems(tokens) {
  const words = [];
  tokens.forEach((token, index) => {
    const word = words[words.length - 1];
    if (token.startsWord || !word) {
      words.push({ ...token, startsWord: true, members: [index] });
      return;
    }
    word.label += token.label;
    word.members.push(index);
    word.unknown ||= token.unknown;
    word.probability *= token.probability;
  });
  return markRepeated(words);
}

export const subscript = (number) => [...String(number)].map((digit) => String.fromCodePoint(0x2080 + Number(digit))).join("");

/* A token as named in running text: shortened, with its position as a subscript when the word is repeated. */
export function tokenName(token) {
  const characters = graphemes(token.label);
  const short = characters.length > 40 ? `${characters.slice(0, 39).join("")}\u2026` : token.label;
  return isolated(short) + (token.repeated ? subscript(token.number) : "");
}
