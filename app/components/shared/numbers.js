// Writes numbers, and keeps them within their ends: the one formatter of all canvases.

export const MINUS = "\u2212";

export const between = (low, value, high) => Math.max(low, Math.min(high, value));

export const wrapped = (value, count) => (value + count) % count;

/*
 * A number with fixed decimals, as look/numbers.py writes it: \u22121,234.50, and 0.00, never \u22120.00. Halves go to the even
 * digit: 0.125 is 0.12.
 */
export function fixed(value, digits) {
  const [whole, ...decimals] = rounded(Math.abs(value), digits).split(".");
  const text = [whole.replace(/\B(?=(\d{3})+$)/g, ","), ...decimals].join(".");
  return value < 0 && /[1-9]/.test(text) ? MINUS + text : text;
}

function rounded(size, digits) {
  const scaled = size * 10 ** digits;
  const half = Number.isInteger(size * 2 ** (digits + 1)) && scaled % 1 === 0.5;
  return (half ? (2 * Math.round(scaled / 2)) / 10 ** digits : size).toFixed(digits);
}

/* A change: +0.25, \u22121.31, 0.00. */
export function signed(value, digits = 2) {
  const text = fixed(value, digits);
  return value > 0 && /[1-9]/.test(text) ? `+${text}` : text;
}

/* How far a share may be off and still have a decimal of a percent. */
const FOR_A_DECIMAL = 0.0005;

/*
 * A share of 1 as look/numbers.py writes it: 58 %. Only nothing is 0 % and only all is 100 %: 0.996 is 99.6 %. A share
 * that may be off by `error`, because its numbers were rounded, has no decimal: it is <1 % or >99 %.
 */
export function percent(share, error = 0) {
  const rough = error > FOR_A_DECIMAL;
  if (rough && share < 0.005) return "<1\u00a0%";
  if (rough && share >= 0.995) return ">99\u00a0%";
  const nearAnEnd = (share > 0 && share <= 0.005) || (share >= 0.995 && share < 1);
  let text = fixed(100 * share, nearAnEnd && !rough ? 1 : 0);
  if (nearAnEnd) text = { "0.0": "<0.1", "100.0": ">99.9" }[text] ?? text;
  return `${text}\u00a0%`;
}

/* A probability to two decimals; only a certain token has 1.00. */
export function chance(probability) {
  if (probability > 0 && probability < 0.005) return "<0.01";
  return probability >= 0.995 && probability < 1 ? ">0.99" : fixed(probability, 2);
}

const SUPERSCRIPTS = "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079";

/* A power of ten: 10⁻⁷. */
const powerOfTen = (exponent) =>
  `10${[...exponent.replace("+", "")].map((digit) => (digit === "-" ? "\u207b" : SUPERSCRIPTS[digit])).join("")}`;

/* 4.4e-7 as 4.4 · 10⁻⁷; a count stays a count; Python sends null for NaN and infinity. */
export function figureText(figure) {
  if (figure === null) return "not a number";
  if (Number.isInteger(figure)) return String(figure);
  if (figure >= 100) return figure.toFixed(0);
  if (figure >= 0.001) return figure.toPrecision(2);
  const [digits, exponent] = figure.toExponential(1).split("e");
  const power = powerOfTen(exponent);
  return digits === "1.0" ? power : `${digits}\u202f\u00b7\u202f${power}`;
}

/* 0.25 or \u22124.8 \u00b7 10\u207b\u2077: as the rest of the page writes a number of any size. */
export function scientific(value) {
  const size = Math.abs(value);
  const sign = value < 0 ? MINUS : "";
  if (size === 0) return "0";
  if (size >= 0.001 && size < 10_000) return sign + String(Number(size.toPrecision(3)));
  const [digits, exponent] = size.toExponential(1).split("e");
  return `${sign}${digits}\u00a0\u00b7\u00a0${powerOfTen(exponent)}`;
}

/* Four decimals; what they would round away is written by its size. */
export function exactly(value) {
  const shown = Math.abs(value).toFixed(4);
  if (Number(shown) === 0 && value !== 0) return scientific(value);
  return (value < 0 ? MINUS : "") + shown;
}
