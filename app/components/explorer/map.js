// Draws the map: a cached base of cells, axes and strips, with labels and focus drawn on top.

import { drawFocus, drawLabel, emphasisOf, hatchMasked, showsKey, showsLabel, showsQuery, xOf, yOf } from "../shared/grid.js";
import { between, fixed, percent } from "../shared/numbers.js";
import { drawBox, drawFrame, drawHatch, drawNote, drawPath, drawText, fontOf } from "../shared/plot.js";
import { editedCells, hiddenWords } from "./edited.js";
import { currentMap, focusOf } from "./focus.js";
import { isMasked, rampOf, stepOf, strengthOf, valueAt } from "./maps.js";
import { isHidden, measure } from "./measures.js";
import { mapPicture } from "./raster.js";
import { mapFigure, measuredFigure } from "./words.js";

/**
 * Draw everything that is independent of the focused cell: cells, axes, strips.
 * @param {Drawing} context
 * @param {Explorer} explorer
 * @param {MapGeometry} geometry
 */
export function drawStillMap(context, explorer, geometry) {
  const { theme } = explorer;
  const { hide } = explorer.view;
  const map = currentMap(explorer);
  drawCells(context, theme, map, geometry, hide);
  if (map.edit) drawEditedCells(context, explorer, map, geometry);
  if (!geometry.bare) drawAxisWords(context, theme, map, geometry);
  if (geometry.strips !== false) forShown(geometry, (query) => drawRowStrip(context, theme, map, geometry, query, false), null);
  if (geometry.bars) forShown(geometry, null, (key) => drawColumnStrip(context, theme, map, geometry, key, false));
}

function forShown({ first, shown }, onQuery, onKey) {
  if (onQuery) for (let query = first.query; query < first.query + shown.queries; query++) onQuery(query);
  if (onKey) for (let key = first.key; key < first.key + shown.keys; key++) onKey(key);
}

/** @param {Drawing} context @param {Theme} theme @param {AttentionMap} map @param {MapGeometry} geometry */
function drawCells(context, theme, map, geometry, hide) {
  const { left, top, gap, gridWidth, gridHeight, first, shown } = geometry;
  // Small cells are drawn as one scaled raster: 100 times faster than rectangles.
  const raster = gap === 0 && !context.isVector;
  if (raster) drawRaster(context, theme, map, geometry);
  forShown(geometry, (query) => {
    for (let key = first.key; !raster && key < first.key + shown.keys; key++) {
      if (isMasked(map, query, key) || isHidden(map, key, hide)) continue;
      drawCell(context, theme, map, geometry, query, key);
    }
  });
  if (map.edit?.unused) hatchUnused(context, theme, map, geometry, hide);
  hatchMasked(context, theme, geometry, (query, key) => isMasked(map, query, key));
  forShown(geometry, null, (key) => isHidden(map, key, hide) && drawHiddenColumn(context, theme, map, geometry, key));
  drawFrame(context, theme.line, 1, left - 0.5, top - 0.5, gridWidth, gridHeight);
}

/** @param {Drawing} context @param {Theme} theme @param {AttentionMap} map @param {MapGeometry} geometry */
function drawCell(context, theme, map, geometry, query, key, inset = 0) {
  const { cell, gap } = geometry;
  const [x, y] = [xOf(geometry, key), yOf(geometry, query)];
  const value = valueAt(map, query, key);
  const step = stepOf(map, value);
  const ramp = rampOf(theme, map);
  const side = cell - gap - 2 * inset;
  drawBox(context, ramp.css[step], x + inset, y + inset, side, side);
  if (cell < NUMBERED) return;
  const digits = cellDigits(map, value);
  const size = cell >= 27 && digits.length < 4 ? 13 : digits.length < 4 ? 12 : 11;
  if (digits) drawText(context, theme, digits, x + (cell - 1) / 2, y + cell / 2, { size, colour: ramp.ink[step], align: "center" });
}

/* px: cells of this size show their numbers. */
const NUMBERED = 23;

/**
 * Hatch the weights of a head that is off; numbers stay legible.
 * @param {Drawing} context @param {Theme} theme @param {AttentionMap} map @param {MapGeometry} geometry
 */
