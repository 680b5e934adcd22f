// The view, a frozen value with everything that a link stores; how it changes; and how links become views and back. No DOM.

import { NO_CELL, samePlace } from "../shared/grid.js";
import { between } from "../shared/numbers.js";
import { HIDEABLE, MASSES, OPTIONS } from "./choices.js";
import { COLUMN_SIDE, kindsOf, ROW_SIDE } from "./data.js";
import { ROLLOUT, WEIGHTS } from "./maps.js";
import { allHeads, allLayers } from "./words.js";

/** The initial view. */
export const FIRST_VIEW = Object.freeze({
  kind: "cross",
  layer: 0,
  head: 0,
  picture: "map",
  unit: "pieces",
  hide: new Set(),
  sort: "layer",
  combine: "mean",
  quantity: WEIGHTS,
  /* Ablation effects on the whole translation, even if a word is pinned. */
  wholeTranslation: false,
  mass: MASSES.usual,
  states: "folded",
  pinned: NO_CELL,
  /* While rollout is shown, { head, everyLayer }: the head to return to (null for all heads), and whether all layers were chosen. */
  beforeRollout: null,
});

/** @param {View} view */
const altered = (view, change) => Object.freeze({ ...view, ...change });

/**
 * Return the view after a change and its consequences. A new kind keeps a pinned row if both kinds have the same rows, and
 * unpins everything else. It limits the layer to the new kind's last, unless all layers are chosen. Rollout, which has no
 * heads, sets the head to all heads until another quantity is chosen.
 * @param {RecordData} data
 * @param {View} view
 */
export function nextView(data, view, change) {
  let next = view;
  if ("kind" in change && change.kind !== next.kind && data.layers[change.kind]) next = withKind(data, next, change.kind);
  if ("unit" in change && change.unit !== next.unit) next = withUnit(data, next, change.unit);
  if ("quantity" in change) next = withQuantity(data, next, change.quantity);
  const { kind: _kind, unit: _unit, quantity: _quantity, ...rest } = change;
  if ("mass" in rest) rest.mass = between(MASSES.least, rest.mass, MASSES.most);
  if ("pinned" in rest && samePlace(rest.pinned, next.pinned)) rest.pinned = next.pinned;
  return altered(next, rest);
}

/**
 * Decoder and cross-attention share rows, so a pinned row stays; everything else is unpinned.
 * @param {RecordData} data
 * @param {View} view
 */
function withKind(data, view, kind) {
  const sharesRows = ROW_SIDE[kind] === ROW_SIDE[view.kind];
  const layers = data.layers[kind];
  const every = allLayers(data, view) && view.quantity !== ROLLOUT;
  return altered(view, {
    kind,
    pinned: sharesRows ? { query: view.pinned.query, key: null } : NO_CELL,
    layer: every ? layers : between(0, view.layer, layers - 1),
    head: allHeads(data, view) ? data.heads : Math.min(view.head, data.headsOf[kind] - 1),
  });
}

/** Move the pin to the first token of a word, or to the word of a token. @param {RecordData} data @param {View} view */
function withUnit(data, view, unit) {
  const moved = (side, index) => {
    if (index === null) return null;
    const [first] = data.items[view.unit][side][index].members;
    return data.items[unit][side].findIndex(({ members }) => members.includes(first));
  };
  const { kind, pinned } = view;
  return altered(view, {
    unit,
    pinned: { query: moved(ROW_SIDE[kind], pinned.query), key: moved(COLUMN_SIDE[kind], pinned.key) },
  });
}

/** Rollout has one map per layer; remember the head to return to. @param {RecordData} data @param {View} view */
function withQuantity(data, view, quantity) {
  const last = data.layers[view.kind] - 1;
  if (quantity === ROLLOUT) {
    const beforeRollout = view.beforeRollout ?? { head: allHeads(data, view) ? null : view.head, everyLayer: allLayers(data, view) };
    return altered(view, { quantity, beforeRollout, head: data.heads, layer: Math.min(view.layer, last) });
  }
  if (!view.beforeRollout) return altered(view, { quantity });
  const { head, everyLayer } = view.beforeRollout;
  return altered(view, {
    quantity,
    beforeRollout: null,
    head: head === null ? data.heads : Math.min(head, data.headsOf[view.kind] - 1),
    layer: everyLayer && view.layer === last ? last + 1 : view.layer,
  });
}

