// Text to SentencePiece's pieces and back, as in core/text/pieces.py: unigram (Kudo 2018) or BPE.

import { BOUNDARY, normalise, OUTER_SPACES, token, Tokenizer, unescaped, UNK, UNKNOWN } from "./subwords.js";

const UNKNOWN_PIECE = "\u{10ffff}"; // stands for unknown text in the model
const UNKNOWN_PENALTY = 10; // an unknown character scores this much less than the least probable piece
const LONGEST_MATCH = 100; // characters
const IS_VALUE = 0x80000000;

/** @typedef {{text: string, start: number, end: number}} Character  one of a normalised text, and its place in the original */

/** SentencePiece's character map, a double-array trie: see core/text/charsmap.py, which checks what is read here. */
class CharacterMap {
  /** @param {string} charsmap in base64, "" for none */
  constructor(charsmap) {
    const bytes = Uint8Array.from(atob(charsmap), (character) => character.charCodeAt(0));
    const view = new DataView(bytes.buffer), end = bytes.length ? 4 + view.getUint32(0, true) : 0;
    this.units = Uint32Array.from({ length: Math.max(0, end / 4 - 1) }, (_, i) => view.getUint32(4 + 4 * i, true));
    this.texts = bytes.subarray(end);
  }

  /** The characters of the normalised text. @param {string} text @returns {Character[]} */
  read(text) {
    const characters = [...text], read = [];
    for (let at = 0; at < characters.length; ) {
      const { length, replacement } = this.longest(characters, at);
      read.push(...[...replacement].map((character) => ({ text: character, start: at, end: at + length })));
      at += length;
    }
    return read;
  }

  longest(characters, start) {
    const { units } = this;
    let found = { length: 1, replacement: characters[start] };
    if (!units.length) return found;
    let node = offsetOf(units[0]);
    for (let at = start; at < Math.min(characters.length, start + LONGEST_MATCH); at++) {
      let unit = 0;
      for (const byte of new TextEncoder().encode(characters[at])) {
        node ^= byte;
        unit = units[node] ?? 0;
        if (((unit & (IS_VALUE | 0xff)) >>> 0) !== byte) return found;
        node ^= offsetOf(unit);
      }
      const value = units[node] ?? 0;
      if ((unit >>> 8) & 1 && value >= IS_VALUE) found = { length: at + 1 - start, replacement: this.textAt(value - IS_VALUE) };
    }
    return found;
  }

  textAt(offset) {
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(this.texts.subarray(offset, this.texts.indexOf(0, offset)));
  }
}

/* The offset to a unit's children: the top 22 bits, times 256 if bit 9 is set. */
const offsetOf = (unit) => ((unit >>> 10) << ((unit & (1 << 9)) >>> 6)) >>> 0;

/** The pieces of one side; special tokens that a user types are plain text. */
export class PieceTokenizer extends Tokenizer {
  /** @param {any} stored tokenizer of a weights file; a piece that no text of this side has gets the score null */
  constructor({ scores, charsmap, unlisted = {}, bpe = false, ...stored }) {
    super({ ...stored, merges: [] });
    this.foldsQuotes = false;
    this.map = new CharacterMap(charsmap);
    /** @type {Map<string, number>} */
    this.scores = new Map();
    this.pieces.slice(UNK + 1).forEach((piece, i) => scores[i] !== null && this.scores.set(piece, scores[i]));
    for (const [piece, score] of Object.entries(unlisted)) this.scores.set(piece, score);
    this.longest = Math.max(...[...this.scores.keys()].map((piece) => [...piece].length));
    this.least = Math.min(0, ...this.scores.values()) - UNKNOWN_PENALTY;
    this.ranks = bpe ? mergeRanks(this.scores) : null;
  }

  placed(text) {
    const typed = [...normalise(text)], marked = markedCharacters(this.map.read(typed.join(""))), read = marked.map(({ text: character }) => character);
    return (this.ranks ? this.joined(read) : this.best(read)).map(({ from, to }) => {
      const piece = read.slice(from, to).join(""), known = this.ids.get(piece) ?? UNK, id = known < UNK || this.special.has(known) ? UNK : known;
      const surface = typed.slice(marked[from].start, marked[to - 1].end).join("").replace(OUTER_SPACES, "");
      const shown = id === UNK ? surface : piece.replace(/^\u2581+/u, "");
      return { token: token(id, this.pieces[id], shown, !from || piece.startsWith(BOUNDARY), { unknown: id === UNK }), start: marked[from].start };
    });
  }

