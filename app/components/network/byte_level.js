// Text to byte-level subwords and back, as in core/text/byte_level.py.

import { normalise, OUTER_SPACES, token, Tokenizer, unescaped, UNK, UNKNOWN } from "./subwords.js";

/* The parts of a text that are merged independently (Radford et al. 2019). */
const PARTS = /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^ \p{L}\p{N}]+| +(?! )| +/gu;
const UNPRINTABLE = /[\p{Cc}\u2028\u2029]/u;

/* The character that stands for each byte: itself if it is visible, else the next one from U+0100 on. */
const isVisible = (byte) => (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte !== 0xad);
const moved = Array.from({ length: 256 }, (_, byte) => byte).filter((byte) => !isVisible(byte));
const BYTES = Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(isVisible(byte) ? byte : 0x100 + moved.indexOf(byte)));
const BYTE_OF = new Map(BYTES.map((character, byte) => [character, byte]));
const [SPACE_PIECE] = BYTES.slice(0x20);

const bytesOfText = (piece) => [...piece].map((character) => BYTE_OF.get(character));
const decoded = (bytes, options) => new TextDecoder("utf-8", { ignoreBOM: true, ...options }).decode(Uint8Array.from(bytes));

/* The text of UTF-8 bytes, or <XX> for each byte if they are no printable text. */
function readable(bytes) {
  let text = "\0";
  try {
    text = decoded(bytes, { fatal: true });
  } catch {
    // bytes of a part of a character
  }
  return UNPRINTABLE.test(text) ? bytes.map((byte) => `<${byte.toString(16).toUpperCase().padStart(2, "0")}>`).join("") : text;
}

/** BPE over bytes; a space begins the next word. */
export class ByteTokenizer extends Tokenizer {
  constructor(stored) {
    super(stored);
    this.foldsQuotes = false;
  }

  placed(text) {
    const placed = [];
    let before = 0; // characters in front of the part
    for (const [part] of normalise(text).matchAll(PARTS)) {
      const characters = [...part], places = characters.flatMap((character, i) => [...new TextEncoder().encode(character)].map((byte) => ({ byte, start: before + i })));
      const symbols = places.map(({ byte }, from) => ({ id: this.ids.get(BYTES[byte]), from, to: from + 1 }));
      for (const { id, from } of this.merged(symbols)) {
        const one = this.token(id), { start } = places[from];
        placed.push({ token: token(id, one.piece, one.text, !start || one.starts_word), start });
      }
      before += characters.length;
    }
    return placed;
  }

  decode(ids) {
    const bytes = this.written(ids).flatMap((id) => (id === UNK ? [...new TextEncoder().encode(UNKNOWN)] : bytesOfText(this.pieces[id])));
    return unescaped(decoded(bytes, {}).replace(new RegExp(UNPRINTABLE, "gu"), " ").replace(OUTER_SPACES, ""));
  }

  token(id) {
    const one = super.token(id);
    if (one.special) return one;
    const isSpaced = one.piece.startsWith(SPACE_PIECE);
    return token(id, one.piece, readable(bytesOfText(isSpaced ? one.piece.slice(SPACE_PIECE.length) : one.piece)), isSpaced);
  }
}
