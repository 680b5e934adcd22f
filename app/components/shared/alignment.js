// Aligns the words of two versions of a text.

/**
 * Align the words of two texts by a longest common subsequence. Each block of words that differ pairs them in order; words
 * that are left over belong to the last pair.
 * @param {string[]} old @param {string[]} now
 * @returns {{fates: {words: string[], isSame: boolean, block: {old: string[], now: string[]} | null}[], before: string[]}} by
 *   old word, what became of it, and of its block if that has no pairs; before: new words in front of all old ones
 */
export function alignWords(old, now) {
  // common[i][j]: length of the longest common subsequence of old.slice(i) and now.slice(j)
  const common = Array.from({ length: old.length + 1 }, () => new Uint16Array(now.length + 1));
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = now.length - 1; j >= 0; j--) {
      common[i][j] = old[i] === now[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  const fates = old.map(() => ({ words: [], isSame: false, block: null }));
  const before = [];
  for (let i = 0, j = 0; i < old.length || j < now.length; ) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      fates[i] = { words: [now[j]], isSame: true, block: null };
      [i, j] = [i + 1, j + 1];
      continue;
    }
    const start = i;
    const added = [];
    while ((i < old.length || j < now.length) && !(i < old.length && j < now.length && old[i] === now[j])) {
      if (j < now.length && (i === old.length || common[i][j + 1] >= common[i + 1][j])) added.push(now[j++]);
      else i++;
    }
    // Pairs are certain only for one word, or for as many words as before.
    const block = i - start > 1 && added.length && added.length !== i - start ? { old: old.slice(start, i), now: added } : null;
    for (let at = start; block && at < i; at++) fates[at].block = block;
    added.forEach((word, place) => {
      const last = i > start ? Math.min(start + place, i - 1) : start - 1;
      (last < 0 ? before : fates[last].words).push(word);
    });
  }
  return { fates, before };
}
