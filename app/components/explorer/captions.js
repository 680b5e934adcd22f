// Says of each head in a word and a number what it does on this sentence, and orders the heads by a measure.

import { percent, signed } from "../shared/numbers.js";
import { tokenName } from "../shared/tokens.js";
import { atHead } from "./focus.js";
import { mapOf, ROLLOUT, valueAt, WEIGHTS } from "./maps.js";
import { measure, rankedKeys, roleOf } from "./measures.js";
import { mapFigure, QUANTITIES } from "./words.js";

const CAPTION_MEANING = {
  prev: "mean weight on the previous token",
  self: "mean weight on the token itself",
  next: "mean weight on the next token",
  second: "mean weight on the token two before the one produced",
  eos: "mean weight on <eos>",
  bos: "mean weight on <bos>",
  peak: "mean of each row\u2019s largest weight",
  entropy: "mean entropy of a row, in bits",
};

/* A decoder's row is named by what it produces: the token before that is the one just fed in. */
const DECODER_MEANING = { prev: "mean weight on the token before the one produced, which was just fed in" };

const ROLE_WORDS = { second: "2 back" };

/* Orders of the heads: the first first. Every measure is one of the attention weights, whatever is shown. */
export const ORDERS = {
  layer: null,
  confidence: { of: ({ peak }) => -peak, shown: ({ peak }) => percent(peak), meaning: CAPTION_MEANING.peak },
  spread: {
    of: ({ meanEntropy }) => -meanEntropy,
    shown: ({ meanEntropy }) => `${meanEntropy.toFixed(1)} b`,
    meaning: CAPTION_MEANING.entropy,
  },
  distance: {
    of: ({ distance }) => -distance,
    shown: ({ distance }) => distance.toFixed(1),
    meaning: "mean distance of what is looked at, in tokens",
  },
  effect: { shown: signed, meaning: "change of log P, in nats, when this head is switched off" },
};

/* Effects are worked out where the model is: until they are here, the heads stay in layer order. */
export const isOrdered = ({ data, view: { sort } }) => sort !== "layer" && (sort !== "effect" || Boolean(data.effects));

/**
 * What switching a head off changes in the log-probability of the pinned produced tokens, or of all: in nats.
 *
 * @param {Explorer} explorer
 */
export function effectOf({ data, view }, layer, head) {
  const { kind, pinned } = view;
  const tokens = data.sides.produced.length;
  const start = (layer * data.heads + head) * tokens;
  const changes = data.effects[kind].subarray(start, start + tokens);
  const ofRow = kind === "encoder" || pinned.query === null ? null : data.items[view.unit].produced[pinned.query].members;
  return (ofRow ?? [...changes.keys()]).reduce((sum, token) => sum + changes[token], 0);
}

/**
 * By what the heads are ordered: the least comes first.
 *
 * @param {Explorer} explorer
 */
export function orderValue(explorer, layer, head) {
  const { sort } = explorer.view;
  return sort === "effect" ? effectOf(explorer, layer, head) : ORDERS[sort].of(measuresOf(explorer, layer, head));
}

/**
 * What is said of a head is measured on its weights; only rollout, which has no heads, speaks for itself.
 *
 * @param {Explorer} explorer
 */
export function measuredMap(explorer, layer, head) {
  const quantity = explorer.view.quantity === ROLLOUT ? ROLLOUT : WEIGHTS;
  return mapOf(explorer.data, { ...atHead(explorer.view, layer, head), quantity });
}

/** @param {Explorer} explorer */
export const measuresOf = (explorer, layer, head) => measure(measuredMap(explorer, layer, head));

/** @param {Explorer} explorer */
export const isOverview = (explorer, layer, head) => layer === explorer.data.layers[explorer.view.kind] || head === explorer.data.heads;

/**
 * Beneath a thumbnail: the measure that orders, else where this head looks in the pinned row, else what it does.
 *
 * @param {Explorer} explorer
 */
export function captionOf(explorer, layer, head) {
  const map = measuredMap(explorer, layer, head);
  const { peak, meanEntropy } = measure(map);
  const { sort, pinned, hide, quantity } = explorer.view;
  if (isOrdered(explorer) && !isOverview(explorer, layer, head)) {
    const { shown, meaning } = ORDERS[sort];
    const number = shown(sort === "effect" ? effectOf(explorer, layer, head) : measure(map));
    return { word: `${layer + 1}.${head + 1}`, number, meaning };
  }
  if (pinned.query !== null) {
    const shown = mapOf(explorer.data, atHead(explorer.view, layer, head));
    const [key] = rankedKeys(shown, pinned.query, hide);
    if (key === undefined) return { word: "\u2013", number: "", meaning: "everything it may look at is hidden" };
    const { digits, most } = QUANTITIES[quantity];
    const number = mapFigure(shown, valueAt(shown, pinned.query, key), digits).replace(/^0\./, ".");
    return { word: shown.columns[key].label, number, meaning: `at ${tokenName(shown.rows[pinned.query])} it${most.trimEnd()}` };
  }
  const role = map.sumsToOne ? roleOf(map) : null;
  if (role) {
    const meaning = (map.kind === "decoder" && DECODER_MEANING[role.name]) || CAPTION_MEANING[role.name];
    return { word: ROLE_WORDS[role.name] ?? role.name, number: percent(role.share), meaning };
  }
  if (peak >= 0.5 || !map.sumsToOne) return { word: "largest", number: percent(peak), meaning: CAPTION_MEANING.peak };
  return { word: "entropy", number: `${meanEntropy.toFixed(1)} b`, meaning: CAPTION_MEANING.entropy };
}