function hatchUnused(context, theme, map, geometry, hide) {
  const { left, top, cell, gridWidth, gridHeight, first, shown } = geometry;
  drawHatch(context, theme, left, top, gridWidth, gridHeight, theme.hatch, null);
  if (cell < NUMBERED) return;
  forShown(geometry, (query) => {
    for (let key = first.key; key < first.key + shown.keys; key++) {
      if (isMasked(map, query, key) || isHidden(map, key, hide) || !cellDigits(map, valueAt(map, query, key))) continue;
      drawCell(context, theme, map, geometry, query, key, UNHATCHED);
    }
  });
}

/* px between a cell's edge and the part that is not hatched. */
const UNHATCHED = 3;

/**
 * Mark the cells and rows that an edit sets: a cut edge is crossed out, a strengthened one and a drawn row are framed.
 * @param {Drawing} context @param {Explorer} explorer @param {MapGeometry} geometry
 */
function drawEditedCells(context, { data, theme, view }, map, geometry) {
  const { left, cell, gridWidth } = geometry;
  const { cells, rows } = editedCells(data, map, view.layer, view.head);
  for (const [query, key, isCut] of cells) {
    if (!showsQuery(geometry, query) || !showsKey(geometry, key)) continue;
    const [x, y] = [xOf(geometry, key), yOf(geometry, query)];
    const [near, far] = [cell * 0.2, cell * 0.8];
    if (isCut) drawPath(context, theme.wrong, 2, [[x + near, y + near], [x + far, y + far]], [[x + near, y + far], [x + far, y + near]]);
    else drawFrame(context, theme.wrong, 2, x + 1, y + 1, cell - 3, cell - 3);
  }
  for (const query of rows) if (showsQuery(geometry, query)) drawFrame(context, theme.wrong, 2, left, yOf(geometry, query), gridWidth - 1, cell - 1);
}

/**
 * Digits in a cell: a share without its leading zero, or none if it is small. Signed numbers always have digits.
 * @param {AttentionMap} map
 */
function cellDigits(map, value) {
  if (map.signed) return mapFigure(map, value, 1);
  if (value < 0.095 * map.hi) return "";
  if (map.hi === 1) return value >= 0.995 ? "1" : mapFigure(map, value, 2).slice(1);
  return value >= 9.95 ? fixed(value, 0) : fixed(value, 1).replace(/^0/, "");
}

/** @param {Drawing} context @param {Theme} theme @param {AttentionMap} map @param {MapGeometry} geometry */
function drawRaster(context, theme, map, geometry) {
  const { left, top, gridWidth, gridHeight, first, shown } = geometry;
  const picture = mapPicture(map, theme, new Set());
  context.imageSmoothingEnabled = false;
  context.drawImage(picture, first.key, first.query, shown.keys, shown.queries, left, top, gridWidth, gridHeight);
}

/**
 * Draw a hidden column as grey bars whose length is each row's value.
 * @param {Drawing} context
 * @param {Theme} theme
 * @param {AttentionMap} map
 * @param {MapGeometry} geometry
 */
function drawHiddenColumn(context, theme, map, geometry, key) {
  const { cell } = geometry;
  const x = xOf(geometry, key);
  forShown(geometry, (query) => {
    if (isMasked(map, query, key)) return;
    const y = yOf(geometry, query);
    drawBox(context, theme.well, x, y, cell, cell);
    const share = between(0, strengthOf(map, valueAt(map, query, key)), 1);
    drawBox(context, theme.ink3, x + 1, y + 1, Math.max(0, (cell - 2) * share), Math.max(1, cell - 3));
  });
}

/**
 * Label the axes and both strips, and print the value of a full bar.
 * @param {Drawing} context
 * @param {Theme} theme
 * @param {AttentionMap} map
 * @param {MapGeometry} geometry
 */
