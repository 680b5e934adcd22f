// Figures for papers: what a saved picture holds, its width and font size, and the scale and caption below it.

import { between, fixed } from "../shared/numbers.js";
import { withCaption } from "../shared/picture_files.js";
import { drawColourBar } from "../shared/plot.js";
import { aboutLines } from "./about.js";
import { currentMap } from "./focus.js";
import { mapGeometry } from "./geometry.js";
import { linesGeometry } from "./lines.js";
import { rampOf } from "./maps.js";
import { shownGeometry } from "./picture.js";
import { mapTitle, pictureTitle, QUANTITIES } from "./words.js";

/**
 * @typedef {{title: boolean, labels: boolean, bars: boolean, caption: boolean, mm: number | null, points: number}} Figure
 *   what is drawn; mm: the width in millimetres, or null for the size on the page; points: the size of labels in a figure
 *   of such a width
 */

const FIGURE_WIDTHS = { least: 40, most: 400 };
const FIGURE_FONTS = { least: 5, most: 16, usual: 8 };
const FIGURE_MARGIN = 12;
export const POINTS_PER_MM = 72 / 25.4;
const KIND_TITLES = { encoder: "Encoder self-attention", decoder: "Decoder self-attention", cross: "Cross-attention" };

/** The choices of the form. @param {Explorer} explorer @returns {Figure} */
export function chosenFigure({ dom: { parts } }) {
  const isOn = (name) => parts[`figure-${name}`].checked;
  const mm = Number(parts["figure-width"].value);
  const points = Number(parts["figure-font"].value) || FIGURE_FONTS.usual;
  return {
    title: isOn("title"),
    labels: isOn("labels"),
    bars: isOn("bars"),
    caption: isOn("caption"),
    mm: mm ? between(FIGURE_WIDTHS.least, mm, FIGURE_WIDTHS.most) : null,
    points: between(FIGURE_FONTS.least, points, FIGURE_FONTS.most),
  };
}

/**
 * The geometry of the picture in view for a figure: laid out again if it has a width, so that labels have their size.
 * @param {Explorer} explorer
 * @param {Figure} figure
 * @param {(geometry: any) => number} beside  px that the picture needs besides the geometry's
 */
export function figureGeometry(explorer, figure, beside) {
  const isMap = explorer.view.picture === "map";
  let geometry = shownGeometry(explorer);
  for (let turn = 0; figure.mm && turn < 3; turn++) {
    const whole = (figure.mm * POINTS_PER_MM * geometry.fontSize) / figure.points;
    const room = Math.max(160, Math.floor(whole - 2 * FIGURE_MARGIN - beside(geometry)));
    const layout = { ...explorer.layout, room, presented: 0, zoom: 1, linesGeometry: null };
    const laid = { ...explorer, layout };
    geometry = isMap ? mapGeometry(laid, explorer.view.kind) : linesGeometry(laid);
  }
  return isMap ? { ...geometry, bare: !figure.labels, strips: figure.bars, bars: geometry.bars && figure.bars } : geometry;
}

/**
 * The part of a map to save, [left, top, right, bottom], without what the figure leaves out.
 * @param {Figure} figure
 */
export function partOf(figure, { left, top, gridWidth, gridHeight, width, height, angle, columnLabels }) {
  const slanted = columnLabels.map((label, key) => (key + 0.5) * (gridWidth / columnLabels.length) + (label.width + 16) * Math.cos(angle));
  const [right, bottom] = [left + gridWidth, top + gridHeight];
  const reach = figure.labels ? Math.max(right + 4, left + Math.max(...slanted)) : right + 2;
  return [figure.labels ? 0 : left - 2, figure.labels ? 0 : top - 2, figure.bars ? width : Math.min(width, reach), figure.bars ? height : bottom + 6];
}

const ROOM_OF_SCALE = 44;
const LENGTH_OF_SCALE = 160;

/**
 * Draw the colour scale of a map below a picture.
 * @param {Theme} theme
 * @param {AttentionMap} map
 * @param {PictureFile} picture
 * @returns {PictureFile}
 */
function withScale(theme, map, picture) {
  const { width, height, before = 0, draw } = picture;
  const middle = (map.lo + map.hi) / 2;
  const labels = [map.lo, middle, map.hi].map((value) => fixed(value, Number.isInteger(value) ? 0 : 1));
  const length = Math.min(LENGTH_OF_SCALE, width - 90);
  const name = QUANTITIES[map.quantity].name;
  return {
    ...picture,
    height: height + ROOM_OF_SCALE,
    draw: (context) => {
      context.save();
      draw(context);
      context.restore();
      drawColourBar(context, theme, rampOf(theme, map), width - before - length - 8, height + 12, length, labels, name);
    },
  };
}

/** What the caption of a figure says: picture, axes, network, sentence. @param {Explorer} explorer */
function figureCaption(explorer, isOverview) {
  const { data, view, dom } = explorer;
  const where = isOverview ? "every layer and head" : mapTitle(data, view);
  const axes = isOverview ? "" : dom.parts["axis-note"].textContent;
  const shown = `${KIND_TITLES[view.kind]}, ${where[0].toLowerCase()}${where.slice(1)}: ${pictureTitle(data, view)}.`;
  const [network] = aboutLines(explorer);
  const texts = `\u201c${data.sourceText}\u201d \u2192 \u201c${data.translation}\u201d`;
  return [shown, axes.trim(), `${network}.`, texts].filter(Boolean).join(" ");
}

/**
 * Complete a picture with its scale and caption, as the form says.
 * @param {Explorer} explorer
 * @param {Figure} figure
 * @param {PictureFile} picture
 */
export function completed(explorer, figure, picture, isOverview = false) {
  const { theme, view } = explorer;
  const scaled = isOverview || view.picture === "map" ? withScale(theme, currentMap(explorer), picture) : picture;
  return figure.caption ? withCaption(scaled, figureCaption(explorer, isOverview)) : scaled;
}
