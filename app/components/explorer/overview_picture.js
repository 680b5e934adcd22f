// Draws the overview: a cached picture of all thumbnails and captions, with the focus drawn on top.

import { copyBase, cutLabel, drawFrame, drawText, fontOf, prepareCanvas, sizeCanvas } from "../shared/plot.js";
import { isolated } from "../shared/tokens.js";
import { captionOf, isOrdered, isOverview, orderValue } from "./captions.js";
import { atHead, currentMap, focusOf } from "./focus.js";
import { mapOf, ROLLOUT } from "./maps.js";
import { drawThumbnail } from "./raster.js";
import { capital, headName } from "./words.js";

/*
 * One canvas shows all thumbnails and captions: a canvas and a caption element per head would make every switch slower
 * than drawing them all. The captions are repeated as accessible names of the buttons.
 */

/**
 * Cells of the overview, row by row, as {layer, head, exists}; the last row and column combine all layers and all
 * heads.
 * @param {Explorer} explorer
 */
function arrangement(explorer) {
  const { data } = explorer;
  const { kind, quantity } = explorer.view;
  const { thumbnails } = explorer.dom;
  const layers = data.layers[kind];
  const columns = data.heads + 1;
  const own = data.headsOf[kind];
  /** @type {[number, number][]} */
  const heads = [];
  for (let layer = 0; layer < layers; layer++) for (let head = 0; head < own; head++) heads.push([layer, head]);
  const means = Number(explorer.layout.means);
  const sorted = isSortedInGrid(explorer);
  if (sorted) {
    const value = new Map(heads.map((place) => [place, orderValue(explorer, ...place)]));
    heads.sort((a, b) => value.get(a) - value.get(b));
  }
  return thumbnails.map((_, index) => {
    const [row, column] = [Math.floor(index / columns), index % columns];
    const ofAll = column === data.heads;
    if (quantity === ROLLOUT) {
      // One map per layer, side by side from the left.
      const layer = row * data.heads + column;
      return { layer, head: data.heads, exists: !ofAll && layer < layers };
    }
    if (sorted && row < layers) {
      const [layer, head] = heads[ofAll ? -1 : row * data.heads + column] ?? [];
      return layer === undefined ? { layer: row, head: column, exists: false } : { layer, head, exists: true };
    }
    return { layer: row, head: column, exists: row < layers + means && column < (ofAll ? data.heads + means : own) };
  });
}

/** @param {Explorer} explorer */
export const isSortedInGrid = (explorer) => isOrdered(explorer) && explorer.view.quantity !== ROLLOUT;

/* Pixels by which a caption may extend beyond its thumbnail. */
const REACH = 1;

/* px: narrower thumbnails get no caption; their button's name still has it. */
const LEAST_CAPTION = 28;

const NO_CAPTION = { word: "", mark: "", number: "", meaning: "", edited: "" };

/** Cells with captions and their picture, cached until something shown in it changes. @param {Explorer} explorer */
export function overviewOf(explorer) {
  const { kind, hide, sort, combine, quantity, unit, pinned, wholeTranslation } = explorer.view;
  const { overviews } = explorer.layout;
  const name = [[...hide], sort, Boolean(explorer.data.effects), combine, quantity, unit, pinned.query, pinned.key, wholeTranslation].join("|");
  if (overviews[kind]?.name !== name) {
    /** @type {OverviewCell[]} */
    const cells = arrangement(explorer).map((cell) =>
      cell.exists ? { ...cell, ...captionOf(explorer, cell.layer, cell.head) } : { ...cell, ...NO_CAPTION },
    );
    overviews[kind] = { name, cells, canvas: overviews[kind]?.canvas ?? document.createElement("canvas") };
    drawOverview(explorer, overviews[kind]);
  }
  return overviews[kind];
}

function drawOverview(explorer, { cells, canvas }) {
  const { data, theme } = explorer;
  const { hide } = explorer.view;
  const { places, width, height } = explorer.layout.places;
  const context = prepareCanvas(canvas, width, height, explorer.dom.overviewMaps);
  cells.forEach((cell, index) => {
    if (!cell.exists) return;
    drawThumbnail(context, mapOf(data, atHead(explorer.view, cell.layer, cell.head)), theme, hide, places[index]);
    drawCaption(context, explorer, cell, places[index], false);
  });
}

/** Paint the cached picture, with the chosen head's caption in bold. @param {Explorer} explorer */
export function showOverview(explorer) {
  const { layer, head } = explorer.view;
  const { overviewMaps } = explorer.dom;
  const { places, captions } = explorer.layout.places;
  const { cells, canvas } = overviewOf(explorer);
  const context = copyBase(overviewMaps, canvas, explorer.layout.places);
  const index = cells.findIndex((cell) => cell.exists && cell.layer === layer && cell.head === head);
  if (index < 0) return;
  const { left, top, size } = places[index];
  // The button's own outline is hidden by the neighbours' thumbnails, which are drawn above it.
  if (isCrowded(explorer.data)) drawFrame(context, explorer.theme.ink, 2, left - 1, top - 1, size + 2, size + 2);
  if (captions.height <= 1) return;
  context.clearRect(left, top + size + 1, size + REACH, captions.height - 1);
  drawCaption(context, explorer, cells[index], places[index], true);
}

