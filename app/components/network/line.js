// A line as it is given, as in core/text/line.py: its words, the text that a network reads, and marks of other tools.

import { normalise } from "./subwords.js";

/* The marks of other tools, as named in a warning. */
const FOREIGN_MARKS = {
  tab: "a tab",
  id: "an id in front",
  language: "a language code",
  escape: "HTML or Moses escapes",
  hyphen: "Moses hyphens",
  bpe: "BPE marks",
  joiner: "OpenNMT joiners",
  case: "OpenNMT case features",
  piece: "SentencePiece marks",
  wordpiece: "WordPiece marks",
  tag: "HTML tags",
};

const LINE_ID = /^[ ]*[0-9]+\t(?:[a-z]{2,3}\t)?(?=[^\t]*$)/u;
const LANGUAGE_CODE = ">>[A-Za-z]{2,3}(?:[_\\-][A-Za-z]+)*<<|__[a-z]{2,3}(?:_[A-Za-z]+)?__|<2[A-Za-z]{2,3}(?:[_\\-][A-Za-z]+)?>";
const WHOLE_LANGUAGE = new RegExp(`^(?:${LANGUAGE_CODE})$`, "u");
const MOSES_HYPHEN = /^@([-\u2013/,.:])@$/u;
const CASE_FEATURE = /\uffe8([CLUMN])$/u;
const JOINER = "\uffed";
const NAMED_CHARACTERS = {
  amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", bar: "|",
  lsqb: "[", rsqb: "]", auml: "ä", ouml: "ö", uuml: "ü", Auml: "Ä", Ouml: "Ö",
  Uuml: "Ü", szlig: "ß", eacute: "é", agrave: "à", egrave: "è", euro: "€",
  ndash: "–", mdash: "—", hellip: "…", laquo: "«", raquo: "»", bdquo: "„",
  ldquo: "“", rdquo: "”", lsquo: "‘", rsquo: "’", sbquo: "‚", deg: "°",
  shy: "\u00ad", pound: "£", copy: "©", reg: "®", times: "×", frac12: "½",
};
const ESCAPE = new RegExp(`&(?:amp;)*(#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|${Object.keys(NAMED_CHARACTERS).join("|")});`, "gu");
const HTML_TAG =
  /<\/?(?:a|b|big|blockquote|br|center|code|div|em|font|h[1-6]|hr|i|img|li|ol|p|pre|s|seg|small|span|strong|sub|sup|table|td|th|tr|tt|u|ul)(?: [^<>]*)?\/?>/giu;
const MARK_PATTERNS = {
  tab: /\t/gu,
  id: new RegExp(LINE_ID.source, "gu"),
  language: new RegExp(`(?:(?<= )|^)(?:${LANGUAGE_CODE})(?= |$)`, "gu"),
  escape: ESCAPE,
  hyphen: /(?:(?<= )|^)@([-\u2013/,.:])@(?= |$)/gu,
  bpe: /(?<=[^ @])@@(?= |$)|<\/w>/gu,
  joiner: /\uffed/gu,
  case: /\uffe8[CLUMN](?= |$)/gu,
  piece: /(?:(?<= )|^)\u2581(?=[^ \u2581])/gu,
  wordpiece: /(?<= )##(?=[^ #])/gu,
  tag: HTML_TAG,
};

/** @returns {[string, string][]} */
const quotesTo = (characters, to) => [...characters].map((character) => [character, to]);
const RARE_QUOTES = [...quotesTo("«»‟″‶〝〞〟＂❝❞", '"'), ...quotesTo("‹›‛′‵´`ʹʼ＇❛❜", "'")];
const PAIRED_QUOTES = /``|''|´´|‘‘|’’|‚‚|,,(?=[^ ,])/gu;
const ENGLISH_QUOTES = new Map([...RARE_QUOTES, ...quotesTo("“”", '"')]);
const GERMAN_QUOTES = new Map([...RARE_QUOTES, /** @type {[string, string]} */ (["”", "“"])]);

/** The words of a line, which ASCII blanks part. @param {string} line */
export const wordsOfLine = (line) => line.split(" ").filter(Boolean);

/**
 * The marks of other tools in a line, each as kind and first text.
 * @param {string} line
 * @returns {[string, string][]}
 */
export function marks(line) {
  const found = [];
  for (const [kind, pattern] of Object.entries(MARK_PATTERNS)) {
    const match = line.matchAll(pattern).next().value;
    if (match && !(kind === "tab" && LINE_ID.test(line))) found.push([kind, match[0].split("\t")[0].replace(/^ +| +$/gu, "")]);
  }
  return found;
}

/** Name marks in one clause. @param {[string, string][]} found */
export const describeMarks = (found) => found.map(([kind, text]) => FOREIGN_MARKS[kind] + (text ? ` (“${text}”)` : "")).join(", ");

/**
 * Read a line: resolve marks of other tools, simplify rare quotation marks, and normalise each word.
 * Word `owners[i]` of the given line owns character i (a code point) of the text.
 * @param {string} line
 * @param {Set<string>} kept  kinds of marks that stay as they are
 * @param {boolean} foldsQuotes  whether to simplify quotation marks
 * @returns {{words: string[], text: string, owners: number[]}}
 */
