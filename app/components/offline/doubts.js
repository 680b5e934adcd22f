// Warnings about a translation, as in core/analysis/quality_warnings.py: from its source, its text and its probability.

import { describeMarks, marks } from "../network/line.js";
import { normalise } from "../network/subwords.js";
import { fixed, percent } from "../shared/numbers.js";

/* A geometric mean of the tokens’ probabilities below this raises a warning, if no certainty was measured. */
const LOW = 0.4;
/* Items quoted per warning. */
const QUOTED = 3;
/* Numbers up to this may be written as words. */
const WRITTEN_OUT = 12;
/* Characters that are simplified or removed before the text is tokenised: see `typography` in core/text/tokenizer.py. */
const TYPOGRAPHY = /[\u00ad\u200b\u200c\u200e\u200f\u2060\ufeff\u2010\u2011\u2212\u1e9e\ufb00-\ufb06]/gu;
const WORD = /[\p{L}\p{Nl}\p{No}]+/gu;
const WORD_WITH_APOSTROPHE = /[\p{L}\p{Nl}\p{No}]+(?:['\u2019][\p{L}\p{Nl}\p{No}]+)?/gu;
const ADDRESS = /(?<![\p{L}\p{N}_])(?:[\p{L}\p{N}_.+-]+@[\p{L}\p{N}_-]+\.[\p{L}\p{N}_.-]*[\p{L}\p{N}_]|https?:\/\/\S*[\p{L}\p{N}_]|www\.\S*[\p{L}\p{N}_])/gu;
const NUMBER = /[0-9]+(?:[ .,\u00a0\u202f][0-9]{3}(?![A-Za-z0-9_]))*/g;

const UNIT_AFTER_NUMBER = /[0-9][ \u00a0]?(km\/h|m\/s|km|cm|mm|kg|°C|°F|%|€|\$)(?![\p{L}\p{N}_/])|([€$])[ \u00a0]?[0-9]/gu;
/* Units, and what any translation of each between German and English contains. */
const UNITS = {
  "km/h": ["km/h", "kph", "kmh", "mph", "kilomet"],
  "m/s": ["m/s", "met"],
  km: ["km", "kilomet"],
  cm: ["cm", "centimet", "zentimet"],
  mm: ["mm", "millimet"],
  kg: ["kg", "kilogram", "kilos", "kilo "],
  "°C": ["°", "degree", "grad", "celsius"],
  "°F": ["°", "degree", "grad", "fahrenheit"],
  "%": ["%", "percent", "per cent", "prozent"],
  "€": ["€", "euro"],
  $: ["$", "dollar"],
};

/**
 * @typedef {object} Doubted
 * @property {string} source  the given line
 * @property {string} translation
 * @property {string} language  of the source, such as "German"
 * @property {string[]} unknown  parts of the source that are read as <unk>
 * @property {number} probability  geometric mean over the target's tokens; 1 for a given target, which no search chose
 */

/**
 * Return one clause per reason to doubt a translation.
 * @param {Doubted} doubted
 * @param {Record<string, string>} functionWords  the most common words of each language, separated by spaces
 */
export function reasonsToDoubt({ source: line, translation, language, unknown, probability }, functionWords) {
  const found = marks(line), source = normalise(line);
  const other = otherLanguage(source, language, functionWords);
  const lost = lostFrom(source, translation);
  const unread = [...new Set(unknown)];
  return [
    source && !/[\p{L}\p{N}]/u.test(source) && "the sentence has no word, so the words of the translation are made up",
    isInCapitals(source) && "the sentence is in capitals, which the network has hardly seen",
    found.length > 0 && `the source has ${describeMarks(found)}: give plain text`,
    other && `this looks like ${other}, but it is read as ${language}`,
    unread.length > 0 && `the network has no token for ${quotedList(unread)} and reads ${unread.length === 1 ? "it" : "them"} as <unk>`,
    lost.length > 0 && `the translation lacks ${quotedList(lost)} from the source`,
    probability < LOW && `the geometric mean of its tokens' probabilities is ${probability < 0.01 ? "below 1" : `only ${fixed(100 * probability, 0)}`} %`,
  ].filter(Boolean);
}

function quotedList(texts) {
  const words = texts.slice(0, QUOTED).map((text) => `\u201c${text}\u201d`).join(", ");
  return texts.length > QUOTED ? `${words} and ${texts.length - QUOTED} more` : words;
}

/* Whether nearly all letters are capitals. A single word may be an abbreviation and does not count. */
function isInCapitals(text) {
  const words = (text.match(WORD) ?? []).filter((word) => [...word].length > 1);
  const cased = [...words.join("")].filter((letter) => letter.toUpperCase() !== letter.toLowerCase());
  const capitals = cased.filter((letter) => /\p{Lu}/u.test(letter)).length;
  return words.length > 1 && cased.length > 0 && capitals >= 0.8 * cased.length;
}

/* Addresses, numbers above WRITTEN_OUT, and units, that the translation lacks. It may write hours on a 12-hour clock. */
function lostFrom(source, translation) {
  const addresses = (source.match(ADDRESS) ?? []).filter((address) => !translation.includes(address));
  const digits = (number) => String(BigInt(number.replace(/\D/g, "")));
  const written = (translation.match(NUMBER) ?? []).map(digits);
  const afternoons = written.filter((hour) => Number(hour) <= 12).map((hour) => String(Number(hour) + 12));
  const known = new Set([...written, ...afternoons]);
  const numbers = (source.replace(ADDRESS, " ").match(NUMBER) ?? []).filter(
    (number) => Number(digits(number)) > WRITTEN_OUT && !known.has(digits(number)),
  );
  const units = new Set([...source.replace(ADDRESS, " ").matchAll(UNIT_AFTER_NUMBER)].map(([, one, other]) => one ?? other));
  const lower = translation.toLowerCase();
  const lostUnits = [...units].filter((unit) => !UNITS[unit].some((text) => lower.includes(text)));
  return [...addresses, ...numbers, ...lostUnits];
}

/* The language that a text's function words suggest, if it is not the expected one; null without clear evidence. */
function otherLanguage(text, expected, functionWords) {
  if (!functionWords[expected]) return null;
  const words = (text.toLowerCase().match(WORD_WITH_APOSTROPHE) ?? []).map((word) => word.replaceAll("\u2019", "'"));
  const sets = Object.fromEntries(Object.entries(functionWords).map(([language, list]) => [language, new Set(list.split(" "))]));
  const count = (isIncluded) => words.filter(isIncluded).length;
  const hits = (language) => count((word) => sets[language].has(word));
  // Only words that the expected language lacks are evidence for another.
  const foreign = (language) => count((word) => sets[language].has(word) && !sets[expected].has(word));
  const others = Object.keys(sets).filter((language) => language !== expected);
  const best = others.reduce((one, other) => (foreign(other) > foreign(one) || (foreign(other) === foreign(one) && hits(other) > hits(one)) ? other : one));
  return foreign(best) >= 2 && foreign(best) > hits(expected) ? best : null;
}

/** Say which characters of a text were simplified before it was read; "" if none. @param {string} typed */
export function typographyNote(typed) {
  const found = [...new Set(typed.match(TYPOGRAPHY) ?? [])];
  if (!found.length) return "";
  const names = found.map((character) => `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`).join(", ");
  return `Some typographic characters were removed or simplified (${names}).`;
}

/**
 * Say that the network is less certain than of most sentences of its own kind; "" if it is not, or if that is unknown.
 * @param {[number, string][]} limits  limits of the mean probability with a line each, in ascending order
 * @param {number} probability
 */
export const lessCertain = (limits, probability) => limits.find(([limit]) => probability < limit)?.[1] ?? "";

/** Name the least probable token. @param {{name: string, probability: number}[]} tokens */
export function leastCertain(tokens) {
  const least = tokens.reduce((one, other) => (other.probability < one.probability ? other : one));
  return `Least certain token of the translation: \u201c${least.name}\u201d (${percent(least.probability)}).`;
}
