// The visitor's own pairs: read as in core/data/tasks.py, with a vocabulary learned as by the library behind core/text/subwords.py.

import { normalise, OUTER_SPACES, SPECIALS, Tokenizer } from "../subwords.js";

const FEWEST = 2, MOST = 5_000; // pairs
const MOST_CHARACTERS = 100; // of one side
const LINE_END = new RegExp(String.raw`\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]`, "u"); // of Python's str.splitlines
const ENTRIES = 1_000; // of the vocabulary
const UNPRINTABLE = /[\p{Cc}\u2028\u2029]/gu; // no vocabulary may hold them
const IDS = 2 ** 20; // more than there are: two ids make one number, in the order of the first, then of the second

const stripped = (text) => text.replace(OUTER_SPACES, "");

/**
 * Read pairs of short lines, source and target parted by a tab, "=" or "→". Throws a RangeError of one line.
 * @param {string} text
 */
export function pastedPairs(text) {
  const lines = text.split(LINE_END).map((line, at) => ({ line, number: at + 1 })).filter(({ line }) => stripped(line));
  const pairs = lines.slice(0, MOST + 1).map(pairOf), limit = MOST.toLocaleString("en");
  if (pairs.length >= FEWEST && pairs.length <= MOST) return pairs;
  throw new RangeError(`the text holds ${pairs.length > MOST ? `more than ${limit}` : pairs.length} pairs: paste ${FEWEST} to ${limit} lines of one pair`);
}

/** @returns {[string, string]} */
function pairOf({ line, number }) {
  const at = line.indexOf(["\t", "\u2192", "="].find((mark) => line.includes(mark)));
  const sides = /** @type {[string, string]} */ ([line.slice(0, Math.max(at, 0)), line.slice(at + 1)].map(stripped));
  if (!sides.every(normalise)) throw new RangeError(`line ${number} is not a pair: write the source, then a tab, = or \u2192, then the target`);
  const longest = Math.max(...sides.map((side) => [...side].length));
  if (longest <= MOST_CHARACTERS) return sides;
  throw new RangeError(`line ${number} has a side of ${longest} characters: the limit is ${MOST_CHARACTERS}, shorten it or leave it out`);
}

/**
 * Learn byte-pair merges (Sennrich et al. 2016): always of the most frequent pair, and of the one with the lowest ids if
 * several are. Each digit stays a token.
 * @param {string[]} lines
 */
export function learnedTokenizer(lines) {
  const seen = new Map(), splitter = new Tokenizer({ pieces: [], merges: [], single_digits: true });
  for (const line of lines) for (const unit of splitter.units(normalise(line).replace(UNPRINTABLE, " "))) seen.set(unit, (seen.get(unit) ?? 0) + 1);
  const characters = new Set([...seen.keys()].flatMap((unit) => [...unit]));
  const pieces = [...SPECIALS, ...[...characters].toSorted((a, b) => a.codePointAt(0) - b.codePointAt(0))];
  const ids = new Map(pieces.map((piece, id) => [piece, id]));
  const words = [...seen].map(([unit, count]) => ({ count, ids: [...unit].map((character) => ids.get(character)) }));
  const counts = new Map(), found = new Map(), merges = new Set(), queue = [];
  const change = (pair, by, word) => {
    counts.set(pair, (counts.get(pair) ?? 0) + by * word.count);
    if (by > 0) found.set(pair, (found.get(pair) ?? new Set()).add(word));
  };
  const enqueue = () => {
    for (const [pair, places] of found) queue.push({ pair, count: counts.get(pair), places });
    found.clear();
  };
  for (const word of words) for (let i = 0; i + 1 < word.ids.length; i++) change(word.ids[i] * IDS + word.ids[i + 1], 1, word);
  enqueue();
  while (pieces.length < ENTRIES && queue.length) {
    const top = takeLargest(queue), count = counts.get(top.pair);
    if (top.count !== count) queue.push({ ...top, count }); // it has changed since
    else if (count < 1) break;
    else {
      const [first, second] = idsOfPair(top.pair), piece = pieces[first] + pieces[second];
      if (!ids.has(piece)) ids.set(piece, pieces.push(piece) - 1);
      merges.add(top.pair);
      for (const word of top.places) mergeIn(word, first, second, ids.get(piece), change);
      enqueue();
    }
  }
  return new Tokenizer({ pieces, merges: [...merges].map(idsOfPair), single_digits: true });
}

/** @returns {[number, number]} */
const idsOfPair = (pair) => [Math.floor(pair / IDS), pair % IDS];

function takeLargest(queue) {
  let at = 0;
  for (let i = 1; i < queue.length; i++)
    if (queue[i].count > queue[at].count || (queue[i].count === queue[at].count && queue[i].pair < queue[at].pair)) at = i;
  [queue[at], queue[queue.length - 1]] = [queue.at(-1), queue[at]];
  return queue.pop();
}

/* Put the merged id in place of a pair, wherever a word has it. */
function mergeIn(word, first, second, merged, change) {
  const { ids } = word;
  const replace = (gone, come) => {
    change(gone, -1, word);
    change(come, 1, word);
  };
  for (let i = 0; i + 1 < ids.length; i++) {
    if (ids[i] !== first || ids[i + 1] !== second) continue;
    ids.splice(i, 2, merged);
    if (i) replace(ids[i - 1] * IDS + first, ids[i - 1] * IDS + merged);
    if (i + 1 < ids.length) replace(second * IDS + ids[i + 1], merged * IDS + ids[i + 1]);
  }
}