export function readLine(line, kept = new Set(), foldsQuotes = true) {
  const words = wordsOfLine(line), [inFront = ""] = line.match(LINE_ID) ?? [];
  const idWords = wordsOfLine(inFront).length, table = line.includes("„") ? GERMAN_QUOTES : ENGLISH_QUOTES;
  const folded = (word) => !foldsQuotes ? word : [...word.replace(PAIRED_QUOTES, '"')].map((character) => table.get(character) ?? character).join("");
  let text = "", joins = false;
  const owners = [];
  words.forEach((word, number) => {
    const typed = number < idWords ? word.slice(word.lastIndexOf("\t") + 1) : word;
    const { plain, before, after } = plainWord(typed, number, words.length, kept);
    const part = normalise(folded(plain));
    if (!part) {
      joins ||= before || after;
      return;
    }
    const isGlued = text && (joins || before) && normalise(text + part) === text + part;
    const added = isGlued || !text ? part : ` ${part}`;
    text += added;
    for (const _ of added) owners.push(number);
    joins = after;
  });
  return { words, text, owners };
}

/* A word without marks, and whether it is joined to the words before and after it. */
function plainWord(word, number, count, kept) {
  let plain = word, before = false, after = false;
  if (!kept.has("language") && (number === 0 || number === count - 1) && WHOLE_LANGUAGE.test(plain)) return { plain: "", before, after };
  const hyphen = !kept.has("hyphen") && plain.match(MOSES_HYPHEN);
  if (hyphen) return { plain: hyphen[1], before: true, after: true };
  const feature = !kept.has("case") && plain.match(CASE_FEATURE);
  if (feature) {
    plain = plain.slice(0, feature.index);
    const letters = [...plain.replace(/^\uffed+/u, "")];
    const inFront = plain.slice(0, plain.length - letters.join("").length);
    if (feature[1] === "U") plain = plain.toUpperCase();
    else if (feature[1] === "C") plain = inFront + (letters.shift() ?? "").toUpperCase() + letters.join("");
  }
  if (!kept.has("joiner") && plain.includes(JOINER)) {
    [before, after] = [plain.startsWith(JOINER), plain.endsWith(JOINER)];
    plain = plain.replace(/^\uffed+|\uffed+$/gu, "");
  }
  if (!kept.has("bpe") && plain.endsWith("@@") && /[^@]/u.test(plain)) [plain, after] = [plain.slice(0, -2), true];
  if (!kept.has("wordpiece") && number && plain.startsWith("##") && /[^#]/u.test(plain)) [plain, before] = [plain.slice(2), true];
  if (!kept.has("escape")) plain = plain.replace(ESCAPE, escapedCharacter);
  return { plain, before, after };
}

/* The character of an escape; a number that is no visible one stays as it is. */
function escapedCharacter(escape, name) {
  if (!name.startsWith("#")) return NAMED_CHARACTERS[name];
  const code = /^#x/iu.test(name) ? parseInt(name.slice(2), 16) : parseInt(name.slice(1), 10);
  return code > 0x20 && code < 0x110000 && !(code >= 0xd800 && code < 0xe000) ? String.fromCodePoint(code) : escape;
}

/* The kinds of marks that each vocabulary has learnt. */
const learntMarks = new WeakMap();

function habitsOf({ pieces: marked }) {
  const known = learntMarks.get(marked);
  if (known) return known;
  const pieces = marked.map((piece) => piece.replace(/^\u2581+/u, "")), all = new Set(pieces);
  const hasBoth = (...names) => names.every((name) => all.has(name));
  const escapes = hasBoth("apos", "quot") || hasBoth("&apos;", "&quot;");
  const learnt = {
    escape: escapes,
    language: pieces.some((piece) => WHOLE_LANGUAGE.test(piece)),
    hyphen: all.has("@-@") || escapes, // the Moses tokenizer writes both
    bpe: pieces.some((piece) => piece.endsWith("@@")),
    joiner: pieces.some((piece) => piece.includes(JOINER)),
    case: pieces.some((piece) => CASE_FEATURE.test(piece)),
    wordpiece: pieces.some((piece) => piece.startsWith("##") && /[^#]/u.test(piece)),
  };
  const kept = new Set(Object.keys(learnt).filter((kind) => learnt[kind]));
  learntMarks.set(marked, kept);
  return kept;
}

/**
 * Tokenise a given line, without <bos> and <eos>, and return the given word of each token. White space other than the ASCII
 * blank starts a token, but no word.
 * @param {import("./subwords.js").Tokenizer} tokenizer
 * @param {string} line
 */
export function tokensAndWords(tokenizer, line) {
  const { text, owners } = readLine(line, habitsOf(tokenizer), tokenizer.foldsQuotes), characters = [...text];
  const words = [];
  const tokens = tokenizer.placed(text).map(({ token, start }) => {
    const at = Math.min(start, owners.length - 1), word = owners[at];
    const isInside = words.length > 0 && words.at(-1) === word && (characters[at] === " " || characters[at - 1] === " ");
    words.push(word);
    return isInside && token.starts_word ? Object.freeze({ ...token, starts_word: false }) : token;
  });
  return { tokens, words };
}
