// Number formatting and clamping shared by all components.

const MINUS = "\u2212";

export const between = (low, value, high) => Math.max(low, Math.min(high, value));

export const wrapped = (value, count) => (value + count) % count;

/* Fixed decimals as in look/numbers.py: −1,234.50; 0.00, never −0.00. Rounds half to even: 0.125 is 0.12. */
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

/* A signed change: +0.25, −1.31, 0.00. */
export function signed(value, digits = 2) {
  const text = fixed(value, digits);
  return value > 0 && /[1-9]/.test(text) ? `+${text}` : text;
}

/* Decimals that show two digits of half an interval, as in look/numbers.py: 3 for 0.565 to 0.639. */
export const digitsOf = (low, high) => between(0, 1 - Math.floor(Math.log10((high - low) / 2)), 6);

/* Whether a value is so near the middle of its interval that ± describes the interval. */
export const isEven = (value, low, high) => Math.abs((low + high) / 2 - value) <= 0.1 * (high - low);

/* Largest error at which a percentage still gets a decimal. */
const FOR_A_DECIMAL = 0.0005;

/*
 * A share as in look/numbers.py: 58 %. Only exactly 0 is 0 % and only exactly 1 is 100 %: 0.996 is 99.6 %. With a
 * rounding `error` that makes a decimal meaningless: <1 % or >99 %.
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

/* A probability with two decimals; 1.00 only for exactly 1. */
export function chance(probability) {
  if (probability > 0 && probability < 0.005) return "<0.01";
  return probability >= 0.995 && probability < 1 ? ">0.99" : fixed(probability, 2);
}

const SUPERSCRIPTS = "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079";

/* A power of ten: 10⁻⁷. */
const powerOfTen = (exponent) =>
  `10${[...exponent.replace("+", "")].map((digit) => (digit === "-" ? "\u207b" : SUPERSCRIPTS[digit])).join("")}`;

/* 4.4e-7 as 4.4 · 10⁻⁷; integers unchanged. Python sends null for NaN and infinity. */
export function figureText(figure) {
  if (figure === null) return "not a number";
  if (Number.isInteger(figure)) return String(figure);
  if (figure >= 100) return figure.toFixed(0);
  if (figure >= 0.001) return figure.toPrecision(2);
  const [digits, exponent] = figure.toExponential(1).split("e");
  const power = powerOfTen(exponent);
  return digits === "1.0" ? power : `${digits}\u202f\u00b7\u202f${power}`;
}

/* Any magnitude: 0.25 or −4.8 · 10⁻⁷. */
export function scientific(value) {
  const size = Math.abs(value);
  const sign = value < 0 ? MINUS : "";
  if (size === 0) return "0";
  if (size >= 0.001 && size < 10_000) return sign + String(Number(size.toPrecision(3)));
  const [digits, exponent] = size.toExponential(1).split("e");
  return `${sign}${digits}\u00a0\u00b7\u00a0${powerOfTen(exponent)}`;
}

/* Four decimals, or scientific notation for values that would round to 0. */
export function exactly(value) {
  const shown = Math.abs(value).toFixed(4);
  if (Number(shown) === 0 && value !== 0) return scientific(value);
  return (value < 0 ? MINUS : "") + shown;
}
