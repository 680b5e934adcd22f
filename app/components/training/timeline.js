// Draws the timeline: lanes of curves over the points of training, with marks and a cursor.

import { between, fixed } from "../shared/numbers.js";
import { cutLabel, drawDot, drawNote, drawOnGround, drawPath, drawText, fontOf } from "../shared/plot.js";
import { nameOfHead } from "./lanes.js";

/* Half the width of the slider's thumb: its centre stops this far from either end. */
const INSET = 8;
const RIGHT = 46;
const GUTTERS = { wide: 212, narrow: 0 };
const LANE = 52;
const GAPS = { wide: 18, narrow: 32 };
const AXES = { wide: 34, narrow: 50 };

/** @param {Run} run @returns {TimelineGeometry} */
export function timelineGeometry(run, lanes, width, narrow) {
  const size = narrow ? "narrow" : "wide";
  const [left, gap] = [GUTTERS[size], GAPS[size]];
  const plot = width - left - RIGHT;
  const tops = lanes.map((_, place) => place * (LANE + gap) + gap);
  const bottom = tops[tops.length - 1] + LANE;
  return { width, height: bottom + AXES[size], left, plot, tops, bottom, narrow, points: run.points };
}

/** @param {TimelineGeometry} geometry */
const pointX = ({ left, plot, points }, point) =>
  left + INSET + (points > 1 ? (point * (plot - 2 * INSET)) / (points - 1) : 0);

/** The point of training nearest to a horizontal position. @param {TimelineGeometry} geometry */
export function pointAt({ left, plot, points }, x) {
  const share = (x - left - INSET) / (plot - 2 * INSET);
  return between(0, Math.round(share * (points - 1)), points - 1);
}

/** The lane at a vertical position, or null. @param {TimelineGeometry} geometry */
export function laneAt({ tops, narrow }, y) {
  const above = narrow ? GAPS.narrow : 0;
  const lane = tops.findIndex((top) => y >= top - above && y <= top + LANE);
  return lane < 0 ? null : lane;
}

/** @param {Lane} lane */
function laneY({ low, high, logarithmic }, top, value) {
  const [a, b, v] = logarithmic ? [Math.log(low), Math.log(high), Math.log(value)] : [low, high, value];
  return top + LANE * (1 - (v - a) / (b - a || 1));
}

/**
 * The dots of a lane's marks, and where their labels fit. The label of the `chosen` head comes first, then those nearest to it,
 * without it from the lowest on: a label moves away from it until it covers no earlier one and no dot, so that labels have the
 * order of their dots. Where none fits, the dot stays unnamed.
 * @param {TimelineGeometry} geometry
 * @param {Lane} lane
 */
function dotsOf(geometry, lane, place, chosen = []) {
  const top = geometry.tops[place];
  const highest = geometry.narrow ? top : top - 8; // a narrow lane has its title above it
  const dots = lane.marks.toSorted((one, other) => one.value - other.value).map((mark) => {
    const [x, y] = [pointX(geometry, mark.point), laneY(lane, top, mark.value)];
    const toLeft = x > geometry.left + geometry.plot - 34;
    const isChosen = chosen.length === 1 && chosen[0][0] === mark.layer && chosen[0][1] === mark.head;
    return { mark, x, y, textX: toLeft ? x - 6 : x + 6, textY: between(highest, y - 8, top + LANE - 6), isChosen, isNamed: false, align: toLeft ? "right" : "left" };
  });
  const own = dots.findIndex(({ isChosen }) => isChosen);
  const order = [...dots.entries()].toSorted(([one], [other]) => Math.abs(one - own) - Math.abs(other - own));
  for (const [index, dot] of order) {
    const middle = dot.align === "right" ? dot.textX - 10 : dot.textX + 10;
    const covers = (other) =>
      (other.isNamed && Math.abs(other.textX - dot.textX) < 24 && Math.abs(other.textY - dot.textY) < 12) ||
      (Math.abs(other.x - middle) < 14 && Math.abs(other.y - dot.textY) < 9);
    const [step, end] = index < own ? [4, top + LANE - 6] : [-4, highest];
    while (dots.some(covers) && Math.abs(end - dot.textY) >= 4) dot.textY += step;
    dot.isNamed = !dots.some(covers);
  }
  return dots;
}

/** The mark at a canvas position, or null. @param {TimelineGeometry} geometry @param {Lane[]} lanes */
export function markAt(geometry, lanes, x, y) {
  const dots = lanes.flatMap((lane, place) => dotsOf(geometry, lane, place));
  const near = dots.filter((dot) => Math.hypot(dot.x - x, dot.y - y) <= 9);
  near.sort((one, other) => Math.hypot(one.x - x, one.y - y) - Math.hypot(other.x - x, other.y - y));
  return near[0]?.mark ?? null;
}

/**
 * Draw everything that does not depend on the point.
 * @param {Drawing} context
 * @param {Theme} theme
 * @param {TimelineGeometry} geometry
 */
export function drawStillTimeline(context, theme, geometry, run, lanes, chosen) {
  lanes.forEach((lane, place) => drawLane(context, theme, geometry, lane, place, chosen));
  drawSteps(context, theme, geometry, run);
}

