// Text to words and back, as in core/text/words.py: by spaCy's rules, which the weights file holds, and as the Moses detokenizer does.

import { normalise, OUTER_SPACES, SPACES, token, Tokenizer, UNK, UNKNOWN } from "./subwords.js";

/**
 * A language's rules, written by app/export/words.py: regular expressions ("" for none), and the words that are split in a way of
 * their own.
 * @typedef {{prefix: string, suffix: string, infix: string, whole: string, url: string, cases: Record<string, string[]>}} Rules
 * @typedef {{text: string, start: number}} Word  start: its offset in the text
 */

const expression = (source, flags = "u") => (source ? new RegExp(source, flags) : /(?!)/u);

/** Splits texts as spaCy's Tokenizer does: https://spacy.io/usage/linguistic-features#how-tokenizer-works. */
class Splitter {
  /** @param {Rules} rules */
  constructor({ prefix, suffix, infix, whole, url, cases }) {
    this.prefix = expression(prefix);
    this.suffix = expression(suffix);
    this.infix = expression(infix, "gu");
    this.whole = expression(whole);
    this.url = expression(url);
    this.cases = new Map(Object.entries(cases));
    /* What the other rules make of the cases that they split, by the first part. @type {Map<string, string[][]>} */
    this.broken = new Map();
    for (const word of this.cases.keys()) {
      if (!this.prefix.test(word) && !this.suffix.test(word) && word.search(this.infix) < 0) continue;
      const parts = this.parts(word, new Map());
      this.broken.set(parts[0], [...(this.broken.get(parts[0]) ?? []), parts]);
    }
  }

  /** The words of a text in which one space parts the stretches. @param {string} text @returns {Word[]} */
  split(text) {
    const words = [];
    let start = 0;
    for (const stretch of text ? text.split(" ") : []) {
      words.push(...placedWords(this.cases.get(stretch) ?? this.parts(stretch, this.cases), start));
      start += stretch.length + 1;
    }
    return this.mended(words, text);
  }

  /* Take affixes off both ends until none or a case is left, then split what is left at infixes. */
  parts(stretch, cases) {
    const before = [], after = [];
    let rest = stretch, last = "";
    while (rest && rest !== last && !this.whole.test(rest) && !cases.has(rest)) {
      last = rest;
      const [prefix = ""] = rest.match(this.prefix) ?? [], unprefixed = rest.slice(prefix.length);
      const [suffix = ""] = unprefixed.match(this.suffix) ?? [], unsuffixed = rest.slice(0, rest.length - suffix.length);
      const [first, end] = cases.has(unprefixed) ? [prefix, ""] : cases.has(unsuffixed) ? ["", suffix] : [prefix, suffix];
      rest = rest.slice(first.length, rest.length - end.length);
      if (first) before.push(first);
      if (end) after.unshift(end);
    }
    return [...before, ...this.inner(rest, cases), ...after];
  }

  inner(rest, cases) {
    if (!rest) return [];
    if (cases.has(rest)) return cases.get(rest);
    if (this.whole.test(rest) || this.url.test(rest)) return [rest];
    const words = [];
    let start = 0;
    for (const { 0: infix, index } of rest.matchAll(this.infix)) {
      if (!index) continue; // as in spaCy, no word begins with an infix
      words.push(rest.slice(start, index), infix);
      start = index + infix.length;
    }
    return [...words, rest.slice(start)].filter(Boolean);
  }

  /* Mend the cases that other rules have broken: the longest first, then the first, none that overlap. */
  mended(words, text) {
    const found = words.flatMap(({ text: first }, at) => (this.broken.get(first) ?? [])
      .filter((parts) => parts.every((part, i) => words[at + i]?.text === part)).map(({ length }) => ({ at, length })));
    const seen = new Set(), chosen = new Map();
    for (const { at, length } of found.toSorted((a, b) => b.length - a.length || a.at - b.at)) {
      if (!seen.has(at) && !seen.has(at + length - 1)) chosen.set(at, length);
      for (let i = 0; i < length; i++) seen.add(at + i);
    }
    const whole = [];
    for (let at = 0; at < words.length; at += chosen.get(at) ?? 1) {
      const old = words.slice(at, at + (chosen.get(at) ?? 1)), last = old.at(-1);
      const own = chosen.has(at) && this.cases.get(text.slice(old[0].start, last.start + last.text.length)); // none if a space parts them
      whole.push(...(own ? placedWords(own, old[0].start) : old));
    }
    return whole;
  }
}