function drawAxisWords(context, theme, map, { left, top, small, gridWidth, gridHeight, bars, strips }) {
  const colour = "ink2";
  drawText(context, theme, "key", left - 22, top - 29, { colour, align: "right" });
  drawArrow(context, theme.ink2, left - 18, top - 29, 9, 0);
  drawText(context, theme, "query", left - 22, top - 12, { colour, align: "right" });
  drawArrow(context, theme.ink2, left - 13, top - 16, 0, 8);
  const entropy = map.sumsToOne ? (small ? "bits" : "entropy, bits") : small ? "top" : "largest";
  if (strips !== false) drawText(context, theme, entropy, left + gridWidth + 10, top - 10, { colour });
  if (!bars) return;
  const received = map.sumsToOne ? (small ? "received" : "share received") : small ? "mean" : "mean of column";
  drawText(context, theme, received, left - 8, top + gridHeight + 16, { colour, align: "right" });
  if (map.sumsToOne) {
    const full = `${small ? "full" : "full bar"}: ${percent(fullShare(map))}`;
    drawNote(context, theme, full, left - 8, top + gridHeight + 31, "right");
  }
}

/** @param {Drawing} context */
function drawArrow(context, colour, x, y, dx, dy) {
  const [endX, endY] = [x + dx, y + dy];
  const tip = [[endX - 3, endY - 3], [endX, endY], dx ? [endX - 3, endY + 3] : [endX + 3, endY - 3]];
  drawPath(context, colour, 1.2, [[x, y], [endX, endY]], tip);
}

/**
 * Draw beside a row its entropy in bits; for quantities that are not shares, its largest number.
 * @param {Drawing} context
 * @param {Theme} theme
 * @param {AttentionMap} map
 * @param {MapGeometry} geometry
 */
function drawRowStrip(context, theme, map, geometry, query, focused) {
  const { left, cell, gridWidth, small } = geometry;
  const { entropy, peaks } = measure(map);
  const [value, largest] = map.sumsToOne ? [entropy[query], Math.log2(map.keys)] : [peaks[query] - map.lo, map.hi - map.lo];
  const x = left + gridWidth + 10;
  const y = yOf(geometry, query);
  const room = small ? 26 : 34;
  const length = Math.max(1, (room * value) / (largest || 1));
  drawBox(context, focused ? theme.ink : theme.ink3, x, y + cell * 0.3, length, Math.max(2, cell * 0.4 - 1));
  if (small || (cell < 14 && !focused)) return;
  if (focused) drawBox(context, theme.page, x + room + 4, y + cell / 2 - 8, 30, 16);
  const number = map.sumsToOne ? measuredFigure(map, entropy[query]) : fixed(peaks[query], 1);
  drawNote(context, theme, number, x + room + 6, y + cell / 2, "left", focused ? "ink" : "ink2");
}

/* The share that a full-length bar stands for: at least 0.25, so that uniform weights have short bars. */
const fullShare = (map) => Math.max(0.25, measure(map).mostReceived);

/** Bar length below a column: its share of all weight; for other quantities, its mean. @param {AttentionMap} map */
function columnBar(map, key) {
  const { received } = measure(map);
  if (map.sumsToOne) return Math.max(1, (24 * received[key]) / fullShare(map));
  return Math.max(1, (24 * (received[key] - map.lo)) / (map.hi - map.lo || 1));
}

/** @param {Drawing} context @param {Theme} theme @param {AttentionMap} map @param {MapGeometry} geometry */
function drawColumnStrip(context, theme, map, geometry, key, focused) {
  const { top, cell, gridHeight } = geometry;
  const colour = focused ? theme.ink : theme.ink3;
  drawBox(context, colour, xOf(geometry, key + 0.25), top + gridHeight + 8, Math.max(2, cell * 0.5 - 1), columnBar(map, key));
}

