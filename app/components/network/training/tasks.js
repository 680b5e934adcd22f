// Generated translation tasks whose right answers, and right alignments, are known exactly, as in core/data/tasks.py.

import { twister } from "../twister.js";

/**
 * A character of the target, the source characters that determine it, and what it is part of; characters count from 0.
 * @typedef {{part: string, target: number, source: number[]}} Link
 * @typedef {{source: string, target: string, links: Link[]}} Example
 * @typedef {[text: string, part: string, pieces: number[]]} Written  a piece of the target: its text, its part ("" if
 *   none) and the indices of its source pieces
 */

/** Random numbers, the same as those of Python's random.Random for a seed. */
export class Random {
  /** @param {number} seed */
  constructor(seed) {
    this.bits = twister(seed);
  }

  /** The next whole number from 0 to n − 1. @param {number} n */
  below(n) {
    const shift = Math.clz32(n); // 32 minus the bits of n
    let drawn = this.bits() >>> shift;
    while (drawn >= n) drawn = this.bits() >>> shift;
    return drawn;
  }
}

/** Join pieces without blanks; the pieces contain their own. @param {string[]} source @param {Written[]} target @returns {Example} */
function joinedPieces(source, target) {
  let start = 0;
  const spans = source.map((piece) => {
    start += piece.length;
    return [...piece].map((_, at) => start - piece.length + at).filter((_, at) => piece[at] !== " ");
  });
  const links = [];
  let at = 0;
  for (const [text, part, pieces] of target) {
    for (let i = 0; i < text.length; i++)
      if (part && text[i] !== " ") links.push({ part, target: at + i, source: pieces.flatMap((piece) => spans[piece]) });
    at += text.length;
  }
  return { source: source.join(""), target: target.map(([text]) => text).join(""), links };
}

const spaced = (word, i) => (i ? ` ${word}` : word);

const MONTHS = "Januar Februar März April Mai Juni Juli August September Oktober November Dezember".split(" ");
const DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** Draw a date of the years 1000 to 2999, as in "3. März 1999" → "1999-03-03". @param {Random} random */
function drawDate(random) {
  const year = 1000 + random.below(2000), month = random.below(12);
  const isLeap = month === 1 && (year % 400 === 0 || (year % 4 === 0 && year % 100 !== 0));
  const day = String(1 + random.below(DAYS[month] + Number(isLeap))), n = day.length;
  const ofYear = [...String(year)].map((digit, i) => /** @type {Written} */ ([digit, "year", [n + 3 + i]]));
  const ofDay = [...day.padStart(2, "0")].map((digit, i) => /** @type {Written} */ ([digit, "day", [Math.min(i, n - 1)]]));
  const ofMonth = /** @type {Written} */ ([String(month + 1).padStart(2, "0"), "month", [n + 1]]);
  return joinedPieces([...day, ".", ` ${MONTHS[month]}`, " ", ...String(year)], [...ofYear, ["-", "", []], ofMonth, ["-", "", []], ...ofDay]);
}

const UNIT_WORDS = "ein zwei drei vier fünf sechs sieben acht neun".split(" ");
const TEEN_WORDS = "zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn".split(" ");
const TEN_WORDS = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split(" ");
const POWERS = ["units", "tens", "hundreds", "thousands"];

/** Draw a number from 1 to 9999, as in "vier hundert zwei und dreißig" → "432"; a zero has no word and no link. @param {Random} random */
function drawNumber(random) {
  const digits = String(1 + random.below(9999)), words = [], said = new Map(); // from a power of ten to the index of its word
  for (const [power, name] of /** @type {[number, string][]} */ ([[3, "tausend"], [2, "hundert"]])) {
    const digit = Number(digits.at(-1 - power) ?? 0);
    if (digit) said.set(power, words.push(UNIT_WORDS[digit - 1], name) - 2);
  }
  const last = Number(digits.slice(-2)), ten = Math.floor(last / 10), unit = last % 10;
  if (ten === 1) {
    said.set(1, words.length).set(0, words.length);
    words.push(TEEN_WORDS[unit]);
  } else {
    if (unit) said.set(0, words.push(unit === 1 && !ten ? "eins" : UNIT_WORDS[unit - 1]) - 1);
    if (unit && ten) words.push("und");
    if (ten) said.set(1, words.push(TEN_WORDS[ten - 2]) - 1);
  }
  const target = [...digits].map((digit, i) => {
    const power = digits.length - 1 - i;
    return /** @type {Written} */ (said.has(power) ? [digit, POWERS[power], [said.get(power)]] : [digit, "", []]);
  });
  return joinedPieces(words.map(spaced), target);
}

