// Captions for heads: one word and one number each; orders the heads by a measure.

import { percent, signed } from "../shared/numbers.js";
import { subscript, tokenName } from "../shared/tokens.js";
import { lookOf } from "./edited.js";
import { atHead } from "./focus.js";
import { mapOf, ROLLOUT, valueAt, WEIGHTS } from "./maps.js";
import { isHidden, measure, rankedKeys, roleOf } from "./measures.js";
import { mapFigure, measuredFigure, QUANTITIES } from "./words.js";

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

/* A decoder row is named by the token it produces: the token before that is the one just fed in. */
const FED = { word: "fed", meaning: "mean weight on the token just fed in, before the one produced" };

const ROLE_WORDS = { second: "2 back" };

/* Sort keys, ascending. All but `layer` and `effect` are measured on `measuredMap`: the weights, or rollout while it is shown. */
export const ORDERS = {
  layer: null,
  confidence: { of: ({ peak }) => -peak, shown: ({ peak }, map) => percent(peak, map.error), meaning: CAPTION_MEANING.peak },
  spread: {
    of: ({ meanEntropy }) => -meanEntropy,
    shown: ({ meanEntropy }, map) => `${measuredFigure(map, meanEntropy)} b`,
    meaning: CAPTION_MEANING.entropy,
  },
  distance: {
    of: ({ distance }) => -distance,
    shown: ({ distance }, map) => measuredFigure(map, distance),
    meaning: "mean attention distance, in tokens",
  },
  effect: { shown: (change) => signed(change), meaning: "change of the log-probability, in nats, when this head is switched off" },
};

/* Effects are computed on request; until they arrive, keep layer order. */
export const isOrdered = ({ data, view: { sort } }) => sort !== "layer" && (sort !== "effect" || Boolean(data.effects));

/** Change in the log-probability of some produced tokens, in nats, when a head is ablated. @param {Readonly<RecordData>} data */
export function effectOf(data, kind, layer, head, tokens) {
  const start = (layer * data.headsOf[kind] + head) * data.sides.produced.length;
  return tokens.reduce((sum, token) => sum + data.effects[kind][start + token], 0);
}

/** The effect of a head on the pinned word or the whole translation. @param {Explorer} explorer */
function shownEffect({ data, view }, layer, head) {
  const ofRow = view.wholeTranslation ? null : pinnedProduced({ data, view })?.members;
  return effectOf(data, view.kind, layer, head, ofRow ?? [...data.sides.produced.keys()]);
}

/** The pinned produced token or word, or null (always null for the encoder). @returns {Item | null} */
export const pinnedProduced = ({ data, view: { kind, unit, pinned } }) =>
  kind === "encoder" || pinned.query === null ? null : data.items[unit].produced[pinned.query];

/* Names the target of the effects: the pinned word or the whole translation. */
const effectOn = (explorer) => {
  const pinned = explorer.view.wholeTranslation ? null : pinnedProduced(explorer);
  return pinned ? `of ${tokenName(pinned)}` : "of the whole translation";
};

/** Describe the number shown while sorting. @param {Explorer} explorer */
export function orderMeaning(explorer) {
  const { sort } = explorer.view;
  const { meaning } = ORDERS[sort];
  return sort === "effect" ? meaning.replace("log-probability", `log-probability ${effectOn(explorer)}`) : meaning;
}

/** Sort key of a head, ascending. Effects sort by magnitude, as in `HeadEffects.ranked`. @param {Explorer} explorer */
export function orderValue(explorer, layer, head) {
  const { sort } = explorer.view;
  return sort === "effect" ? -Math.abs(shownEffect(explorer, layer, head)) : ORDERS[sort].of(measuresOf(explorer, layer, head));
}

/** The map on which a head is measured: its weights, or rollout when that is shown. @param {Explorer} explorer */
export function measuredMap(explorer, layer, head) {
  const quantity = explorer.view.quantity === ROLLOUT ? ROLLOUT : WEIGHTS;
  return mapOf(explorer.data, { ...atHead(explorer.view, layer, head), quantity });
}

