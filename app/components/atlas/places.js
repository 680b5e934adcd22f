// Draws a grid of all heads: one block per kind, a row per layer, a column per head.

import { between } from "../shared/numbers.js";
import { drawBox, drawFrame, drawInterval, drawNote, drawText } from "../shared/plot.js";
import { rampStep, signedStep } from "../shared/theme.js";
import { hasIntervals, intervalOf, isMeasured, profileOf, valueOf, withUnit } from "./data.js";
import { colourOf, scaleOf, ticksOf } from "./scale.js";

const LEFT = 24;

const BLOCK_GAP = 20;

const TITLE = 40; // above a block: its name and the numbers of its heads

const LEGEND = 52;

const LEAST_BESIDE = 36; // px: if cells side by side would be narrower than this, blocks go below each other

const KEY_BESIDE = 660; // px: in a narrower picture the key of the cells is below the colour scale

const STRIP = 13; // the bar at the bottom of a cell

/** Geometry in CSS pixels: blocks side by side if their cells are wide enough, else below each other. */
export function placesGeometry(data, width) {
  const kinds = Object.keys(data.kinds);
  const layers = Math.max(...Object.values(data.layers));
  const beside = Math.floor((width - kinds.length * LEFT - (kinds.length - 1) * BLOCK_GAP) / (kinds.length * data.heads));
  const isWide = beside >= LEAST_BESIDE;
  const cell = between(14, isWide ? beside : Math.floor((width - LEFT) / data.heads), 96);
  const tall = isWide ? between(46, Math.round(cell * 1.05), 62) : between(34, Math.round(cell * 0.6), 48);
  const blocks = {};
  let [x, y] = [0, 0];
  for (const kind of kinds) {
    blocks[kind] = { left: x + LEFT, top: y + TITLE };
    if (isWide) x += LEFT + cell * data.heads + BLOCK_GAP;
    else y += TITLE + tall * data.layers[kind] + 10;
  }
  const bottom = isWide ? TITLE + tall * layers : y;
  return { blocks, cell, tall, width, legend: bottom + 10, height: bottom + LEGEND + (width < KEY_BESIDE ? 58 : 0) };
}

function boxOf({ blocks, cell, tall }, { kind, layer, head }) {
  return { left: blocks[kind].left + head * cell, top: blocks[kind].top + layer * tall, width: cell - 2, height: tall - 2 };
}

/** The head at a point, or null. */
export function headAt(data, geometry, x, y) {
  const found = data.places.findIndex((place) => {
    const { left, top, width, height } = boxOf(geometry, place);
    return x >= left && x < left + width + 2 && y >= top && y < top + height + 2;
  });
  return found < 0 ? null : found;
}

/** The next head in an arrow's direction; at the edge of a block, in the block beside it. */
export function headBeside(data, n, [down, right]) {
  const { kind, layer, head } = data.places[n];
  const kinds = Object.keys(data.kinds);
  let [at, row, column] = [kinds.indexOf(kind), layer + down, head + right];
  if (column < 0 || column >= data.heads) {
    at += right;
    column = column < 0 ? data.heads - 1 : 0;
  }
  if (at < 0 || at >= kinds.length || row < 0) return n;
  row = Math.min(row, data.layers[kinds[at]] - 1);
  return data.starts[kinds[at]] + row * data.heads + column;
}

/** @param {Drawing} context @param {AtlasView} view */
export function drawPlaces(context, { data, theme, chosen }, geometry) {
  const measure = data.byKey[chosen.measure];
  const scale = scaleOf(data, measure);
  for (const [kind, words] of Object.entries(data.kinds)) {
    const { left, top } = geometry.blocks[kind];
    drawText(context, theme, words[0].toUpperCase() + words.slice(1), left, top - 30, { weight: 600 });
    for (let head = 0; head < data.heads; head++) {
      drawNote(context, theme, String(head + 1), left + (head + 0.5) * geometry.cell - 1, top - 10, "center", "ink3");
    }
    for (let layer = 0; layer < data.layers[kind]; layer++) {
      drawNote(context, theme, String(layer + 1), left - 7, top + (layer + 0.5) * geometry.tall - 1, "right", "ink3");
    }
  }
  data.places.forEach((place, n) => drawCell(context, data, theme, scale, n, boxOf(geometry, place)));
  drawLegend(context, theme, scale, geometry);
}