/** @param {Drawing} context @param {Explorer} explorer @param {MapGeometry} geometry */
function drawLabels(context, explorer, geometry, focus) {
  const { theme } = explorer;
  const { left, top, angle, every, rowLabels, columnLabels, numbered, fontSize } = geometry;
  const map = currentMap(explorer);
  const hidden = new Set(hiddenWords(explorer.data));
  const isStruck = (items, place) => items[place].members.some((token) => hidden.has(token));
  const strike = (x, y, width) => drawPath(context, theme.wrong, 1.5, [[x, y], [x + width, y]]);
  rowLabels.forEach((label, query) => {
    if (!showsQuery(geometry, query) || !showsLabel(query, every, focus.query)) return;
    const y = yOf(geometry, query + 0.5);
    const emphasis = emphasisOf(query, focus.query);
    const right = left - 8 - (numbered ? 20 : 0);
    drawLabel(context, geometry, theme, label, right, y, "right", emphasis);
    if (map.kind === "encoder" && isStruck(map.rows, query)) strike(right - label.width, y + 1, label.width);
    const colour = emphasis === "strong" ? "ink" : "ink3";
    if (numbered) drawText(context, theme, label.token.number, left - 8, y + 1, { size: 11, colour, align: "right" });
  });
  columnLabels.forEach((label, key) => {
    if (!showsKey(geometry, key) || !showsLabel(key, every, focus.key)) return;
    const emphasis = isHidden(map, key, explorer.view.hide) ? "hidden" : emphasisOf(key, focus.key);
    context.save();
    context.translate(xOf(geometry, key + 0.5) + (angle < 1.2 ? 2 : 0), top - 9);
    context.rotate(-angle);
    drawLabel(context, geometry, theme, label, 0, 0, "left", emphasis);
    if (map.kind !== "decoder" && isStruck(map.columns, key)) strike(0, 1, label.width);
    if (numbered && label.token.repeated) {
      context.font = fontOf(theme, fontSize, emphasis === "strong" ? 650 : 400);
      const { width } = context.measureText(label.text);
      const colour = emphasis === "strong" ? "ink" : "ink3";
      drawText(context, theme, label.token.number, width + 3, 3, { size: 11, colour });
    }
    context.restore();
  });
  const { first: seen, shown } = geometry;
  const inView = (labels, start, count) =>
    longWords(labels)
      .map(([first, last]) => [Math.max(first, start), Math.min(last, start + count - 1)])
      .filter(([first, last]) => first <= last);
  const ofRows = inView(rowLabels, seen.query, shown.queries).map(([first, last]) => [[left - 4.5, yOf(geometry, first) + 3], [left - 4.5, yOf(geometry, last + 1) - 4]]);
  const ofColumns = inView(columnLabels, seen.key, shown.keys).map(([first, last]) => [[xOf(geometry, first) + 3, top - 4.5], [xOf(geometry, last + 1) - 4, top - 4.5]]);
  drawPath(context, theme.ink2, 1, ...ofRows, ...ofColumns);
}

/* The first and last token of each word of several tokens. */
export function longWords(labels) {
  const found = [];
  let first = 0;
  for (let index = 1; index <= labels.length; index++) {
    if (index < labels.length && !labels[index].token.startsWord) continue;
    if (index - 1 > first) found.push([first, index - 1]);
    first = index;
  }
  return found;
}

/**
 * Draw everything that depends on the focused cell: labels, the strips' numbers, the crosshair.
 * @param {Drawing} context
 * @param {Explorer} explorer
 * @param {MapGeometry} geometry
 */
export function drawLiveMap(context, explorer, geometry) {
  const { theme } = explorer;
  const map = currentMap(explorer);
  const focus = focusOf(explorer);
  const { received, mostReceived } = measure(map);
  if (!geometry.bare) drawLabels(context, explorer, geometry, focus);
  if (geometry.strips !== false && focus.query !== null && showsQuery(geometry, focus.query)) {
    drawRowStrip(context, theme, map, geometry, focus.query, true);
  }
  const named = focus.key ?? received.indexOf(mostReceived);
  if (geometry.bars && showsKey(geometry, named)) {
    if (focus.key !== null) drawColumnStrip(context, theme, map, geometry, focus.key, true);
    const colour = focus.key === null ? "ink2" : "ink";
    const y = geometry.top + geometry.gridHeight + 8 + columnBar(map, named) + 9;
    const number = map.sumsToOne ? percent(received[named], map.error) : fixed(received[named], 1);
    drawNote(context, theme, number, xOf(geometry, named + 0.5), y, "center", colour);
  }
  drawFocus(context, { theme, pinned: explorer.view.pinned }, geometry, focus);
}
