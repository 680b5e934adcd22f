// Text to subwords and back, as in core/text/subwords.py: normalise, split into words, merge by byte-pair encoding.

export const BOS = 1;
export const EOS = 2;
export const UNK = 3;
export const SPECIALS = ["<pad>", "<bos>", "<eos>", "<unk>"]; // by id
export const BOUNDARY = "\u2581"; // marks the space before a word
export const UNKNOWN = "\u2047"; // shown for <unk> in a translation

/*
 * White space of Python's str.strip and \s. JavaScript's \s lacks U+001C-1F and U+0085 and includes
 * U+FEFF.
 */
const SPACE = String.raw`[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+`;
export const SPACES = new RegExp(SPACE, "gu");
export const OUTER_SPACES = new RegExp(`^${SPACE}|${SPACE}$`, "gu");

const LEFT_OUT = /[\xad\u200b\u200c\u200e\u200f\u2060\ufeff]/gu; // soft hyphen, zero-width spaces, marks of direction
const HYPHENS = /[\u2010\u2011\u2212]/gu;
const LIGATURES = /[\ufb00-\ufb06]/gu;

/*
 * The tokenizers library knows the punctuation of an early Unicode version, and treats punctuation
 * that was added later as letters.
 */
const LATER = String.raw`\u061d\u09fd\u0a76\u0c77\u0c84\u1b4e\u1b4f\u1b7d-\u1b7f\u2e43-\u2e5d\u{10d6e}\u{10ead}\u{10ed0}
\u{10f55}-\u{10f59}\u{10f86}-\u{10f89}\u{113d4}-\u{113d8}\u{1144b}-\u{1145d}\u{11660}-\u{1166c}\u{116b9}\u{1183b}
\u{11944}-\u{11946}\u{119e2}\u{11a3f}-\u{11b09}\u{11be1}\u{11c41}-\u{11c45}\u{11c70}-\u{11c71}\u{11ef7}-\u{11fff}
\u{12ff1}-\u{12ff2}\u{16d6d}-\u{16e9a}\u{16fe2}\u{1e5ff}\u{1e95e}-\u{1e95f}`.replaceAll("\n", "");
const PUNCTUATION = String.raw`[[\p{P}$+<=>^\`\|~\u166d\u{111c9}]--[${LATER}]]`;
/*
 * A digit or the letters of a word, each with the boundary mark before it, if any; punctuation; or
 * a boundary mark alone. WORDS treats digits as letters.
 */
const DIGIT_BY_DIGIT = new RegExp(`${BOUNDARY}?[0-9]|${PUNCTUATION}|${BOUNDARY}?[^${BOUNDARY}0-9${PUNCTUATION}]+|${BOUNDARY}`, "gv");
const WORDS = new RegExp(`${PUNCTUATION}|${BOUNDARY}?[^${BOUNDARY}${PUNCTUATION}]+|${BOUNDARY}`, "gv");