/**
 * Adapt a view to other data. "All layers" and "all heads" stay chosen, whatever their number.
 * @param {RecordData} data
 * @param {View} view
 */
export function viewOfOther(data, view, before) {
  const kind = data.layers[view.kind] ? view.kind : kindsOf(data)[0];
  const layers = data.layers[kind];
  return altered(view, {
    kind,
    layer: allLayers(before, view) ? layers : between(0, view.layer, layers - 1),
    head: allHeads(before, view) ? data.heads : between(0, view.head, data.headsOf[kind] - 1),
    pinned: kind === view.kind && sameTokens(data, before) ? view.pinned : NO_CELL,
  });
}

/**
 * Whether two records have the same tokens; the pass may differ (edits, another model).
 * @param {RecordData} data
 * @param {RecordData} other
 */
export function sameTokens(data, other) {
  const words = ({ sides }) => [sides.source, sides.target].map((side) => side.map(({ label }) => label));
  return JSON.stringify(words(data)) === JSON.stringify(words(other));
}

/** Query parameters of a view: always kind, layer and head; the others are null, so left out, for defaults. @param {RecordData} data @param {View} view */
export function linkOf(data, view) {
  const { kind, layer, head, picture, unit, hide, sort, combine, quantity, mass, states, pinned, beforeRollout, wholeTranslation } = view;
  return {
    kind,
    layer: layer < data.layers[kind] ? layer : combine,
    // Rollout: keep the head to return to.
    head: beforeRollout ? (beforeRollout.head ?? combine) : head < data.heads ? head : combine,
    view: picture === "map" ? null : picture,
    words: unit === "words" ? 1 : null,
    hide: hide.size ? [...hide].join(",") : null,
    sort: sort === "layer" ? null : sort,
    effect: wholeTranslation ? "whole" : null,
    combine: combine === "mean" ? null : combine,
    quantity: quantity === WEIGHTS ? null : quantity,
    mass: mass === MASSES.usual ? null : mass,
    states: states === "folded" ? null : states,
    q: pinned.query,
    k: pinned.key,
  };
}

/* All query parameters except kind, layer and head, which the initial view in a payload always sets. */
export const FURTHER = ["view", "words", "hide", "sort", "effect", "combine", "quantity", "mass", "states", "q", "k"];

/**
 * View of a link, except its pin (see `pinnedOfLink`). A missing layer or head becomes 0; one out of range is limited.
 * Unknown names in `hide` are dropped. Any other field without a valid value stays as in `view`. The quantity is returned
 * separately, because its numbers may have to be requested first.
 * @param {RecordData} data
 * @param {View} view
 */
export function viewOfLink(data, view, link) {
  const known = (name, value) => OPTIONS[name].includes(value);
  const together = [link.layer, link.head].find((value) => known("combine", value));
  const kind = [link.kind, view.kind, ...kindsOf(data)].find((one) => data.layers[one]);
  const place = (value, count, all = count) => (known("combine", value) ? all : between(0, Number(value) || 0, count - 1));
  const change = {
    kind,
    layer: place(link.layer, data.layers[kind]),
    head: place(link.head, data.headsOf[kind], data.heads),
  };
  if (known("picture", link.view)) change.picture = link.view;
  if (String(link.words) === "1") change.unit = "words";
  if (link.hide) change.hide = new Set(String(link.hide).split(",").filter((name) => HIDEABLE.includes(name)));
  if (known("sort", link.sort)) change.sort = link.sort;
  if (link.effect === "whole") change.wholeTranslation = true;
  if (known("combine", link.combine)) change.combine = link.combine;
  if (known("states", link.states)) change.states = link.states;
  if (together) change.combine = together;
  if (Number(link.mass)) change.mass = between(MASSES.least, Math.round(Number(link.mass)), MASSES.most);
  return {
    view: altered(view, change),
    quantity: known("quantity", link.quantity) ? link.quantity : null,
  };
}

/* The cell that a link pins; null for a row or column that the map does not have. */
export function pinnedOfLink(data, { kind, unit }, link) {
  const place = (value, items) =>
    /^\d+$/.test(String(value ?? "")) && Number(value) < items.length ? Number(value) : null;
  const items = data.items[unit];
  return { query: place(link.q, items[ROW_SIDE[kind]]), key: place(link.k, items[COLUMN_SIDE[kind]]) };
}
