// Draws the row's maps: a cached base of cells, hatching, axes and scale, with labels and focus on top.

import { drawFocus, drawLabel, emphasisOf, hatchMasked, labelsOf, showsLabel, widest, xOf, yOf } from "../shared/grid.js";
import { scientific } from "../shared/numbers.js";
import { drawBox, drawColourBar, drawFrame, drawHatch, drawNote, drawText, fontOf, imageOf, rasterOf } from "../shared/plot.js";
import { heightBelow, screenOf } from "../shared/presented.js";
import { rampStep, signedStep } from "../shared/theme.js";
import { subscript } from "../shared/tokens.js";

export const GAP = 24;

const LEAST_CELL = 5;

const LEAST_PRESENTED = 3;

const MOST_CELL = 24;

const ALONE = { most: 32, height: 420 }; // px of a map without others beside it: its rows fit on the first screen

const MOST_BESIDE = 3;

const LONGEST_LABEL = 84;

const LEAST_WIDTH = 240; // px, for the text above a map

const PRESENTED_TEXT = 40; // px of the name above a presented map, and of the margin below it

const BAR = { top: 10, foot: 40 };

/** @param {Theme} theme */
const rampOf = (theme, map) => (map.limit === null ? theme.ramp : theme.signed);

const colourStep = ({ limit }, value) => (limit === null ? rampStep(value) : signedStep(value / limit));

/** Labels, with the position appended to a repeated word even if the word is cut. @param {Drawing} context */
function numberedLabels(context, tokens) {
  return labelsOf(context, tokens, LONGEST_LABEL).map((label) => {
    if (!label.token.repeated) return label;
    const text = label.text + subscript(label.token.number);
    return { ...label, text, width: context.measureText(text).width };
  });
}

/* Geometry shared by all maps: a `Grid` of types.js and the axis titles. A line holds as many maps as fit, at most three. */
export function rowGeometry({ data, theme, parts }) {
  const room = parts.maps.clientWidth;
  const context = document.createElement("canvas").getContext("2d");
  context.font = fontOf(theme, 13, 650);
  const labels = data.maps.map((map) => ({ rowLabels: numberedLabels(context, map.queries), columnLabels: numberedLabels(context, map.keys) }));
  context.font = fontOf(theme, 12);
  const titles = data.titles ?? { query: `query: ${data.words.query}`, key: `key: ${data.words.key}` };
  const [queryTitle, keyTitle] = [titles.query, titles.key].map((title) => context.measureText(title).width);
  const [queries, keys] = [data.queries.length, data.keys.length];
  const left = Math.max(72, Math.ceil(widest(labels.flatMap(({ rowLabels }) => rowLabels))) + 30);
  const top = Math.ceil(widest(labels.flatMap(({ columnLabels }) => columnLabels))) + 34;
  const slot = (beside) => (room - (beside - 1) * GAP) / beside;
  let beside = Math.min(MOST_BESIDE, data.maps.length);
  while (beside > 1 && slot(beside) < Math.max(LEAST_WIDTH, left + LEAST_CELL * keys + 2)) beside--;
  const presented = screenOf(parts.maps) !== "";
  const largest = data.maps.length > 1 ? MOST_CELL : Math.max(MOST_CELL, Math.min(ALONE.most, Math.floor(ALONE.height / queries)));
  const inHeight = presented ? (heightBelow(parts.maps) - PRESENTED_TEXT - top - BAR.foot) / queries : largest;
  const fitting = Math.floor(Math.min(largest, inHeight, (slot(beside) - left - 2) / keys));
  const cell = Math.max(presented ? LEAST_PRESENTED : LEAST_CELL, fitting);
  const [gridWidth, gridHeight] = [cell * keys, cell * queries];
  const fontSize = Math.max(10.5, Math.min(13, cell * 0.86));
  return {
    left,
    top,
    cell,
    gridWidth,
    gridHeight,
    fontSize,
    labels,
    titles,
    queryTitle,
    angle: Math.PI / 2,
    every: Math.max(1, Math.ceil((fontSize * 0.92) / cell)),
    first: { query: 0, key: 0 },
    shown: { queries, keys },
    width: Math.ceil(Math.max(LEAST_WIDTH, left + gridWidth + 2, left + keyTitle + 2)),
    height: Math.max(top + gridHeight + BAR.foot, Math.ceil(queryTitle) + 8),
  };
}