const ENTITY = /&(amp|lt|gt|quot|apos|#39|nbsp)(?:;|(?![A-Za-z0-9]))/g;
const CHARACTERS = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", "#39": "'", nbsp: " " };

/**
 * Normalise a text as core/text/tokenizer.py does: simplify typography, compose (NFC), and turn
 * each run of white space into one space.
 * @param {string} text
 */
export function normalise(text) {
  const simple = text.toWellFormed().replace(LEFT_OUT, "").replace(HYPHENS, "-").replaceAll("\u1e9e", "\xdf");
  const composed = simple.replace(LIGATURES, (ligature) => ligature.normalize("NFKC")).normalize("NFC");
  return composed.replace(SPACES, " ").replace(OUTER_SPACES, "");
}

/** One token as the model sees it (`piece`) and as it is displayed (`text`); see core/text/tokenizer.py. */
export const token = (id, piece, text, starts_word = true, { special = false, unknown = false } = {}) =>
  Object.freeze({ id, piece, text, starts_word, special, unknown });

/** Replace escapes such as &amp; by their characters. @param {string} text */
export const unescaped = (text) => text.replace(ENTITY, (_, name) => CHARACTERS[name]);

/** The ids of tokens. @param {{id: number}[]} tokens */
export const idsOf = (tokens) => tokens.map(({ id }) => id);

/** Cased BPE that keeps word boundaries in its tokens; special tokens that a user types are plain text. */
export class Tokenizer {
  /**
   * @param {{pieces: string[], merges: [number, number][], single_digits?: boolean, first?: number[], forced?: number[],
   *   languages?: Record<string, number>, controls?: number[], prefix?: string}} tokenizer of a weights file; see Frame in core/text/tokenizer.py
   */
  constructor({ pieces, merges, single_digits: singleDigits = false, first: inFront = [], forced = [], languages = {}, controls = [], prefix = "" }) {
    this.pieces = pieces;
    this.inFront = inFront;
    this.forced = forced;
    this.prefix = prefix;
    this.languages = languages;
    this.special = new Set([...controls, ...Object.values(languages)]); // other than the four SPECIALS
    this.foldsQuotes = true;
    this.ids = new Map(pieces.map((piece, id) => [piece, id]));
    this.words = singleDigits ? DIGIT_BY_DIGIT : WORDS;
    this.pair = (first, second) => first * pieces.length + second;
    const idOf = (first, second) => this.ids.get(pieces[first] + pieces[second]);
    this.merges = new Map(merges.map(([first, second], rank) => [this.pair(first, second), { rank, id: idOf(first, second) }]));
  }

  /** Tokenise a plain text, without <bos> and <eos>; see line.js for given lines. @param {string} text */
  encode(text) {
    return this.placed(text).map((one) => one.token);
  }

  /** The tokens of `encode`, each with its offset in the normalised text, counted in code points. @param {string} text */
  placed(text) {
    const characters = [...normalise(text)];
    const units = this.units(characters.join("")), added = units.join("").length > characters.join("").length ? 1 : 0;
    const placed = [];
    let at = 0;
    for (const word of units) {
      for (const { id, from, to } of this.merged(this.symbols(word, at))) // the added mark shares the first character's place
        placed.push({
          token: this.shown(id, characters.slice(Math.max(0, from - added), Math.max(1, to - added)), from <= added),
          start: Math.max(0, from - added),
        });
      at += [...word].length;
    }
    return placed;
  }

  /** The parts of a normalised text that are merged independently, with their boundary marks. @param {string} text */
  units(text) {
    const marked = text.replaceAll(" ", BOUNDARY), added = marked && !marked.startsWith(BOUNDARY) ? BOUNDARY : "";
    return (added + marked).match(this.words) ?? [];
  }

  /** Tokenise a source, without <eos>: the `first` ids, then the text; an empty text has no tokens. @param {string} text */
  encodeSource(text) {
    return this.withFirst(this.encode(text));
  }

  /** The same tokenizer for other languages: the source's token goes in front, the target's is forced. @param {string} from @param {string} to */
  between(from, to) {
    return Object.assign(Object.create(this), { inFront: [this.languages[from]], forced: [this.languages[to]] });
  }

  /** Put the `first` ids in front of a source's tokens, if there are any. @param {RecordToken[]} tokens */
  withFirst(tokens) {
    return tokens.length ? [...this.specialTokens(this.inFront), ...tokens] : [];
  }

  /** Put the `forced` ids in front of a target's tokens. @param {RecordToken[]} tokens */
  withForced(tokens) {
    return [...this.specialTokens(this.forced), ...tokens];
  }

  /** A source with the prefix in front, unless it is empty or begins with it. @param {string} text */
  prefixed(text) {
    return !normalise(text) || text.startsWith(this.prefix) ? text : this.prefix + text;
  }

  specialTokens(ids) {
    return ids.map((id) => ({ ...this.token(id), starts_word: true, special: true }));
  }

  /* The ids of a word's characters with their places; consecutive unknown characters form one symbol. */
  symbols(word, at) {
    const symbols = [];
    for (const character of word) {
      const id = this.ids.get(character) ?? UNK, last = symbols.at(-1);
      if (id === UNK && last?.id === UNK) last.to = at + 1;
      else symbols.push({ id, from: at, to: at + 1 });
      at++;
    }
    return symbols;
  }

  /*
   * Repeatedly merge the pair that was learned earliest, the leftmost one if it occurs twice, until
   * no known pair remains (Sennrich et al. 2016).
   */
  merged(symbols) {
    for (;;) {
      let best = null, place = 0;
      for (let i = 0; i + 1 < symbols.length; i++) {
        const merge = this.merges.get(this.pair(symbols[i].id, symbols[i + 1].id));
        if (merge && (best === null || merge.rank < best.rank)) [best, place] = [merge, i];
      }
      if (best === null) return symbols;
      const { from } = symbols[place];
      symbols.splice(place, 2, { id: best.id, from, to: symbols[place + 1].to });
    }
  }

  /* A token of an input. The network reads a typed boundary mark as a space; the token shows it as typed. */
  shown(id, characters, first) {
    const typed = characters[0] === BOUNDARY;
    const surface = id === UNK ? characters.join("") : this.pieces[id];
    const startsWord = first || (!typed && /^[\u2581 ]/.test(surface));
    const text = (typed && surface.startsWith(BOUNDARY) ? BOUNDARY : "") + surface.replace(/^[\u2581 ]+/, "");
    return token(id, this.pieces[id], text, startsWord, { unknown: id === UNK });
  }

  /** The text of ids: without special ids, with ⁇ for <unk>, and with escapes such as &amp; resolved. @param {number[]} ids */
  decode(ids) {
    const [first = "", ...rest] = this.written(ids).map((id) => (id === UNK ? UNKNOWN : this.pieces[id]));
    const text = first.replaceAll(BOUNDARY, "") + rest.join("").replaceAll(BOUNDARY, " ");
    return unescaped(text.replace(OUTER_SPACES, ""));
  }

  /** The ids that are text: without special ones, but with <unk>. @param {number[]} ids */
  written(ids) {
    return ids.filter((id) => id >= UNK && !this.special.has(id));
  }

  /** The token of an id, as displayed in a translation. @param {number} id */
  token(id) {
    const piece = this.pieces[id];
    if (id < SPECIALS.length || this.special.has(id)) return token(id, piece, piece, true, { special: true });
    return token(id, piece, piece.replace(/^\u2581+/, ""), piece.startsWith(BOUNDARY));
  }
}
