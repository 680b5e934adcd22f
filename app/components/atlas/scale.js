// Scales of measures: from values to positions and colours, and the ticks to label.

import { between } from "../shared/numbers.js";
import { spacedTicks } from "../shared/plot.js";
import { rampStep, signedStep } from "../shared/theme.js";
import { intervalOf, valueText } from "./data.js";

/* Square root with sign: small changes stay visible beside one large one. */
const signedRoot = (value) => Math.sign(value) * Math.sqrt(Math.abs(value));

/**
 * The scale of a measure over all heads. Shares range from 0 to 1, removal ranks ("place") from 1 to the number of heads.
 * Changes are on a square-root scale; with `symmetric`, as colours need, 0 is its centre. `at` maps a value to 0..1.
 * @returns {AtlasScale}
 */
export function scaleOf(data, measure, symmetric = true) {
  let [low, high] = [0, 1];
  if (measure.unit === "place") [low, high] = [1, Math.max(2, data.places.length)];
  else if (measure.signed) {
    const ends = data.places.flatMap((_, n) => [...intervalOf(measure, n)]).filter(Number.isFinite);
    [low, high] = [Math.min(0, ...ends), Math.max(0, ...ends)];
    if (symmetric) [low, high] = [-Math.max(-low, high), Math.max(-low, high)];
    if (low === high) [low, high] = [-1, 1];
  }
  const bend = measure.signed ? signedRoot : Number;
  const [start, end] = [bend(low), bend(high)];
  return { measure, low, high, at: (value) => between(0, (bend(value) - start) / (end - start), 1) };
}

/** A head's colour, as a table of the theme and a step in it; null without a value. */
export function colourOf(theme, scale, value) {
  const { measure } = scale;
  if (!Number.isFinite(value)) return null;
  if (!measure.signed) return { table: theme.ramp, step: rampStep(scale.at(value)) };
  return { table: theme.signed, step: signedStep(2 * scale.at(value) - 1) };
}

/** Ticks [value, text], ascending, at least `least` px apart on a scale of `length` px. Earlier candidates have priority. */
export function ticksOf(scale, length, least) {
  const { measure, low, high } = scale;
  const candidates = measure.signed ? changes(low, high) : measure.unit === "place" ? [1, high, ...tens(high)] : [0, 1, 0.5, 0.25, 0.75];
  return spacedTicks(candidates, (value) => scale.at(value) * length, least).map((value) => [value, tickText(measure, value)]);
}

const tens = (high) => Array.from({ length: Math.floor(high / 10) }, (_, i) => 10 * (i + 1));

/* 0, then round values of both signs, the largest first. */
function changes(low, high) {
  const found = [0];
  const most = Math.max(-low, high);
  for (let power = Math.floor(Math.log10(most)); power >= Math.floor(Math.log10(most)) - 3; power--) {
    for (const digit of [5, 2, 1]) {
      const size = digit * 10 ** power;
      for (const value of [size, -size]) if (value >= low && value <= high) found.push(value);
    }
  }
  return found;
}

function tickText(measure, value) {
  if (!measure.signed) return valueText(measure, value);
  if (value === 0) return "0";
  const text = String(Number(Math.abs(value).toPrecision(1)));
  return (value < 0 ? "\u2212" : "+") + text;
}