/* Draw everything that is independent of the focused cell. */
export function drawStill(context, { theme, data }, geometry, map) {
  const { left, top, cell, gridWidth, gridHeight, shown } = geometry;
  context.imageSmoothingEnabled = false;
  const { pixel } = rampOf(theme, map);
  const image = imageOf(shown.keys, shown.queries, (pixels) => map.values.forEach((value, place) => (pixels[place] = pixel[colourStep(map, value)])));
  context.drawImage(rasterOf(image), left, top, gridWidth, gridHeight);
  if (cell > 9) {
    for (let key = 1; key < shown.keys; key++) drawBox(context, theme.page, left + key * cell - 1, top, 1, gridHeight);
    for (let query = 1; query < shown.queries; query++) drawBox(context, theme.page, left, top + query * cell - 1, gridWidth, 1);
  }
  hatchMasked(context, theme, geometry, (query, key) => !map.unmasked[query * shown.keys + key]);
  for (const query of data.covered) drawCover(context, theme, geometry, query);
  drawFrame(context, theme.line, 1, left - 0.5, top - 0.5, gridWidth + 1, gridHeight + 1);
  if (data.outlined !== null) drawFrame(context, theme.ink, 2, left - 1, yOf(geometry, data.outlined) - 1, gridWidth + 2, cell + 1);
  drawTitles(context, theme, geometry);
  drawBar(context, theme, geometry, map);
}

/* A row that is not shown yet: hatched, with a question mark. */
function drawCover(context, theme, geometry, query) {
  const { left, cell, gridWidth } = geometry;
  const [y, middle] = [yOf(geometry, query), left + gridWidth / 2];
  drawHatch(context, theme, left, y, gridWidth, cell);
  drawBox(context, theme.page, middle - 14, y + 2, 28, cell - 4);
  drawText(context, theme, "?", middle, y + cell / 2 + 1, { size: Math.min(15, cell - 2), weight: 650, align: "center" });
  drawFrame(context, theme.ink, 2, left - 1, y - 1, gridWidth + 2, cell + 1);
}

function drawTitles(context, theme, { left, top, gridHeight, height, titles, queryTitle }) {
  drawNote(context, theme, titles.key, left, 9);
  // A long title next to few rows extends into the top margin.
  const middle = queryTitle <= gridHeight ? top + gridHeight / 2 : height / 2;
  context.save();
  context.translate(8, middle);
  context.rotate(-Math.PI / 2);
  drawNote(context, theme, titles.query, 0, 0, "center");
  context.restore();
}

/* Colour scale below the grid, with its ends and its name to the left. */
function drawBar(context, theme, { left, top, gridWidth, gridHeight }, map) {
  const y = top + gridHeight + BAR.top;
  const ends = map.limit === null ? ["0", "0.5", "1"] : [scientific(-map.limit), "0", scientific(map.limit)];
  drawColourBar(context, theme, rampOf(theme, map), left, y, Math.max(96, gridWidth), ends, map.word);
}

/* Draw the labels of the map at `place`, and the crosshair. */
export function drawLive(context, { theme, pinned }, geometry, focus, place) {
  const { left, top, every } = geometry;
  const { rowLabels, columnLabels } = geometry.labels[place];
  rowLabels.forEach((label, query) => {
    if (!showsLabel(query, every, focus.query)) return;
    drawLabel(context, geometry, theme, label, left - 8, yOf(geometry, query + 0.5), "right", emphasisOf(query, focus.query));
  });
  columnLabels.forEach((label, key) => {
    if (!showsLabel(key, every, focus.key)) return;
    context.save();
    context.translate(xOf(geometry, key + 0.5), top - 8);
    context.rotate(-geometry.angle);
    drawLabel(context, geometry, theme, label, 0, 0, "left", emphasisOf(key, focus.key));
    context.restore();
  });
  drawFocus(context, { theme, pinned }, geometry, focus);
}

/* The focused cell: hovered or keyboard-focused, else pinned. */
export function focusOf({ preview, pinned }) {
  const previewed = preview.query !== null;
  return { ...(previewed ? preview : pinned), previewed };
}
