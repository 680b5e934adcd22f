// Prepares tokens for showing: words grouped, repeated words numbered.

/* What a reader sees as one character: an emoji of several people is never cut in two. */
const SEGMENTER = new Intl.Segmenter(undefined, { granularity: "grapheme" });

export const graphemes = (text) => Array.from(SEGMENTER.segment(text), ({ segment }) => segment);

/* A token of nothing but spaces. */
const LONE_SPACE = "\u2423";

/* Right-to-left text in a label must not reorder the words beside it. */
export const isolated = (text) => `\u2068${text}\u2069`;

/*
 * One sentence as it stands on the page. `firstNumber` is the position of the first token: 1 for the source; 0 for
 * the target, whose row opens with the <bos> that is fed in and that no step produces.
 */
export function displayTokens(raw, firstNumber) {
  let afterPunctuation = false;
  let afterSpecial = false;
  const tokens = raw.map((token, index) => {
    const { label, punctuation } = token;
    // Punctuation is its own word, set close to the one before: "Hemd." is not one word of two tokens.
    const startsWord =
      token.start || token.special || punctuation || afterPunctuation || afterSpecial || index === 0;
    afterPunctuation = punctuation;
    afterSpecial = token.special;
    return {
      label,
      parts: token.parts ?? [[label, false]],
      special: token.special,
      punctuation,
      unknown: token.unknown,
      blank: label.startsWith(LONE_SPACE),
      probability: token.p,
      startsWord,
      close: startsWord && !token.start && !token.special && index > 0,
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

/* What a map's rows or columns stand for, token by token: each item names its members, here itself. */
export const tokenItems = (tokens) => tokens.map((token, index) => ({ ...token, members: [index] }));

/* The same word by word: tokens joined; a word's number is its first token's, its probability their product. */
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

/* A token's name inside a sentence of words: short enough to read on, with its number where the word is repeated. */
export function tokenName(token) {
  const characters = graphemes(token.label);
  const short = characters.length > 40 ? `${characters.slice(0, 39).join("")}\u2026` : token.label;
  return isolated(short) + (token.repeated ? subscript(token.number) : "");
}
