// The focused cell: hovered or keyboard-focused, else pinned.

import { NO_CELL } from "../shared/grid.js";
import { mapOf } from "./maps.js";

/* Nothing is hovered. `note` says why a hovered token has no row or column: "source", "target" or "first". */
export const NO_PREVIEW = Object.freeze({ ...NO_CELL, note: null });

/**
 * The focused row and column, and whether they are only previewed, not pinned.
 * @param {Explorer} explorer
 */
export function focusOf(explorer) {
  const { pinned } = explorer.view;
  const { preview } = explorer.now;
  const previewed = preview.query !== null || preview.key !== null;
  const { query, key } = previewed ? preview : pinned;
  return { query, key, previewed };
}

/** @param {View} view */
export const atHead = (view, layer, head) => ({ ...view, layer, head });

/** @param {Explorer} explorer */
export const currentMap = (explorer) => mapOf(explorer.data, explorer.view);

/** @param {Explorer} explorer */
export const isPinned = (explorer) => explorer.view.pinned.query !== null || explorer.view.pinned.key !== null;

export const itemsOf = ({ data, view }, side) => data.items[view.unit][side];

/** @param {Explorer} explorer */
export const itemOfToken = (explorer, side, index) =>
  itemsOf(explorer, side).findIndex(({ members }) => members.includes(index));

/**
 * Map a token of a sentence to a row or column of the map, or to {note} if this kind of attention has neither. The target
 * sentence starts with <bos>, so row d - 1 of the map produces its token d.
 * @param {Explorer} explorer
 */
export function focusOfToken(explorer, side, index) {
  const { kind } = explorer.view;
  if (side === "source") {
    const item = itemOfToken(explorer, "source", index);
    if (kind === "encoder") return { query: item, key: null };
    return kind === "cross" ? { query: null, key: item } : { note: "source" };
  }
  if (kind === "encoder") return { note: "target" };
  if (index > 0) return { query: itemOfToken(explorer, "produced", index - 1), key: null };
  return kind === "decoder" ? { query: null, key: 0 } : { note: "first" };
}

/** Inverse of `focusOfToken`: the tokens of a map row, in the sentences. @param {AttentionMap} map */
export const tokensOfQuery = (map, query) =>
  map.rows[query].members.map((index) =>
    map.kind === "encoder" ? { side: "source", index } : { side: "target", index: index + 1 },
  );

/** @param {AttentionMap} map */
export const tokensOfKey = (map, key) =>
  map.columns[key].members.map((index) => ({ side: map.kind === "decoder" ? "target" : "source", index }));
