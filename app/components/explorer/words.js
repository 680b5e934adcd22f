// Wording: names of heads and quantities, derivations, and numbers with their significant digits.

import { figureText, fixed } from "../shared/numbers.js";
import { ROLLOUT, SCORES } from "./maps.js";

export const allHeads = (data, { head }) => head === data.heads;

export const allLayers = (data, { kind, layer }) => layer === data.layers[kind];

export const capital = (text) => text[0].toUpperCase() + text.slice(1);

/** Name of the shown map within a sentence, such as "head 2 of layer 1". @param {RecordData} data @param {View} view */
export function headName(data, view) {
  const { kind, layer, head, combine, quantity } = view;
  const together = combine === "max" ? "the maximum" : "the mean";
  if (quantity === ROLLOUT) return kind === "cross" || layer === 0 ? `layer ${layer + 1}` : `the rollout of the first ${layer + 1} layers`;
  if (allLayers(data, view) && allHeads(data, view)) return `${together} of all ${data.headsOf[kind] * layer} heads`;
  if (allLayers(data, view)) return `${together} of head ${head + 1} over all layers`;
  return allHeads(data, view) ? `${together} of layer ${layer + 1}\u2019s heads` : `head ${head + 1} of layer ${layer + 1}`;
}

/** Heading of the shown map. @param {RecordData} data @param {View} view */
export function mapTitle(data, view) {
  const { kind, layer, head, combine, quantity } = view;
  const how = combine === "max" ? "maximum" : "mean";
  if (quantity === ROLLOUT) return `Rollout, layer ${layer + 1}`;
  if (allLayers(data, view) && allHeads(data, view)) return `All layers, ${how} of all heads`;
  if (allLayers(data, view)) return `Head ${head + 1}, ${how} of all layers`;
  return `Layer ${layer + 1}, ${allHeads(data, view) ? `${how} of ${data.headsOf[kind]} heads` : `head ${head + 1}`}`;
}

/* Who looks at whom in each kind: English looks at German. A side of a task has no language: sorted letters are the target. */
export function lookingWords({ sourceLanguage, targetLanguage }) {
  const named = (name, role) => (name[0] === name[0].toLowerCase() ? role : name);
  const [source, target] = [named(sourceLanguage, "source"), named(targetLanguage, "target")];
  return { encoder: `${source} looks at ${source}`, decoder: `${target} looks back at ${target}`, cross: `${target} looks at ${source}` };
}

/* Wording per quantity; `digits` is the number of decimals in the short form. */
export const QUANTITIES = {
  weights: { name: "weight", digits: 2, gives: " gives ", to: " to ", most: " looks most at ", column: " is looked at most" },
  scores: { name: "score", digits: 2, gives: " has the score ", to: " for ", most: " gives its highest score to ", column: " scores highest" },
  change: { name: "change", digits: 2, gives: " changes by ", to: " at ", most: " gains most at ", column: " gains most" },
  norms: {
    name: "norm",
    digits: 2,
    gives: " adds a vector of length ",
    to: " from ",
    most: " adds the longest vector from ",
    column: " adds the longest vector",
  },
  rollout: { name: "share", digits: 2, gives: " attributes ", to: " to ", most: " attributes most to ", column: " gets the largest share" },
};

/** Wording of a map's quantity: a head whose weights do not reach its output only would look. @param {AttentionMap} map */
export const wordingOf = ({ quantity, edit }) =>
  edit?.unused && quantity === "weights" ? { ...QUANTITIES.weights, gives: " would give ", most: " would look most at " } : QUANTITIES[quantity];

export const QUANTITY_TITLES = {
  weights: "attention weights",
  change: "change of the attention weights",
  scores: "scores before softmax",
  norms: "value-weighted norms",
  rollout: "attention rollout",
};

/** Title line of a saved picture. @param {RecordData} data @param {View} view */
export function pictureTitle(data, view) {
  const looking = lookingWords(data)[view.kind];
  const shown = QUANTITY_TITLES[view.quantity];
  return `${shown} \u00b7 ${looking} \u00b7 ${data.search}`;
}

/* How the shown map is computed from maps of the record, such as "the mean of 8 heads"; null if it is one of them. */
export function derivation(data, { quantity, unit, combine, kind, layer, head }) {
  if (quantity === ROLLOUT) return "rollout";
  const together = combine === "max" ? "maximum" : "mean";
  const heads = head === data.heads ? data.headsOf[kind] : 1;
  const layers = layer === data.layers[kind] ? data.layers[kind] : 1;
  const parts = [];
  if (heads * layers > 1 || head === data.heads || layer === data.layers[kind]) {
    parts.push(`${together} of ${heads * layers} ${layers > 1 && heads === 1 ? "layers" : heads * layers === 1 ? "head" : "heads"}`);
  }
  const words = quantity === SCORES ? "the mean over the words\u2019 tokens" : "tokens of a key word added, those of a query word averaged";
  const derived = [parts.length ? `the ${parts.join(" of the ")}` : "", unit === "words" ? words : ""].filter(Boolean);
  return derived.length ? derived.join("; ") : null;
}

/* Significant decimals of a map's numbers; the last may be off by one if they were rounded. */
const decimalsOf = ({ error }, most) =>
  error ? Math.max(0, Math.min(most, Math.floor(-Math.log10(2 * error)))) : most;

/** @param {AttentionMap} map */
export const mapFigure = (map, value, digits) => fixed(value, decimalsOf(map, digits));

/*
 * Largest error of a weight at which entropy and distance are accurate to a tenth. With one byte per weight, the errors
 * of a row of 76 tokens add up to 0.17 bits and 0.2 tokens.
 */
const FOR_A_TENTH = 0.001;

/** Format an entropy or distance computed from a map. @param {AttentionMap} map */
export const measuredFigure = ({ error }, value) => fixed(value, error > FOR_A_TENTH ? 0 : 1);

/** Format a sum of `count` numbers, whose errors may add up. @param {AttentionMap} map */
export const summedFigure = ({ error }, sum, count) => fixed(sum, decimalsOf({ error: error * count }, 2));

/**
 * Format with four decimals, or in scientific notation if four decimals would give 0. A number that was sent rounded is
 * followed by ± one unit of its last certain decimal.
 * @param {AttentionMap} map
 */
export function printedValue(map, value) {
  const digits = decimalsOf(map, 4);
  if (map.error) return `${fixed(value, digits)} \u00b1 ${fixed(10 ** -digits, digits)}`;
  if (value === 0 || Math.abs(value) >= 0.00005) return fixed(value, 4);
  return `${value < 0 ? "\u2212" : ""}${figureText(Math.abs(value))}`;
}
