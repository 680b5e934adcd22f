// Draws the scatter plot: all heads by two measures, with their intervals.

import { drawGround, drawText } from "../shared/grid.js";
import { ARROWS } from "../shared/keys.js";
import { headName, intervalOf, isMeasured, valueOf, withUnit } from "./data.js";
import { scaleOf, ticksOf } from "./scale.js";

const EDGE = { left: 58, right: 14, top: 12, bottom: 74 };

const NEAR = 18; // px: the pointer selects a point that is nearer than this

const RADIUS = 4;

const SHAPES = { encoder: "circle", decoder: "square", cross: "triangle" };

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
  context.lineWidth = 1;
  for (const [value, text] of ticksOf(across, plot.width - 12, 44)) {
    const x = Math.round(xAt(geometry, value)) + 0.5;
    line(context, value === 0 && across.measure.signed ? theme.ink3 : theme.line, x, plot.top, x, plot.top + plot.height);
    drawText(context, theme, text, x, plot.top + plot.height + 14, { size: 12, colour: "ink2", align: "center" });
  }
  for (const [value, text] of ticksOf(up, plot.height - 12, 26)) {
    const y = Math.round(yAt(geometry, value)) + 0.5;
    line(context, value === 0 && up.measure.signed ? theme.ink3 : theme.line, plot.left, y, plot.left + plot.width, y);
    drawText(context, theme, text, plot.left - 7, y, { size: 12, colour: "ink2", align: "right" });
  }
  drawText(context, theme, `x: ${axisName(across)}`, plot.left, plot.top + plot.height + 34, { size: 12, colour: "ink2" });
  drawText(context, theme, `y: ${axisName(up)}`, plot.left, plot.top + plot.height + 50, { size: 12, colour: "ink2" });
  drawKey(context, data, theme, plot.left, plot.top + plot.height + 66);
  data.places.forEach((_, n) => {
    if (!isShown(geometry, n)) return;
    drawWhiskers(context, theme.ink3, geometry, n, 0.35);
    const [x, y] = pointOf(geometry, n);
    drawPoint(context, data.places[n].kind, x, y, RADIUS, theme.ink2, theme.page);
  });
}

const axisName = ({ measure }) => [measure.label, measure.signed ? withUnit(measure, "").trim() : ""].filter(Boolean).join(", ");

function line(context, colour, x0, y0, x1, y1) {
  context.strokeStyle = colour;
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}

function drawKey(context, data, theme, left, y) {
  let x = left + 5;
  for (const kind of Object.keys(data.kinds)) {
    drawPoint(context, kind, x, y, RADIUS, theme.ink2, theme.page);
    drawText(context, theme, kind, x + 9, y, { size: 12, colour: "ink2" });
    x += 28 + context.measureText(kind).width;
  }
}

/* A line from bound to bound of each interval. */
function drawWhiskers(context, colour, geometry, n, alpha) {
  const { across, up } = geometry;
  const [x, y] = pointOf(geometry, n);
  const [, left, right] = intervalOf(across.measure, n);
  const [, low, high] = intervalOf(up.measure, n);
  context.globalAlpha = alpha;
  context.lineWidth = 1;
  if (Number.isFinite(left) && Number.isFinite(right)) line(context, colour, xAt(geometry, left), y, xAt(geometry, right), y);
  if (Number.isFinite(low) && Number.isFinite(high)) line(context, colour, x, yAt(geometry, low), x, yAt(geometry, high));
  context.globalAlpha = 1;
}

/* Shapes, not hues, show the kinds. Polygons suit both a canvas and an SVG. */
function drawPoint(context, kind, x, y, radius, fill, edge) {
  const corners = { circle: 14, square: 4, triangle: 3 }[SHAPES[kind]];
  const turn = { circle: 0, square: Math.PI / 4, triangle: -Math.PI / 2 }[SHAPES[kind]];
  const size = radius * { circle: 1, square: 1.25, triangle: 1.35 }[SHAPES[kind]];
  const corner = (i, by) => [x + by * Math.cos(turn + (2 * Math.PI * i) / corners), y + by * Math.sin(turn + (2 * Math.PI * i) / corners)];
  for (const [colour, by, width] of [[edge, size, 4], [fill, size, 2]]) {
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.beginPath();
    for (let i = 0; i <= corners; i++) {
      const [px, py] = corner(i % corners, by - 1);
      if (i) context.lineTo(px, py);
      else context.moveTo(px, py);
    }
    context.stroke();
  }
}

/** Highlight and name the chosen head and the head under the pointer. */
export function drawScatterFocus(context, { data, theme, chosen, hovered }, geometry) {
  for (const n of new Set([hovered ?? chosen.head, chosen.head])) {
    if (!isShown(geometry, n)) continue;
    const [x, y] = pointOf(geometry, n);
    const isChosen = n === chosen.head;
    drawWhiskers(context, theme.ink, geometry, n, 1);
    drawPoint(context, data.places[n].kind, x, y, RADIUS + (isChosen ? 3 : 1), theme.ink, theme.page);
    const name = headName(data, n);
    const isRight = x > geometry.plot.left + geometry.plot.width / 2;
    const [nameX, nameY] = [x + (isRight ? -11 : 11), Math.max(geometry.plot.top + 8, y - 11)];
    const style = { size: 13, weight: isChosen ? 650 : 400, align: isRight ? "right" : "left" };
    drawGround(context, theme, name, nameX, nameY, style);
    drawText(context, theme, name, nameX, nameY, style);
  }
}
