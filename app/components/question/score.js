// Scores the answer to a question, and finds the option that an arrow key leads to. No DOM.

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
