// What changed from one version of a text to another, word by word.

import { alignWords } from "./alignment.js";
import { bold, element } from "./dom.js";

/* Words and, apart from them, the punctuation at their ends: a full stop after a word does not make it another one. */
const wordsOf = (text) => text.match(/[.,;:!?\u2026]+(?=\s|$)|\S+?(?=[.,;:!?\u2026]*(?:\s|$))/gu) ?? [];

const joined = (words) => words.join(" ").replace(/ (?=[.,;:!?\u2026])/gu, "");

const aligned = (before, after) => alignWords(wordsOf(before), wordsOf(after));

/** A text with the words bold that another version of it lacks. */
export function changedText(before, after) {
  const line = element("bdi", "text");
  let rest = after;
  const add = (word, isSame) => {
    const at = rest.indexOf(word);
    line.append(rest.slice(0, at), isSame ? word : bold(word)); // with the text's own spaces
    rest = rest.slice(at + word.length);
  };
  const { fates, before: first } = aligned(before, after);
  for (const word of first) add(word, false);
  for (const { words, isSame } of fates) words.forEach((word, place) => add(word, isSame && !place));
  return line;
}

/** The runs of words that differ between two versions of a text. @returns {{old: string, now: string}[]} */
export function changesOf(before, after) {
  const { fates, before: first } = aligned(before, after), changes = [];
  let open = null;
  const add = (old, now) => {
    if (!open) changes.push((open = { old: [], now: [] }));
    open.old.push(...old);
    open.now.push(...now);
  };
  if (first.length) add([], first);
  wordsOf(before).forEach((word, at) => {
    const { words, isSame } = fates[at];
    if (!isSame) return add([word], words);
    open = null;
    if (words.length > 1) add([], words.slice(1));
  });
  return changes.map(({ old, now }) => ({ old: joined(old), now: joined(now) }));
}
