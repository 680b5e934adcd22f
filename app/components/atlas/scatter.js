// Draws the scatter plot: all heads by two measures, with their intervals.

import { ARROWS } from "../shared/keys.js";
import { drawMark, drawNote, drawOnGround, drawPath } from "../shared/plot.js";
import { headName, intervalOf, isMeasured, valueOf, withUnit } from "./data.js";
import { scaleOf, ticksOf } from "./scale.js";

const EDGE = { left: 58, right: 14, top: 12, bottom: 74 };

const NEAR = 18; // px: the pointer selects a point that is nearer than this

const RADIUS = 4;

/* A circle, a square and a triangle. */
const SHAPES = {
  encoder: { corners: 14, turn: 0, larger: 1 },
  decoder: { corners: 4, turn: Math.PI / 4, larger: 1.25 },
  cross: { corners: 3, turn: -Math.PI / 2, larger: 1.35 },
};

export function scatterGeometry(data, { x, y }, width, height) {
  const [across, up] = [x, y].map((key) => scaleOf(data, data.byKey[key], false));
  const plot = { left: EDGE.left, top: EDGE.top, width: width - EDGE.left - EDGE.right, height: height - EDGE.top - EDGE.bottom };
  return { width, height, plot, across, up };
}

const xAt = ({ plot, across }, value) => plot.left + 6 + across.at(value) * (plot.width - 12);
const yAt = ({ plot, up }, value) => plot.top + plot.height - 6 - up.at(value) * (plot.height - 12);

const isShown = ({ across, up }, n) => isMeasured(across.measure, n) && isMeasured(up.measure, n);

const pointOf = (geometry, n) => [
  xAt(geometry, valueOf(geometry.across.measure, n)),
  yAt(geometry, valueOf(geometry.up.measure, n)),
];

/** The point nearest to the pointer, or null if none is near. */
export function pointAt(data, geometry, x, y) {
  let [found, nearest] = [null, NEAR];
  data.places.forEach((_, n) => {
    if (!isShown(geometry, n)) return;
    const [px, py] = pointOf(geometry, n);
    const distance = Math.hypot(px - x, py - y);
    if (distance < nearest) [found, nearest] = [n, distance];
  });
  return found;
}

/** The nearest point in an arrow's direction; sideways distance counts twice. */
export function pointBeside(data, geometry, n, key) {
  const [down, right] = ARROWS[key];
  const [x, y] = isShown(geometry, n) ? pointOf(geometry, n) : [geometry.plot.left, geometry.plot.top];
  let [found, nearest] = [n, Infinity];
  data.places.forEach((_, other) => {
    if (other === n || !isShown(geometry, other)) return;
    const [px, py] = pointOf(geometry, other);
    const ahead = (px - x) * right + (py - y) * down;
    const aside = Math.abs((px - x) * down) + Math.abs((py - y) * right);
    const distance = ahead + 2 * aside;
    if (ahead > 0 && distance < nearest) [found, nearest] = [other, distance];
  });
  return found;
}

/** @param {Drawing} context @param {AtlasView} view */
export function drawScatter(context, { data, theme }, geometry) {
  const { plot, across, up } = geometry;
  const { left, top } = plot;
  const [right, bottom] = [left + plot.width, top + plot.height];
  const gridLine = ({ measure }, value, from, to) => drawPath(context, value === 0 && measure.signed ? theme.ink3 : theme.line, 1, [from, to]);
  for (const [value, text] of ticksOf(across, plot.width - 12, 44)) {
    const x = Math.round(xAt(geometry, value)) + 0.5;
    gridLine(across, value, [x, top], [x, bottom]);
    drawNote(context, theme, text, x, bottom + 14, "center");
  }
  for (const [value, text] of ticksOf(up, plot.height - 12, 26)) {
    const y = Math.round(yAt(geometry, value)) + 0.5;
    gridLine(up, value, [left, y], [right, y]);
    drawNote(context, theme, text, left - 7, y, "right");
  }
  drawNote(context, theme, `x: ${axisName(across)}`, left, bottom + 34);
  drawNote(context, theme, `y: ${axisName(up)}`, left, bottom + 50);
  drawKey(context, data, theme, left, bottom + 66);
  data.places.forEach((_, n) => {
    if (!isShown(geometry, n)) return;
    drawWhiskers(context, theme.ink3, geometry, n, 0.35);
    const [x, y] = pointOf(geometry, n);
    drawPoint(context, theme, theme.ink2, data.places[n].kind, x, y, RADIUS);
  });
}

const axisName = ({ measure }) => [measure.label, measure.signed ? withUnit(measure, "").trim() : ""].filter(Boolean).join(", ");

function drawKey(context, data, theme, left, y) {
  let x = left + 5;
  for (const kind of Object.keys(data.kinds)) {
    drawPoint(context, theme, theme.ink2, kind, x, y, RADIUS);
    drawNote(context, theme, kind, x + 9, y);
    x += 28 + context.measureText(kind).width;
  }
}

/* A line from bound to bound of each interval. */
function drawWhiskers(context, colour, geometry, n, alpha) {
  const { across, up } = geometry;
  const [x, y] = pointOf(geometry, n);
  const [, left, right] = intervalOf(across.measure, n);
  const [, low, high] = intervalOf(up.measure, n);
  const whisker = (bounds, ends) => bounds.every(Number.isFinite) && drawPath(context, colour, 1, bounds.map(ends));
  context.globalAlpha = alpha;
  whisker([left, right], (bound) => [xAt(geometry, bound), y]);
  whisker([low, high], (bound) => [x, yAt(geometry, bound)]);
  context.globalAlpha = 1;
}

/* Shapes, not hues, show the kinds. Polygons suit both a canvas and an SVG. */
function drawPoint(context, theme, colour, kind, x, y, radius) {
  const { corners, turn, larger } = SHAPES[kind];
  const size = radius * larger - 1;
  const angles = Array.from({ length: corners + 1 }, (_, corner) => turn + (2 * Math.PI * (corner % corners)) / corners);
  drawMark(context, theme, colour, 2, x, y, angles.map((angle) => [size * Math.cos(angle), size * Math.sin(angle)]));
}

/** Highlight and name the chosen head and the head under the pointer. */
export function drawScatterFocus(context, { data, theme, chosen, hovered }, geometry) {
  for (const n of new Set([hovered ?? chosen.head, chosen.head])) {
    if (!isShown(geometry, n)) continue;
    const [x, y] = pointOf(geometry, n);
    const isChosen = n === chosen.head;
    drawWhiskers(context, theme.ink, geometry, n, 1);
    drawPoint(context, theme, theme.ink, data.places[n].kind, x, y, RADIUS + (isChosen ? 3 : 1));
    const name = headName(data, n);
    const isRight = x > geometry.plot.left + geometry.plot.width / 2;
    const [nameX, nameY] = [x + (isRight ? -11 : 11), Math.max(geometry.plot.top + 8, y - 11)];
    drawOnGround(context, theme, name, nameX, nameY, { size: 13, weight: isChosen ? 650 : 400, align: isRight ? "right" : "left" });
  }
}
