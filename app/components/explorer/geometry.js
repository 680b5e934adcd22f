// Computes the position of a map's cells and labels for the available width.

import { labelsOf, widest } from "../shared/grid.js";
import { fontOf } from "../shared/plot.js";
import { COLUMN_SIDE, ROW_SIDE } from "./data.js";

/**
 * Geometry of a map, in CSS pixels. (left, top) is the corner of the first cell, `cell` its size; every `every`-th
 * label is drawn, column labels slanted by `angle`. When zoomed, only `shown` cells fit, starting at `first`; labels
 * and strips stay visible.
 * @param {Explorer} explorer
 */
export function mapGeometry(explorer, kind, unit = explorer.view.unit, zoom = explorer.layout.zoom) {
  const { data, theme } = explorer;
  const { parts } = explorer.dom;
  const rows = data.items[unit][ROW_SIDE[kind]];
  const columns = data.items[unit][COLUMN_SIDE[kind]];
  const { room, presented, bars } = explorer.layout;
  const small = room < 460;
  const context = parts.map.getContext("2d");

  // Measure labels at their largest and boldest, so that focusing one never needs more space.
  const largest = small ? 13 : 15;
  context.font = fontOf(theme, largest, 650);
  const rowLabels = labelsOf(context, rows, small ? 84 : Math.min(150, room * 0.24));
  const columnLabels = labelsOf(context, columns, small ? 96 : 140);
  const numberRoom = small ? 0 : 20;
  // Measured, because the width of texts depends on the theme's font.
  context.font = fontOf(theme, 13);
  const strip = small ? 40 : Math.max(78, 10 + Math.ceil(context.measureText("entropy, bits").width));
  const beside = Math.ceil(context.measureText(small ? "received" : "mean of column").width) + (small ? 24 : 10);
  const left = Math.max(Math.ceil(widest(rowLabels)) + numberRoom + 16, small ? 78 : 96, beside);

  // Slanted labels are easier to read but overhang on the right. Reserve room for that if it leaves at least 16 px per
  // cell; otherwise the cells take the whole width.
  const below = bars ? BELOW_WITH_BARS : BELOW_CELLS;
  const ownHeight = small ? 900 : Math.max(380, Math.min(600, window.innerHeight - ABOVE));
  const height = presented ? presented - PRESENTED_TITLE - topWith(columnLabels, Math.PI / 2) - below : ownHeight;
  const cellWith = (overhang) => {
    const fitting = Math.min(LARGEST_CELL, (room - left - strip - overhang) / columns.length, height / rows.length);
    return Math.max(5, Math.floor(fitting));
  };
  const upright = cellWith(0);
  const reach = columnLabels.map(({ width }, key) => width * 0.75 + 16 - (columns.length - key - 0.5) * upright * 0.9);
  const slanted = cellWith(Math.max(0, Math.max(...reach) - strip));
  const unzoomed = slanted >= 16 ? slanted : upright;

  const cell = Math.min(LARGEST_CELL, Math.round(unzoomed * zoom));
  const angle = cell >= 21 ? Math.PI / 4 : cell >= 16 ? Math.PI / 3 : Math.PI / 2;
  const overhang = zoom > 1 ? Math.max(0, widest(columnLabels) * Math.cos(angle) - strip + 16) : 0;
  const fits = (count, space) => Math.min(count, Math.max(3, Math.floor(space / cell)));
  const shown =
    zoom > 1
      ? { queries: fits(rows.length, unzoomed * rows.length), keys: fits(columns.length, room - left - strip - overhang) }
      : { queries: rows.length, keys: columns.length };
  const fontSize = Math.max(10.5, Math.min(largest, cell * 0.86));
  const top = topWith(columnLabels, angle);
  const gridWidth = cell * shown.keys;
  const gridHeight = cell * shown.queries;
  return {
    kind,
    small,
    left,
    top,
    cell,
    unzoomed,
    angle,
    fontSize,
    gridWidth,
    gridHeight,
    rowLabels,
    columnLabels,
    shown,
    first: { query: 0, key: 0 },
    numbered: cell >= 14 && !small,
    gap: cell > 9 ? 1 : 0,
    every: Math.max(1, Math.ceil((fontSize * 0.92) / cell)),
    width: Math.max(room, left + gridWidth + strip),
    bars,
    height: top + gridHeight + below,
  };
}

export const LARGEST_CELL = 36;

/* px of the first screen beside the cells, with the two rows of words of an edit: an edit never resizes the map. */
const ABOVE = 490;

/* px below the cells, without and with the columns' shares, and the title above a presented map. */
const BELOW_CELLS = 6;
const BELOW_WITH_BARS = 54;
const PRESENTED_TITLE = 36;

/* The height of column labels at an angle. */
const topWith = (labels, angle) => Math.max(46, Math.ceil(widest(labels) * Math.sin(angle) + 10 * Math.cos(angle)) + 18);

/** @param {Explorer} explorer */
export function geometryOf(explorer, kind) {
  explorer.layout.geometries[kind] ??= mapGeometry(explorer, kind);
  return explorer.layout.geometries[kind];
}