/** @param {Explorer} explorer */
export const measuresOf = (explorer, layer, head) => measure(measuredMap(explorer, layer, head));

/** @param {Explorer} explorer */
export const isOverview = (explorer, layer, head) => layer === explorer.data.layers[explorer.view.kind] || head === explorer.data.heads;

/**
 * Caption of a thumbnail, the first that applies: the sort key while sorted, the top key of the pinned row, the pinned
 * column's share, the head's role, or its largest weight. `mark` is the position of a repeated word.
 * @param {Explorer} explorer
 */
export function captionOf(explorer, layer, head) {
  const map = measuredMap(explorer, layer, head);
  const { peak } = measure(map);
  const { sort, pinned, hide, quantity } = explorer.view;
  if (isOrdered(explorer) && !isOverview(explorer, layer, head)) {
    const number = ORDERS[sort].shown(sort === "effect" ? shownEffect(explorer, layer, head) : measure(map), map);
    return { word: `${layer + 1}.${head + 1}`, mark: "", number, meaning: orderMeaning(explorer), edited: "" };
  }
  if (map.edit?.word) return { word: map.edit.word, mark: "", number: "", meaning: map.edit.meaning, edited: map.edit.title };
  if (pinned.query !== null) {
    const shown = mapOf(explorer.data, atHead(explorer.view, layer, head));
    const [key] = rankedKeys(shown, pinned.query, hide);
    if (key === undefined) return { word: "\u2013", mark: "", number: "", meaning: "all columns it may attend to are hidden", edited: "" };
    const { digits, most } = QUANTITIES[quantity];
    const number = mapFigure(shown, valueAt(shown, pinned.query, key), digits).replace(/^0\./, ".");
    const { label: word, repeated, number: place } = shown.columns[key];
    const mark = repeated ? subscript(place) : "";
    const edited = movedFrom(explorer, shown, layer, head, key);
    return { word, mark, number, meaning: `at ${tokenName(shown.rows[pinned.query])} it${most.trimEnd()}`, edited };
  }
  if (pinned.key !== null) return columnCaption(explorer, layer, head);
  const role = map.sumsToOne ? roleOf(map) : null;
  if (role) {
    const { word, meaning } = map.kind === "decoder" && role.name === "prev" ? FED : { word: ROLE_WORDS[role.name] ?? role.name, meaning: CAPTION_MEANING[role.name] };
    return { word, mark: "", number: percent(role.share, map.error), meaning, edited: "" };
  }
  return { word: "largest", mark: "", number: percent(peak, map.error), meaning: CAPTION_MEANING.peak, edited: "" };
}

/**
 * The key that the pinned row looked at most before the edits, if it is another one now; empty if it is the same or not known.
 * @param {Explorer} explorer @param {AttentionMap} shown
 */
function movedFrom({ data, view }, shown, layer, head, key) {
  if (view.unit !== "pieces" || view.quantity !== WEIGHTS) return "";
  const look = lookOf(data, view.kind, layer, head, view.pinned.query);
  if (!look || look.before === look.now || look.now !== key || isHidden(shown, look.before, view.hide)) return "";
  return `before the edit at ${tokenName(shown.columns[look.before])}`;
}

/** Caption for a pinned column: its share of all weight, or the mean of another quantity. @param {Explorer} explorer */
function columnCaption(explorer, layer, head) {
  const shown = mapOf(explorer.data, atHead(explorer.view, layer, head));
  const { key } = explorer.view.pinned;
  const { name, digits } = QUANTITIES[explorer.view.quantity];
  const received = measure(shown).received[key];
  const number = shown.sumsToOne ? percent(received, shown.error) : mapFigure(shown, received, digits);
  const meaning = shown.sumsToOne ? "share of all its weight" : `mean ${name}`;
  return { word: shown.sumsToOne ? "gives" : "mean", mark: "", number, meaning: `${meaning} on ${tokenName(shown.columns[key])}`, edited: "" };
}
