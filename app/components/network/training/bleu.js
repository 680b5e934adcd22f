// BLEU of texts (Papineni et al. 2002), as sacrebleu's corpus_bleu computes it: 13a tokens, exponential smoothing (Chen & Cherry 2014).

const LONGEST = 4; // n-grams

/**
 * The BLEU of texts, 0 to 100, each with one right text.
 * @param {string[]} written @param {string[]} right
 */
export function bleuOf(written, right) {
  const matches = new Float64Array(LONGEST), totals = new Float64Array(LONGEST), lengths = [0, 0];
  written.forEach((text, at) => {
    const [own, other] = [text, right[at]].map((one) => tokensOf(one));
    lengths[0] += own.length;
    lengths[1] += other.length;
    for (let n = 1; n <= LONGEST; n++) {
      const left = countsOf(other, n);
      for (const [gram, count] of countsOf(own, n)) {
        matches[n - 1] += Math.min(count, left.get(gram) ?? 0);
        totals[n - 1] += count;
      }
    }
  });
  if (!matches[0] || totals.includes(0)) return 0;
  let halved = 1;
  const logs = matches.map((count, n) => Math.log((count || 1 / (halved *= 2)) / totals[n]));
  return 100 * Math.exp(Math.min(0, 1 - lengths[1] / lengths[0]) + logs.reduce((sum, log) => sum + log) / LONGEST);
}

function countsOf(tokens, n) {
  const counts = new Map();
  for (let at = 0; at + n <= tokens.length; at++) {
    const gram = tokens.slice(at, at + n).join(" ");
    counts.set(gram, (counts.get(gram) ?? 0) + 1);
  }
  return counts;
}

/* Punctuation is parted from words, a full stop or a comma not between digits; the character classes are those of mteval-v13a. */
function tokensOf(text) {
  const plain = text.replaceAll("&quot;", '"').replaceAll("&amp;", "&").replaceAll("&lt;", "<").replaceAll("&gt;", ">");
  const parted = ` ${plain} `.replaceAll(/([{-~[-` -&(-+:-@/])/g, " $1 ").replaceAll(/([^0-9])([.,])/g, "$1 $2 ")
    .replaceAll(/([.,])([^0-9])/g, " $1 $2").replaceAll(/([0-9])(-)/g, "$1 $2 ");
  return parted.split(/\s+/).filter(Boolean);
}
