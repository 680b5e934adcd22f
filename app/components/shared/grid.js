// Shared by all labelled grids: labels, hit testing, focus frames.

import { cutLabel, drawFrame, drawHatch, drawText } from "./plot.js";
import { isolated } from "./tokens.js";

export const NO_CELL = Object.freeze({ query: null, key: null });

export const samePlace = (one, other) => one.query === other.query && one.key === other.key;

/** @param {Drawing} context */
export function labelsOf(context, tokens, limit) {
  return tokens.map((token) => {
    const text = cutLabel(context, token.label, limit);
    return { token, text: isolated(text), width: context.measureText(text).width };
  });
}

export const widest = (labels) => Math.max(...labels.map((label) => label.width));

/* Whether to draw a label: every `every`-th and the focused one, whose close neighbours are left out. */
export function showsLabel(index, every, focused) {
  if (index === focused) return true;
  return index % every === 0 && (focused === null || Math.abs(index - focused) >= every);
}

/** @param {Drawing} context @param {Grid} geometry @param {Theme} theme */
export function drawLabel(context, geometry, theme, label, x, y, align, emphasis) {
  const { token } = label;
  const size = token.special ? Math.max(10.5, geometry.fontSize - 1.5) : geometry.fontSize;
  const quiet = token.special || emphasis === "hidden";
  const colour = emphasis === "strong" ? "ink" : quiet ? "ink3" : emphasis === "weak" ? "ink2" : "ink";
  drawText(context, theme, label.text, x, y + 1, { size, weight: emphasis === "strong" ? 650 : 400, colour, align });
  if (!token.unknown) return;
  const { width } = context.measureText(label.text);
  context.setLineDash([2, 2]);
  const start = Math.round(align === "right" ? x - width - 2 : x - 2) + 0.5;
  drawFrame(context, theme.ink3, 1, start, y - size / 2 - 1.5, width + 4, size + 4);
  context.setLineDash([]);
}

export const emphasisOf = (index, focused) => (focused === null ? "plain" : index === focused ? "strong" : "weak");

export const xOf = ({ left, first, cell }, key) => left + (key - first.key) * cell;

export const yOf = ({ top, first, cell }, query) => top + (query - first.query) * cell;

export const showsQuery = ({ first, shown }, query) => query >= first.query && query < first.query + shown.queries;

export const showsKey = ({ first, shown }, key) => key >= first.key && key < first.key + shown.keys;

/**
 * Return the {query, key} at a canvas point, or null outside. On a row's label the
 * key is null, on a column's label the query.
 * @param {Grid} geometry
 */
export function placeAt(geometry, x, y) {
  const { left, top, cell, angle, first, shown } = geometry;
  const column = Math.floor((x - left) / cell);
  const row = Math.floor((y - top) / cell);
  const inColumns = column >= 0 && column < shown.keys;
  const inRows = row >= 0 && row < shown.queries;
  const [query, key] = [first.query + row, first.key + column];
  if (inColumns && inRows) return { query, key };
  if (inRows) return { query, key: null };
  if (y < top) {
    // Follow the slanted label down to its column.
    const slanted = Math.floor((x - left - Math.max(0, top - 9 - y) / Math.tan(angle)) / cell);
    return slanted >= 0 && slanted < shown.keys ? { query: null, key: first.key + slanted } : null;
  }
  return inColumns ? { query: null, key } : null;
}

/* Hatch masked cells in runs: one rectangle each, without grid lines. */
export function hatchMasked(context, theme, geometry, isMasked) {
  const { cell, first, shown } = geometry;
  for (let query = first.query; query < first.query + shown.queries; query++) {
    for (let key = first.key; key < first.key + shown.keys; key++) {
      const start = key;
      while (key < first.key + shown.keys && isMasked(query, key)) key++;
      if (key > start) drawHatch(context, theme, xOf(geometry, start), yOf(geometry, query), (key - start) * cell, cell);
    }
  }
}

export function drawFocus(context, { theme, pinned }, geometry, focus) {
  const { left, top, cell, gridWidth, gridHeight } = geometry;
  const frameRow = (colour, query) => {
    if (showsQuery(geometry, query)) drawFrame(context, colour, 1, left - 0.5, yOf(geometry, query) - 0.5, gridWidth, cell);
  };
  const frameColumn = (colour, key) => {
    if (showsKey(geometry, key)) drawFrame(context, colour, 1, xOf(geometry, key) - 0.5, top - 0.5, cell, gridHeight);
  };
  if (focus.previewed) {
    context.setLineDash([3, 3]);
    if (pinned.query !== null && pinned.query !== focus.query) frameRow(theme.ink3, pinned.query);
    if (pinned.key !== null && pinned.key !== focus.key) frameColumn(theme.ink3, pinned.key);
    context.setLineDash([]);
  }
  context.globalAlpha = 0.75;
  if (focus.query !== null) frameRow(theme.ink, focus.query);
  if (focus.key !== null) frameColumn(theme.ink, focus.key);
  context.globalAlpha = 1;
  if (focus.query === null || focus.key === null) return;
  if (!showsQuery(geometry, focus.query) || !showsKey(geometry, focus.key)) return;
  for (const [colour, width] of [[theme.page, 5], [theme.ink, 2.5]]) {
    drawFrame(context, colour, width, xOf(geometry, focus.key) - 1, yOf(geometry, focus.query) - 1, cell + 1, cell + 1);
  }
}
