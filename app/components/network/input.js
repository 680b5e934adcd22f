// Validates the arguments of a translation, with the limits and messages of core/translator.py.

import { checkEdits } from "./edits.js";
import { tokensAndWords } from "./line.js";
import { EOS } from "./subwords.js";

const MAX_CHARACTERS = 500; // of an inspected text
const MAX_TOKENS = 100;

/** Thrown for invalid input. The message is one line for the reader. */
export class InputError extends Error {}

/**
 * Validate and tokenise the arguments of a translation; `target` stays null unless one is given: a text, or ids with <eos>.
 * Throws InputError for a text that is empty, too long or not valid Unicode, for edits that do not fit the network or the
 * sentence, and, without a target, for edits that remove the causal mask.
 * @returns {{source: RecordToken[], target: RecordToken[] | null}}
 */
export function taskOf({ config }, tokenizers, text, target, edits) {
  const source = tokensWithin(config, tokenizers, text, "source");
  const [problem] = checkEdits(edits, config, source.length);
  if (source.length === 1) throw new InputError("nothing to translate: type a sentence");
  if (target === null && !edits.causalMask) throw new InputError("decoding requires the causal mask: give a target");
  if (source.every((_, position) => edits.hiddenSource.includes(position)))
    throw new InputError("all source tokens are hidden: leave at least one visible");
  if (problem) throw new InputError(problem);
  if (Array.isArray(target)) return { source, target: target.map((id) => tokenizers.target.token(id)) };
  return { source, target: target === null ? null : tokensWithin(config, tokenizers, target, "target") };
}

/* Tokenise one side's text, with <eos>. Throws InputError if it is not valid Unicode, or too long for the network or the page. */
function tokensWithin(config, tokenizers, text, side) {
  const characters = [...text], tokenizer = tokenizers[side];
  const tooMany = (count, what, limit) => {
    const remedy = "try one sentence at a time";
    if (count > limit) throw new InputError(`${count.toLocaleString("en-US")} ${what} are too many: the limit is ${limit}, ${remedy}`);
  };
  tooMany(characters.length, "characters", MAX_CHARACTERS);
  const half = characters.findIndex((character) => !character.isWellFormed());
  if (half >= 0) {
    const code = characters[half].charCodeAt(0).toString(16).toUpperCase();
    throw new InputError(`character ${half + 1} is half a surrogate pair (U+${code}), which is not valid text: delete it`);
  }
  const isSource = side === "source", { tokens: ofLine } = tokensAndWords(tokenizer, isSource ? tokenizer.prefixed(text) : text);
  const tokens = isSource ? tokenizer.withFirst(ofLine) : tokenizer.withForced(ofLine);
  tooMany(tokens.length, "tokens", Math.min(MAX_TOKENS, config.max_length - 1));
  return [...tokens, tokenizer.token(EOS)];
}
