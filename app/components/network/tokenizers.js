// The tokenizers of a network: one for both languages, or one each.

import { ByteTokenizer } from "./byte_level.js";
import { PieceTokenizer } from "./pieces.js";
import { Tokenizer } from "./subwords.js";
import { WordTokenizer } from "./words.js";

const KINDS_OF_TOKENIZERS = { subwords: Tokenizer, bytes: ByteTokenizer, pieces: PieceTokenizer, words: WordTokenizer };

/** @typedef {{source: Tokenizer, target: Tokenizer}} Tokenizers */

/** @param {any} stored from `readWeights` @returns {Tokenizers} */
export function tokenizersOf({ tokenizer, source_tokenizer: ofSource = null }) {
  const target = tokenizerOf(tokenizer);
  return { source: ofSource ? tokenizerOf(ofSource) : target, target };
}

/** Throws an Error of one line for a kind that the page does not know. @returns {Tokenizer} */
function tokenizerOf(stored) {
  const Kind = KINDS_OF_TOKENIZERS[stored.kind];
  if (!Kind) throw new Error(`This page does not know a tokenizer of ${stored.kind}: export the page again.`);
  return new Kind(stored);
}
