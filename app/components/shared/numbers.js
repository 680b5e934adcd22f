// Writes numbers, and keeps them within their ends: the one formatter of all canvases.

export const MINUS = "\u2212";

export const between = (low, value, high) => Math.max(low, Math.min(high, value));

export const wrapped = (value, count) => (value + count) % count;

export const fixed = (value, digits) => value.toFixed(digits).replace("-", MINUS);

/* A change: +0.25, \u22121.31, 0.00. */
export function signed(value, digits = 2) {
  const size = Math.abs(value).toFixed(digits);
  return Number(size) === 0 ? size : `${value < 0 ? MINUS : "+"}${size}`;
}

export const percent = (share) => `${Math.round(share * 100)}\u00a0%`;

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
