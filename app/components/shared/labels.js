// Labels a record's tokens: shows invisible characters, and groups the tokens into words. As app/look/labels.py does.

/* Visible characters of category Cf: they enclose the digits that follow. */
const SHOWN_FORMATS = new Set([0x600, 0x601, 0x602, 0x603, 0x604, 0x605, 0x6dd, 0x70f, 0x890, 0x891, 0x8e2, 0x110bd, 0x110cd]);

/* Default-ignorable characters outside category Cf, and the blank Braille pattern. */
const IGNORABLE = [[0x34f], [0x115f, 0x1160], [0x17b4, 0x17b5], [0x180b, 0x180f], [0x2800], [0x3164], [0xfe00, 0xfe0f], [0xffa0], [0xe0100, 0xe01ef]];

const BLANK = /^[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Zs}]$/u;
const PICTOGRAPH = /^[\p{So}\p{Sk}\ufe0f]$/u;
const SELECTOR = /^[\ufe00-\ufe0f]$/;
const PRINTABLE_LATIN = /^[!-~\u00c0-\u024f]+$/; // most texts: a shortcut
const ZERO_WIDTH_JOINER = "\u200d";

function isInvisible(character) {
  const code = character.codePointAt(0);
  if (SHOWN_FORMATS.has(code)) return false;
  return (BLANK.test(character) && character !== " ") || IGNORABLE.some(([first, last = first]) => code >= first && code <= last);
}

/* Whether a character is invisible; joiners and selectors inside an emoji are not. */
function isHiddenCharacter(characters, index) {
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
export function segmentsOf(text) {
  if (PRINTABLE_LATIN.test(text)) return [[text, false]];
  const characters = [...text.replace(/\p{Cs}/gu, "?")]; // a lone surrogate becomes ?
  if (characters.every((character) => character === " ")) return [["\u2423".repeat(Math.max(1, characters.length)), false]];
  const parts = [];
  characters.forEach((character, index) => {
    if (isHiddenCharacter(characters, index)) parts.push([nameOfHidden(character), true]);
    else if (parts.length && !parts.at(-1)[1]) parts.at(-1)[0] += character;
    else parts.push([character, false]);
  });
  return parts;
}

/** Return a token's visible text. @param {SentToken} token */
export const labelOf = ({ text }) => segmentsOf(text).map(([shown]) => shown).join("");

/** Whether a token's text is nonempty and all punctuation. @param {SentToken} token */
export const isPunctuation = ({ text, special }) => !special && /^\p{P}+$/u.test(text);

/** Return the label, with a hyphen in front if the token continues a word. @param {SentToken} token */
export const shortLabel = (token) => (token.starts_word || token.special || isPunctuation(token) ? "" : "\u2010") + labelOf(token);

/**
 * Return the token positions of each word, in order, as core/record/words.py does.
 * @param {SentToken[]} tokens
 * @returns {number[][]}
 */
export function groupWords(tokens) {
  const words = [];
  let joins = false;
  tokens.forEach((token, position) => {
    const single = token.special || isPunctuation(token);
    if (joins && !single && !token.starts_word) words.at(-1).push(position);
    else words.push([position]);
    joins = !single;
  });
  return words;
}
