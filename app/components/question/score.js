// Scores the answer to a question, chooses hints after wrong ones, and finds the option that an arrow key leads to. No DOM.

/**
 * Score an answer. One option is expected, a right one or a near-tie; with `every`, all right options and no others.
 * `missed` are right options that were not pointed at, `extra` are wrong options that were.
 * @param {{every: boolean, correct: number[], near: number[]}} question
 * @param {number[]} answer  indices of the options pointed at
 */
export function scoreAnswer({ every, correct, near }, answer) {
  const chosen = new Set(answer);
  const right = new Set(correct);
  const missed = correct.filter((index) => !chosen.has(index));
  const extra = [...chosen].filter((index) => !right.has(index));
  if (every) return { right: !missed.length && !extra.length, near: false, missed, extra };
  const [index] = answer;
  const isNear = chosen.size === 1 && near.includes(index);
  return { right: chosen.size === 1 && (right.has(index) || isNear), near: isNear, missed, extra };
}

/**
 * @typedef {{text: string, among: number[]}} Hint  a sentence; `among` are the options that it leaves, if it rules out any
 * @typedef {{every: boolean, correct: number[], rivals: number[], hints: Hint[], options: {name: string}[], words: {pair: string}}} Hinted
 *   a question; `rivals` are its wrong options, closest first
 */

/* After this many hints, or more wrong answers, there is no further one. */
const MOST_HINTS = 3;

/* The rivals that neither a wrong answer nor a hint has ruled out. */
const rivalsLeft = ({ rivals }, wrong, given) =>
  rivals.filter((index) => !wrong.flat().includes(index) && given.every(({ among }) => !among.length || among.includes(index)));

/**
 * The next hint after wrong answers and the hints `given`, or null. It always leaves a wrong option, so it never is the answer.
 * @param {Hinted} data @param {number[][]} wrong @param {Hint[]} given
 */
export function nextHint(data, wrong, given) {
  if (!wrong.length || given.length >= MOST_HINTS) return null;
  const before = rivalsLeft(data, wrong, given).length;
  const fits = (hint) => {
    const after = rivalsLeft(data, wrong, [...given, hint]).length;
    return !given.includes(hint) && (data.every || (after > 0 && (after < before || !hint.among.length)));
  };
  return data.hints.find(fits) ?? pairHint(data, wrong, given);
}

/* Two options: the right one and its closest rival or, if all right ones are asked for, a mistake and its nearest opposite. */
function pairHint({ every, correct, rivals, options, words }, wrong, given) {
  const left = rivalsLeft({ rivals }, wrong, given);
  if (!every && left.length < 2) return null;
  const isRight = (index) => correct.includes(index);
  const mistake = options.findIndex((_, index) => isRight(index) !== wrong.at(-1).includes(index));
  const distance = (index) => (isRight(index) === isRight(mistake) ? Infinity : Math.abs(index - mistake));
  const nearest = () => options.map((_, index) => index).toSorted((a, b) => distance(a) - distance(b))[0];
  const among = (every ? [mistake, nearest()] : [correct[0], left[0]]).toSorted((a, b) => a - b);
  const [one, other] = among.map((index) => options[index].name);
  return { text: fillText(words.pair, { one, other }), among };
}

/* The hints given so far; `asked` has the number of wrong answers before each. */
export function hintsGiven(data, wrong, asked) {
  const given = [];
  for (const answers of asked) {
    const hint = nextHint(data, wrong.slice(0, answers), given);
    if (hint) given.push(hint);
  }
  return given;
}

/* Whether the answer is revealed after wrong answers: there were too many, or no wrong option is left. */
export const isOver = (data, wrong, given) => wrong.length > MOST_HINTS || (!data.every && !rivalsLeft(data, wrong, given).length);

/**
 * The index of the option that a key leads to, in a grid of `columns`. A sentence or list has no columns: every arrow goes
 * to the next or previous option, and with `rtl` the next one is on the left. Returns `from` at an end, and null for any
 * other key.
 */
export function optionAfterKey(key, from, { count, columns = 0, rtl = false }) {
  if (key === "Home") return 0;
  if (key === "End") return count - 1;
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[key];
  if (!steps) return null;
  const [down, right] = steps;
  if (!columns) return Math.max(0, Math.min(count - 1, from + down + (rtl ? -right : right)));
  const [row, column] = [Math.floor(from / columns) + down, (from % columns) + right];
  const inside = column >= 0 && column < columns && row >= 0 && row * columns + column < count;
  return inside ? row * columns + column : from;
}

/** Fill {placeholders} of a text; a value is inserted as it is. */
export const fillText = (text, values) => text.replace(/\{(\w+)\}/g, (whole, name) => String(values[name] ?? whole));
