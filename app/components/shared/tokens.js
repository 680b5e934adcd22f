// Prepares tokens for showing: invisible characters made visible, words grouped, repeated words numbered.

/* What a reader sees as one character: an emoji of several people is never cut in two. */
const SEGMENTER = new Intl.Segmenter(undefined, { granularity: "grapheme" });

export const graphemes = (text) => Array.from(SEGMENTER.segment(text), ({ segment }) => segment);

/* Zero-width, direction and control characters, and every space that is not the plain one. */
const INVISIBLE =
  /[\p{Default_Ignorable_Code_Point}\p{Cc}\p{Zl}\p{Zp}\u00A0\u1680\u2000-\u200A\u202F\u205F\u3000\u2800]/u;

const VARIATION_SELECTOR = /[\uFE00-\uFE0F]/u;

const PICTOGRAPH = /[\p{Extended_Pictographic}\p{Emoji_Modifier}\uFE0F]/u;

const ZERO_WIDTH_JOINER = "\u200D";

export const PUNCTUATION = /^[\p{P}]+$/u;

const LONE_SPACE = "\u2423";

/* An emoji is built with joiners and selectors that do show: as the emoji. Everywhere else they are hidden marks. */
function showsItself(characters, index) {
  if (!INVISIBLE.test(characters[index])) return true;
  if (VARIATION_SELECTOR.test(characters[index])) return index > 0 && !INVISIBLE.test(characters[index - 1]);
  return (
    characters[index] === ZERO_WIDTH_JOINER &&
    PICTOGRAPH.test(characters[index - 1] ?? "") &&
    PICTOGRAPH.test(characters[index + 1] ?? "")
  );
}

const codePointName = (character) =>
  `\u2039U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}\u203a`;

/* Text as a list of {text, hidden}: hidden characters stand alone under their names, ‹U+200B›. */
export function visibleSegments(text) {
  if (text.replaceAll(" ", "") === "") return [{ text: LONE_SPACE.repeat(Math.max(1, text.length)), hidden: false }];
  const segments = [];
  const characters = [...text];
  characters.forEach((character, index) => {
    const last = segments[segments.length - 1];
    if (!showsItself(characters, index)) segments.push({ text: codePointName(character), hidden: true });
    else if (last && !last.hidden) last.text += character;
    else segments.push({ text: character, hidden: false });
  });
  return segments;
}

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
    const segments = visibleSegments(token.text);
    const label = segments.map((segment) => segment.text).join("");
    const punctuation = !token.special && PUNCTUATION.test(token.text);
    // Punctuation is its own word, set close to the one before: "Hemd." is not one word of two pieces.
    const startsWord =
      token.start || token.special || punctuation || afterPunctuation || afterSpecial || index === 0;
    afterPunctuation = punctuation;
    afterSpecial = token.special;
    return {
      label,
      segments,
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

/* What a map's rows or columns stand for, piece by piece: each item names its members, here itself. */
export const pieceItems = (tokens) => tokens.map((token, index) => ({ ...token, members: [index] }));

/* The same word by word: pieces joined; a word's number is its first piece's, its probability their product. */
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