const LETTERS = "abcdefghij";
const FEWEST_LETTERS = 3, MOST_LETTERS = 8;

/** @param {Random} random */
function drawLetters(random) {
  const length = FEWEST_LETTERS + random.below(MOST_LETTERS - FEWEST_LETTERS + 1);
  return Array.from({ length }, () => LETTERS[random.below(LETTERS.length)]);
}

/** Draw three to eight letters and write them backwards: "c a f" → "f a c". @param {Random} random */
function drawReversal(random) {
  const letters = drawLetters(random), last = letters.length - 1;
  return joinedPieces(letters.map(spaced), letters.map((_, i) => [spaced(letters[last - i], i), "letter", [last - i]]));
}

/** Draw three to eight letters and sort them; of equal letters, any may be looked at. @param {Random} random */
function drawSorting(random) {
  const letters = drawLetters(random), placesOf = (letter) => letters.flatMap((one, i) => (one === letter ? [i] : []));
  return joinedPieces(letters.map(spaced), letters.toSorted().map((letter, i) => [spaced(letter, i), "letter", placesOf(letter)]));
}

const wordPairs = (text) => text.split(" ").map((pair) => pair.split("/"));
const NOUNS = wordPairs(
  "m/Hund/dog m/Vogel/bird m/Mann/man m/Ball/ball f/Katze/cat f/Frau/woman f/Maus/mouse f/Kuh/cow n/Kind/child n/Pferd/horse n/Buch/book n/Auto/car",
);
const ADJECTIVES = wordPairs("klein/small alt/old rot/red blau/blue schnell/fast jung/young");
const VERBS = wordPairs("sieht/sees sucht/seeks findet/finds kennt/knows liebt/loves holt/fetches");
const CONJUNCTIONS = wordPairs("dass/that weil/because wenn/when ob/whether");
const ARTICLES = { m: ["der", "den"], f: ["die", "die"], n: ["das", "das"] }; // subject, object

/**
 * Draw a German clause and its English translation. After a conjunction, the German verb comes last: "weil der Hund den
 * roten Ball sucht"; in half of the clauses there is none, and the verb stands second.
 * @param {Random} random
 */
function drawClause(random) {
  const source = [], start = CONJUNCTIONS[random.below(2 * CONJUNCTIONS.length)]; // undefined in half of the cases
  const [germanVerb, verb] = VERBS[random.below(VERBS.length)];
  const say = (german, english, part) => [english, part, [source.push(german) - 1]];
  const nounPhrase = (object) => {
    const [gender, german, english] = NOUNS[random.below(NOUNS.length)], ending = object && gender === "m" ? "en" : "e";
    const phrase = [say(ARTICLES[gender][object], "the", "")];
    const adjective = ADJECTIVES[random.below(2 * ADJECTIVES.length)];
    if (adjective) phrase.push(say(adjective[0] + ending, adjective[1], "adjective"));
    return [...phrase, say(german, english, "noun")];
  };
  const first = start ? [say(start[0], start[1], "conjunction")] : [], subject = nounPhrase(0);
  const second = start ? null : say(germanVerb, verb, "verb"), object = nounPhrase(1);
  const target = [...first, ...subject, second ?? say(germanVerb, verb, "verb"), ...object];
  return joinedPieces(source.map(spaced), target.map(([text, part, at], i) => [spaced(text, i), part, at]));
}

/** By name: the parts of a target whose alignment is measured, and the generator. @type {Record<string, {parts: string[], draw: (random: Random) => Example}>} */
export const TASKS = {
  dates: { parts: ["day", "month", "year"], draw: drawDate },
  numbers: { parts: POWERS, draw: drawNumber },
  reversal: { parts: ["letter"], draw: drawReversal },
  sorting: { parts: ["letter"], draw: drawSorting },
  grammar: { parts: ["noun", "adjective", "verb", "conjunction"], draw: drawClause },
};