  /* The segmentation with the largest sum of scores (Viterbi); adjacent unknown characters are one piece. */
  best(read) {
    const paths = [{ score: 0, from: 0, unknown: false }];
    for (let from = 0; from < read.length; from++) {
      const { score } = paths[from];
      let piece = "", isKnown = false;
      const offer = (to, sum, unknown) => {
        if (!paths[to] || sum > paths[to].score) paths[to] = { score: sum, from, unknown };
      };
      for (let to = from + 1; to <= Math.min(read.length, from + this.longest); to++) {
        piece += read[to - 1];
        const own = this.scores.get(piece);
        if (own === undefined) continue;
        isKnown ||= to === from + 1;
        offer(to, score + own, false);
      }
      if (!isKnown) offer(from + 1, score + this.least, true);
    }
    const found = [];
    for (let to = read.length; to > 0; to = paths[to].from) {
      const { from, unknown } = paths[to];
      if (unknown && found[0]?.unknown) found[0].from = from;
      else found.unshift({ from, to, unknown });
    }
    return found;
  }

  /* Repeatedly join the neighbours that make the piece with the highest score, the leftmost ones if two pairs make it. */
  joined(read) {
    const symbols = [];
    read.forEach((text, from) => {
      const unknown = !this.scores.has(text) && text !== UNKNOWN_PIECE, last = symbols.at(-1);
      if (unknown && last?.unknown) last.to = from + 1;
      else symbols.push({ text, from, to: from + 1, unknown });
    });
    for (;;) {
      let best = Infinity, place = 0;
      for (let i = 0; i + 1 < symbols.length; i++) {
        const rank = symbols[i].unknown || symbols[i + 1].unknown ? undefined : this.ranks.get(pairOf(symbols[i].text, symbols[i + 1].text));
        if (rank !== undefined && rank < best) [best, place] = [rank, i];
      }
      if (best === Infinity) return symbols;
      const [{ text, from }, next] = symbols.slice(place, place + 2);
      symbols.splice(place, 2, { text: text + next.text, from, to: next.to, unknown: false });
    }
  }

  decode(ids) {
    const pieces = this.written(ids).map((id) => (id === UNK ? UNKNOWN : this.pieces[id]));
    return unescaped(pieces.join("").replaceAll(BOUNDARY, " ").replace(OUTER_SPACES, ""));
  }
}

const pairOf = (first, second) => `${first}\n${second}`;

/* The rank of each pair of pieces that make another piece: by its score, then by the order of the pieces. */
function mergeRanks(scores) {
  const places = new Map([...scores.keys()].map((piece, place) => [piece, place])), ranks = new Map();
  for (const [piece] of [...scores].toSorted((a, b) => b[1] - a[1])) {
    const characters = [...piece];
    const pairs = characters.slice(1).map((_, i) => [characters.slice(0, i + 1).join(""), characters.slice(i + 1).join("")]);
    const known = pairs.filter(([first, second]) => places.has(first) && places.has(second));
    known.sort((a, b) => places.get(a[0]) - places.get(b[0]) || places.get(a[1]) - places.get(b[1]));
    for (const [first, second] of known) ranks.set(pairOf(first, second), ranks.size);
  }
  return ranks;
}

/* Put a boundary mark at the beginning and for each run of spaces inside; drop outer spaces. @param {Character[]} characters */
function markedCharacters(characters) {
  const marked = [];
  let space = { text: " ", start: 0, end: 0 }, isSpace = true;
  for (const character of characters) {
    if (character.text === " ") {
      if (!isSpace) space = character;
      isSpace = true;
      continue;
    }
    if (isSpace) marked.push({ ...space, text: BOUNDARY });
    isSpace = false;
    marked.push(character);
  }
  while (marked.at(-1)?.text === BOUNDARY) marked.pop(); // only a "▁" in the text can be last
  return marked;
}
