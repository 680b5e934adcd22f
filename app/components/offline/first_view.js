// Picks the head and the word to open with, as in core/analysis/first_cell.py: the head attends to the word's source word.

/*
 * The head must give the source word at least this weight. Both words need at least this many
 * letters: shorter ones are mostly articles and prepositions.
 */
const LEAST_WEIGHT = 0.9;
const LEAST_LETTERS = 4;

const KINDS_OF_VIEW = ["encoder", "decoder", "cross"];

/* Parameters of a link that the payload passes on. */
const OF_VIEW = ["kind", "layer", "head", "q", "k", "view", "words", "hide", "sort", "effect", "combine", "quantity", "mass", "states"];

/**
 * Return the view to open with. Where a link names no kind, layer or head, use those of the first
 * head in the second-to-last cross-attention layer. Without a link, open an output word's row in
 * the head that attends to its source word, or that first head if `firstCell` finds no such row.
 * @param {PassRecord} record
 * @param {Link | null} link
 * @returns {Link}
 */
export function openingView(record, link) {
  const usual = { kind: "cross", layer: Math.max(0, record.layers.cross - 2), head: 0 };
  if (!link) {
    const { layer, head, query } = firstCell(record);
    return query === null ? { ...usual, suggested: 1 } : { kind: "cross", layer, head, q: query, suggested: 1 };
  }
  const view = { ...usual, ...link, ...(KINDS_OF_VIEW.includes(String(link.kind)) ? {} : { kind: usual.kind }) };
  return Object.fromEntries(OF_VIEW.filter((name) => view[name] !== undefined && view[name] !== null).map((name) => [name, view[name]]));
}

/*
 * The cell with the highest weight × mean weight × (1 − similarity of the two spellings). Its mean
 * weight over all layers and heads is the largest of its row, and one head gives it at least
 * LEAST_WEIGHT. `query` is null if no cell qualifies.
 */
function firstCell({ cross, source, targetOut, layers, heads: { cross: heads } }) {
  const [S, maps, size] = [source.length, layers.cross * heads, source.length * targetOut.length];
  const keys = wholeWords(source);
  let [best, found] = [0, { layer: 0, head: 0, query: null }];
  for (const query of wholeWords(targetOut)) {
    const means = Float64Array.from({ length: S }, (_, key) => {
      let sum = 0;
      for (let map = 0; map < maps; map++) sum += cross[map * size + query * S + key];
      return sum / maps;
    });
    const key = means.indexOf(Math.max(...means));
    if (!keys.includes(key)) continue;
    const weights = Float64Array.from({ length: maps }, (_, map) => cross[map * size + query * S + key]);
    const weight = Math.max(...weights);
    const map = weights.indexOf(weight);
    const score = weight * means[key] * (1 - similarity(source[key].text, targetOut[query].text));
    if (weight >= LEAST_WEIGHT && score > best) [best, found] = [score, { layer: Math.floor(map / heads), head: map % heads, query }];
  }
  return found;
}

/* Positions of tokens that are a whole word. */
const wholeWords = (tokens) =>
  [...tokens.keys()].filter((at) => {
    const { starts_word, special, unknown, text } = tokens[at];
    const isWord = starts_word && !special && !unknown && [...text].length >= LEAST_LETTERS && /^\p{L}+$/u.test(text);
    return isWord && !continuesWord(tokens[at + 1]);
  });

const continuesWord = (token) => Boolean(token) && !token.special && !token.starts_word && /[\p{L}\p{N}]/u.test(token.text);

/** Return the share of letters in common blocks, ignoring case: `SequenceMatcher.ratio` of Python. */
function similarity(one, other) {
  const [a, b] = [one, other].map((text) => [...text.toLowerCase().replaceAll("\xdf", "ss")]);
  return (2 * commonLetters(a, b)) / (a.length + b.length);
}

/*
 * Count the letters of the longest common block and, recursively, of the common blocks before and
 * after it.
 */
function commonLetters(a, b) {
  let [size, from, at] = [0, 0, 0];
  for (let i = 0; i < a.length; i++) {
    for (let j = 0; j < b.length; j++) {
      let length = 0;
      while (i + length < a.length && j + length < b.length && a[i + length] === b[j + length]) length++;
      if (length > size) [size, from, at] = [length, i, j];
    }
  }
  if (!size) return 0;
  return size + commonLetters(a.slice(0, from), b.slice(0, at)) + commonLetters(a.slice(from + size), b.slice(at + size));
}