/** @returns {Word[]} */
function placedWords(texts, start) {
  let at = start;
  return texts.map((text) => ({ text, start: (at += text.length) - text.length }));
}

/** One id per word of one language; words outside the vocabulary are <unk>. */
export class WordTokenizer extends Tokenizer {
  /** @param {{pieces: string[], language: string, lower: boolean, rules: Rules, first?: number[]}} tokenizer of a weights file */
  constructor({ pieces, language, lower, rules, first }) {
    super({ pieces, merges: [], first });
    this.language = language;
    this.keyOf = (word) => (lower ? word.toLowerCase() : word);
    this.splitter = new Splitter(rules);
  }

  placed(text) {
    const normal = normalise(text);
    return this.splitter.split(normal).map(({ text: word, start }) => {
      const key = this.keyOf(word), known = this.ids.get(key) ?? UNK, id = known < UNK ? UNK : known; // a typed <eos> is text
      return { token: token(id, this.pieces[id], id === UNK ? word : key, true, { unknown: id === UNK }), start: Array.from(normal.slice(0, start)).length };
    });
  }

  decode(ids) {
    return detokenised(this.written(ids).map((id) => (id === UNK ? UNKNOWN : this.pieces[id])), this.language);
  }

  token(id) {
    const one = super.token(id); // a word may begin with the mark that subwords have
    return one.special ? one : token(id, one.piece, one.piece);
  }
}

/* The Moses detokenizer's rules for English and German. */
const MOSES_ESCAPES = [["&bar;", "|"], ["&#124;", "|"], ["&lt;", "<"], ["&gt;", ">"], ["&bra;", "["], ["&ket;", "]"], ["&quot;", '"'], ["&apos;", "'"], ["&#91;", "["], ["&#93;", "]"], ["&amp;", "&"]];
const CJK = String.raw`[\u1100-\u11ff\u2e80-\ua4cf\ua840-\ua87f\uac00-\ud7af\uf900-\ufaff\ufe30-\ufe4f\uff65-\uffdc\u{17000}-\u{18aff}\u{1b000}-\u{1b12f}\u{1b170}-\u{1b2ff}\u{20000}-\u{2ffff}]`;
const STARTS_CJK = new RegExp(`^${CJK}`, "u"), ENDS_CJK = new RegExp(`${CJK}$`, "u");
const JOINS_NEXT = /^[\p{Sc}([{¿¡]+$/u; // currencies and opening brackets
const JOINS_LAST = /^[,.?!:;\\%}\])]+$/u;
const QUOTES = /^['"„“\x60]+$/u;
const CONTRACTION = /^'\p{Alphabetic}/u;

/** Join words to a text, with spaces where Moses puts them. @param {string[]} words @param {string} language */
function detokenised(words, language) {
  const plain = MOSES_ESCAPES.reduce((text, [escape, character]) => text.replaceAll(escape, character), ` ${words.join(" ")} `.replaceAll(" @-@ ", "-"));
  const quotes = new Map();
  let text = "", space = " ";
  const add = (word, joinsLast, joinsNext) => {
    text += joinsLast ? word : space + word;
    space = joinsNext ? "" : " ";
  };
  let last = "";
  for (const [at, word] of plain.split(SPACES).filter(Boolean).entries()) {
    const kind = /^[„“”]+$/u.test(word) ? '"' : word, isOpen = (quotes.get(kind) ?? 0) % 2 === 1;
    if (STARTS_CJK.test(word)) add(word, at > 0 && ENDS_CJK.test(last), false);
    else if (JOINS_NEXT.test(word)) add(word, false, true);
    else if (JOINS_LAST.test(word) || (language === "en" && at > 0 && CONTRACTION.test(word))) add(word, true, false);
    else if (!QUOTES.test(word)) add(word, false, false);
    else if (language === "en" && word === "'" && !isOpen && last.endsWith("s")) add(word, true, false); // the Jones' house
    else {
      add(word, isOpen, !isOpen);
      quotes.set(kind, (quotes.get(kind) ?? 0) + 1);
    }
    last = word;
  }
  return text.replace(/ {2,}/g, " ").replace(OUTER_SPACES, "");
}