function drawCell(context, data, theme, scale, n, { left, top, width, height }) {
  const { measure } = scale;
  const colour = colourOf(theme, scale, valueOf(measure, n));
  const ink = colour ? colour.table.ink[colour.step] : theme.ink2;
  drawBox(context, colour ? colour.table.css[colour.step] : theme.well, left, top, width, height);
  const profile = profileOf(data, n);
  const peak = Math.max(...profile) || 1;
  const step = (width - 4) / profile.length;
  const tall = height - STRIP - 3;
  context.globalAlpha = 0.62;
  profile.forEach((share, at) => {
    const size = (share / peak) * tall;
    if (size > 0.1) drawBox(context, ink, left + 2 + at * step, top + height - STRIP - size, Math.max(0.75, step - 0.15), size);
  });
  context.globalAlpha = 0.3;
  drawBox(context, ink, left + 2, top + height - STRIP, width - 4, 0.75);
  context.globalAlpha = 1;
  if (!isMeasured(measure, n)) return;
  drawValue(context, ink, scale, intervalOf(measure, n), left + 3, top + height - STRIP / 2, width - 6);
  // An empty square: not distinguishable from 0.
  if (measure.no_effect?.has(n)) drawFrame(context, ink, 1, left + width - 8.5, top + 3.5, 5, 5);
}

/* The interval as a line with the value as a tick; for changes, a faint mark at 0. */
function drawValue(context, ink, scale, [value, low, high], left, y, width) {
  const x = (amount) => left + scale.at(amount) * width;
  if (scale.measure.signed) {
    context.globalAlpha = 0.35;
    drawBox(context, ink, x(0) - 0.5, y - 5, 1, 10);
    context.globalAlpha = 1;
  }
  drawInterval(context, ink, x(low), x(high), y);
  drawBox(context, ink, x(value) - 1, y - 4, 2, 8);
}

function drawLegend(context, theme, scale, { legend, width }) {
  const { measure } = scale;
  const length = Math.min(260, width - 60);
  const left = LEFT + 14;
  const slices = 64;
  for (let slice = 0; slice < slices; slice++) {
    const share = (slice + 0.5) / slices;
    const colour = measure.signed ? theme.signed.css[signedStep(2 * share - 1)] : theme.ramp.css[rampStep(share)];
    drawBox(context, colour, left + (slice * length) / slices, legend, length / slices + 0.5, 9);
  }
  for (const [value, text] of ticksOf(scale, length, 44)) {
    const x = left + scale.at(value) * length;
    drawBox(context, theme.ink3, x - 0.5, legend + 9, 1, 3);
    drawNote(context, theme, text, x, legend + 20, "center");
  }
  const unit = measure.signed ? `${withUnit(measure, "")}, square-root scale`.trim() : "";
  drawNote(context, theme, unit, left, legend + 36);
  const [x, y] = width < KEY_BESIDE ? [left, legend + 58] : [left + length + 44, legend + 4];
  keyOf(measure).forEach((words, line) => drawNote(context, theme, words, x, y + 16 * line));
}

/* What a cell shows, in words. */
const keyOf = (measure) => [
  "Grey bars: where the head looks, from 20 tokens before to 20 after",
  ...(hasIntervals(measure) ? ["Tick and line: the value and its 95 % interval"] : []),
  ...(measure.no_effect?.size ? ["Empty square: not distinguishable from 0"] : []),
];

/** Frame the chosen head and the head under the pointer. */
export function drawPlacesFocus(context, { data, theme, chosen, hovered }, geometry) {
  const frame = (n, width, colour, by) => {
    const { left, top, width: wide, height } = boxOf(geometry, data.places[n]);
    drawFrame(context, colour, width, left - by, top - by, wide + 2 * by, height + 2 * by);
  };
  if (hovered !== null && hovered !== chosen.head) frame(hovered, 1.5, theme.ink2, 0);
  frame(chosen.head, 3, theme.page, -1.5);
  frame(chosen.head, 2.5, theme.ink, 1);
}