/** @param {Drawing} context @param {Theme} theme @param {TimelineGeometry} geometry @param {Lane} lane */
function drawLane(context, theme, geometry, lane, place, chosen) {
  const { left, plot, tops, narrow } = geometry;
  const top = tops[place];
  const y = (value) => laneY(lane, top, value);
  for (const { value, text } of lane.ticks.filter((tick) => tick.value >= lane.low && tick.value <= lane.high)) {
    drawPath(context, theme.line, 1, [[left, y(value)], [left + plot, y(value)]]);
    drawNote(context, theme, text, left + plot + 6, y(value), "left", "ink3");
  }
  drawText(context, theme, lane.title, 0, narrow ? top - 14 : top + 8, { size: 14, weight: 600 });
  if (!lane.curve) return;
  const path = (curve) => curve.map((value, point) => [pointX(geometry, point), y(value)]);
  context.globalAlpha = 0.8;
  for (const other of lane.others) drawPath(context, theme.ink3, 1, path(other));
  context.globalAlpha = 1;
  const across = (value, dash) => {
    context.setLineDash(dash);
    drawPath(context, theme.ink2, 1, [[left, y(value)], [left + plot, y(value)]]);
    context.setLineDash([]);
  };
  if (lane.chance !== null) across(lane.chance, [1, 3]);
  if (lane.level !== null) across(lane.level, [5, 4]);
  drawPath(context, theme.ink, 2, path(lane.curve));
  for (const { mark, x, y: dotY, textX, textY, isChosen, isNamed, align } of dotsOf(geometry, lane, place, chosen)) {
    const colour = isChosen ? "ink" : "ink2";
    drawDot(context, theme, theme[colour], x, dotY, 3.5);
    if (isNamed) drawOnGround(context, theme, nameOfHead(mark), textX, textY, { size: 12, weight: isChosen ? 650 : 400, colour, align }, 650);
  }
}

function cut(context, theme, text, limit) {
  context.font = fontOf(theme, 13);
  return cutLabel(context, text, limit);
}

/**
 * Label points with their step, from the last one back, where a label fits.
 * @param {TimelineGeometry} geometry
 * @param {Run} run
 */
function drawSteps(context, theme, geometry, run) {
  const { bottom, left, plot } = geometry;
  let free = Infinity;
  for (let point = run.points - 1; point >= 0; point--) {
    const x = pointX(geometry, point);
    drawPath(context, theme.ink3, 1, [[x, bottom + 4], [x, bottom + 8]]);
    const text = fixed(run.steps[point], 0);
    context.font = fontOf(theme, 12);
    const { width } = context.measureText(text);
    const right = Math.min(x + width / 2, left + plot + RIGHT);
    if (right > free) continue;
    drawNote(context, theme, text, right, bottom + 18, "right");
    free = right - width - 10;
  }
  const isEven = run.steps.every((step, point) => point < 2 || step - run.steps[point - 1] === run.steps[1] - run.steps[0]);
  drawText(context, theme, `training step${isEven ? "" : ", not to scale"}`, 0, bottom + (geometry.narrow ? 36 : 18), { size: 13, colour: "ink2" });
}

/** Draw cursor and values at a point. @param {Drawing} context @param {Theme} theme @param {TimelineGeometry} geometry */
export function drawLiveTimeline(context, theme, geometry, lanes, point, name) {
  const { tops, bottom, left, plot, narrow } = geometry;
  const x = Math.round(pointX(geometry, point)) + 0.5;
  context.globalAlpha = 0.8;
  // On a narrow screen the titles are between the lanes: leave gaps in the cursor.
  const spans = narrow ? tops.map((top) => [top - 4, top + LANE]) : [[tops[0] - 8, bottom + 8]];
  for (const [from, to] of spans) drawPath(context, theme.ink, 1, [[x, from], [x, to]]);
  context.globalAlpha = 1;
  lanes.forEach((lane, place) => {
    const top = tops[place];
    const first = lane.curve ? `${lane.shown(lane.curve[point])}${lane.unit}` : "";
    if (lane.curve) drawDot(context, theme, theme.ink, x, laneY(lane, top, lane.curve[point]), 4);
    else drawOnGround(context, theme, cut(context, theme, lane.empty, plot - 12), left + 8, top + LANE / 4, { size: 13, colour: "ink2" }); // between two lines
    if (narrow) { // without room, only the dotted line says what chance gives
      context.font = fontOf(theme, 14, 600);
      const after = context.measureText(lane.title).width + 10;
      const said = lane.ofHead ? `${name}: ${first}` : first;
      const whole = [said, lane.aside].filter(Boolean).join(", ");
      context.font = fontOf(theme, 13);
      const fits = !lane.ofHead || context.measureText(whole).width <= geometry.width - after;
      drawText(context, theme, cut(context, theme, fits ? whole : said, geometry.width - after), after, top - 14, { size: 13, colour: "ink2" });
      return;
    }
    const named = lane.ofHead ? `${first} in ${name}` : first;
    drawText(context, theme, cut(context, theme, named, left - 16), 0, top + 28, { size: 14, colour: "ink" });
    drawText(context, theme, cut(context, theme, lane.aside, left - 16), 0, top + 47, { size: 13, colour: "ink2" });
  });
}