export const isDense = ({ heads }) => heads > 5;

/* Whether there are too many heads for captions in the narrowest overview. */
export const isCrowded = ({ heads }) => heads > 9;

/* px: the smallest font size for long captions; a word that still does not fit is cut. */
const LEAST_SIZE = 9.5;

/* Draw as much of a caption as fits below its thumbnail. `paintCaptionLine` writes one caption in full. */
function drawCaption(context, explorer, { word, mark, number, edited }, { left, top, size: room }, chosen) {
  const { theme } = explorer;
  const { places: { captions } } = explorer.layout;
  if (room < LEAST_CAPTION) return;
  const limit = room + REACH;
  const line = top + room + 3 + captions.size * 0.6;
  const fitting = (text) => {
    const style = { size: captions.size, weight: chosen ? 650 : 400, colour: edited ? "wrong" : chosen ? "ink" : "ink2" };
    context.font = fontOf(theme, style.size, style.weight);
    const { width } = context.measureText(text);
    if (width > limit) style.size = Math.max(LEAST_SIZE, (style.size * limit) / width);
    context.font = fontOf(theme, style.size, style.weight);
    return style;
  };
  const style = fitting(word + mark);
  const cut = cutLabel(context, word, limit - context.measureText(mark).width);
  drawText(context, theme, isolated(cut) + mark, left, line, style);
  const ofNumber = fitting(number);
  // Never cut a number: the rest would be another number.
  if (context.measureText(number).width <= limit) drawText(context, theme, number, left, line + captions.size + 1.5, ofNumber);
}

/**
 * Write the caption of the head under the pointer, or of the chosen one, in full below the overview.
 * @param {Explorer} explorer
 * @param {{layer: number, head: number} | null} pointed
 */
export function paintCaptionLine(explorer, pointed = null) {
  const line = explorer.dom.parts["overview-caption"];
  line.hidden = !isDense(explorer.data); // captions of fewer heads always fit
  if (line.hidden) return;
  const { layer, head } = pointed ?? explorer.view;
  const cell = overviewOf(explorer).cells.find((one) => one.exists && one.layer === layer && one.head === head);
  const name = cell ? capital(headName(explorer.data, atHead(explorer.view, layer, head))) : "";
  // While sorted, the caption's word is the head's name.
  const word = cell && !(isSortedInGrid(explorer) && !isOverview(explorer, layer, head)) ? `${isolated(cell.word)}${cell.mark} ` : "";
  const text = cell ? `${name}: ${word}${cell.number.replace(/ b$/, " bits")}` : "";
  if (line.textContent !== text) line.textContent = text;
}

/**
 * Frame the focused row and column in every thumbnail, on one overlay canvas: DOM elements would trigger a style
 * recalculation on every move.
 * @param {Explorer} explorer
 */
export function paintOverviewFocus(explorer) {
  const { theme } = explorer;
  const { thumbnails } = explorer.dom;
  const { query, key } = focusOf(explorer);
  const { places, width, height } = explorer.layout.places;
  const empty = query === null && key === null;
  if (empty && explorer.dom.overviewFocus.dataset.empty) return;
  explorer.dom.overviewFocus.dataset.empty = empty ? "true" : "";
  const context = prepareCanvas(explorer.dom.overviewFocus, width, height);
  context.strokeStyle = theme.ink3;
  context.lineWidth = 1;
  const { queries, keys } = currentMap(explorer);
  context.beginPath();
  thumbnails.forEach(({ exists }, index) => {
    if (!exists) return;
    const { left, top, size } = places[index];
    const [row, column] = [top + (size * query) / queries, left + (size * key) / keys];
    if (query !== null) context.rect(left - 0.5, row - 0.5, size + 1, Math.max(2, size / queries) + 1);
    if (key !== null) context.rect(column - 0.5, top - 0.5, Math.max(2, size / keys) + 1, size + 1);
  });
  context.stroke();
}

/** Positions of the thumbnails and size of their captions. @param {Explorer} explorer */
export function overviewPlaces(explorer) {
  const { parts, thumbnails, overviewMaps, overviewFocus } = explorer.dom;
  const [width, height] = [parts.overview.clientWidth, parts.overview.clientHeight];
  const places = thumbnails.map(({ button }) => ({
    left: button.offsetLeft,
    top: button.offsetTop,
    size: button.offsetWidth,
  }));
  for (const canvas of [overviewMaps, overviewFocus]) sizeCanvas(canvas, width, height);
  const [{ button }] = thumbnails; // square, plus the caption's height
  const captions = { size: isDense(explorer.data) ? 10.5 : 11.5, height: button.offsetHeight - button.offsetWidth };
  return { places, width, height, captions };
}
