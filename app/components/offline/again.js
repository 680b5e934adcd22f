// The line below What if: the translation under the edits, with the words that are new in bold.

import { bold } from "../shared/dom.js";

const AGAIN = "Translating again under the edits, the model";

/**
 * Mark the words of `after` that are not in a longest common subsequence of both texts.
 * @param {string} before
 * @param {string} after
 * @returns {[string, boolean][]} runs of words, and whether they are new
 */
export function newWords(before, after) {
  const [old, now] = [before.split(" "), after.split(" ")];
  // common[i][j]: length of the longest common subsequence of old.slice(i) and now.slice(j)
  const common = Array.from({ length: old.length + 1 }, () => new Uint16Array(now.length + 1));
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = now.length - 1; j >= 0; j--) {
      common[i][j] = old[i] === now[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  /** @type {[string, boolean][]} */
  const runs = [];
  for (let i = 0, j = 0; j < now.length; ) {
    const same = i < old.length && old[i] === now[j];
    if (!same && i < old.length && common[i + 1][j] >= common[i][j + 1]) {
      i++;
      continue;
    }
    if (runs.length && runs.at(-1)[1] === !same) runs.at(-1)[0] += ` ${now[j]}`;
    else runs.push([now[j], !same]);
    if (same) i++;
    j++;
  }
  return runs;
}

/**
 * Return the line's parts: the translation under the edits, with the words in bold that `before` lacks.
 * @param {string} before
 * @param {string} after
 * @returns {(string | Node)[]}
 */
export function againLine(before, after) {
  if (after === before) return [`${AGAIN} still writes: ${after}`];
  return [`${AGAIN} now writes:`, ...newWords(before, after).flatMap(([run, isNew]) => [" ", isNew ? bold(run) : run])];
}
