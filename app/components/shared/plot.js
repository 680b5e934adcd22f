// The marks of all pictures, on a canvas or an SvgContext: text, boxes, lines, points, colours; and the ticks of axes.

import { graphemes } from "./tokens.js";

/*
 * Resize a canvas to device pixels, clear it, and scale drawing to CSS pixels. `shown` is the
 * canvas on the page that the drawing is copied to, if it is another one.
 */
export function prepareCanvas(canvas, width, height, shown = canvas) {
  const ratio = Math.max(1, (window.devicePixelRatio || 1) * (shown.currentCSSZoom || 1));
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/*
 * Clear a canvas and copy its cached base to it, to draw on top what changes often. While the canvas is hidden, it has no
 * size, and an empty base cannot be copied.
 */
export function copyBase(canvas, base, { width, height }) {
  const context = prepareCanvas(canvas, width, height);
  if (base.width && base.height) context.drawImage(base, 0, 0, width, height);
  return context;
}

export function sizeCanvas({ style }, width, height) {
  Object.assign(style, { width: `${width}px`, height: `${height}px` });
}

/* Text. */

/** @param {Theme} theme */
export const fontOf = (theme, size, weight = 400) => `${weight} ${size}px ${theme.font}`;

/** Truncate a label to `limit` px at a grapheme boundary, with an ellipsis. @param {Drawing} context */
export function cutLabel(context, text, limit) {
  if (context.measureText(text).width <= limit) return text;
  const characters = graphemes(text);
  let low = 1;
  let high = characters.length;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    const fits = context.measureText(`${characters.slice(0, middle).join("")}\u2026`).width <= limit;
    if (fits) low = middle;
    else high = middle - 1;
  }
  return `${characters.slice(0, low).join("")}\u2026`;
}

export function drawText(context, theme, words, x, y, { size = 13, weight = 400, colour = "ink", align = "left" } = {}) {
  context.font = fontOf(theme, size, weight);
  context.fillStyle = theme[colour] ?? colour;
  context.textAlign = align;
  context.textBaseline = "middle";
  context.fillText(words, x, y);
}

/* The text of axes and legends. */
export const drawNote = (context, theme, words, x, y, align = "left", colour = "ink2") =>
  drawText(context, theme, words, x, y, { size: 12, colour, align });

/* Text on a ground in the page's colour, to be read on curves and points; `reserved` is the weight that the ground fits. */
export function drawOnGround(context, theme, words, x, y, style, reserved = style.weight) {
  const { size, align } = style;
  context.font = fontOf(theme, size, reserved);
  const { width } = context.measureText(words);
  context.globalAlpha = 0.8;
  drawBox(context, theme.page, align === "right" ? x - width : x, y - size / 2, width, size);
  context.globalAlpha = 1;
  drawText(context, theme, words, x, y, style);
}

/* Boxes and lines. */

export function drawBox(context, colour, x, y, width, height) {
  context.fillStyle = colour;
  context.fillRect(x, y, width, height);
}

export function drawFrame(context, colour, thickness, x, y, width, height) {
  context.strokeStyle = colour;
  context.lineWidth = thickness;
  context.strokeRect(x, y, width, height);
}

/** Draw lines, each through its points, as one path. @param {Drawing} context @param {number[][][]} lines */
export function drawPath(context, colour, thickness, ...lines) {
  context.strokeStyle = colour;
  context.lineWidth = thickness;
  context.beginPath();
  for (const points of lines) points.forEach(([x, y], place) => (place ? context.lineTo(x, y) : context.moveTo(x, y)));
  context.stroke();
}

/* A thin horizontal bar from one bound of an interval to the other, if both are known. */
export function drawInterval(context, colour, from, to, y) {
  if (Number.isFinite(from) && Number.isFinite(to)) drawBox(context, colour, from, y - 0.75, Math.max(1, to - from), 1.5);
}

/**
 * Hatch a rectangle, on a ground or over what it shows.
 * @param {Drawing} context @param {Theme} theme
 */
export function drawHatch(context, theme, left, top, width, height, colour = theme.hatch, ground = theme["hatch-ground"]) {
  context.save();
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
  if (ground) drawBox(context, ground, left, top, width, height);
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.beginPath();
  // Hatch where x + y is a multiple of 6, so that adjacent hatched areas join.
  const bottom = top + height;
  for (let sum = Math.floor((left + top) / 6) * 6; sum < left + width + bottom; sum += 6) {
    context.moveTo(sum - bottom, bottom);
    context.lineTo(sum - top, top);
  }
  context.stroke();
  context.restore();
}

/* Points: a light edge keeps them apart. */

/** Draw a mark of lines around (x, y). @param {number[][][]} lines */
export function drawMark(context, theme, colour, thickness, x, y, ...lines) {
  const placed = lines.map((points) => points.map(([dx, dy]) => [x + dx, y + dy]));
  drawPath(context, theme.page, 4, ...placed);
  drawPath(context, colour, thickness, ...placed);
}

export function drawDot(context, theme, colour, x, y, radius) {
  drawDisc(context, theme.page, x, y, radius + 1.5);
  drawDisc(context, colour, x, y, radius);
}

/* A thick circle of half the radius: SvgContext has neither arcs nor filled paths. */
function drawDisc(context, colour, x, y, radius) {
  const r = radius / 2;
  const bend = 0.5523 * r;
  context.strokeStyle = colour;
  context.lineWidth = radius;
  context.beginPath();
  context.moveTo(x + r, y);
  context.bezierCurveTo(x + r, y + bend, x + bend, y + r, x, y + r);
  context.bezierCurveTo(x - bend, y + r, x - r, y + bend, x - r, y);
  context.bezierCurveTo(x - r, y - bend, x - bend, y - r, x, y - r);
  context.bezierCurveTo(x + bend, y - r, x + r, y - bend, x + r, y);
  context.stroke();
}

/* Cells and colours, at one pixel each. */

/** An image whose pixels, one number each, `fill` sets. @param {(pixels: Uint32Array) => void} fill */
export function imageOf(columns, rows, fill) {
  const image = new ImageData(columns, rows);
  fill(new Uint32Array(image.data.buffer));
  return image;
}

/** Paint an image on a canvas of its size. @param {ImageData} image */
export function rasterOf(image, canvas = document.createElement("canvas")) {
  if (canvas.width !== image.width) canvas.width = image.width;
  if (canvas.height !== image.height) canvas.height = image.height;
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

/** The 256 colours of a table, side by side. @param {Table} table @param {HTMLCanvasElement} [canvas] */
export const scaleRaster = (table, canvas) => rasterOf(imageOf(256, 1, (pixels) => pixels.set(table.pixel)), canvas);

/* A scale of colours with labels at both ends and the middle, and its name to the left. */
export function drawColourBar(context, theme, table, left, top, width, labels, name = "") {
  context.drawImage(scaleRaster(table), left, top, width, 10);
  if (name) drawNote(context, theme, name, left - 8, top + 5, "right");
  ["left", "center", "right"].forEach((align, place) => drawNote(context, theme, labels[place], left + (place * width) / 2, top + 20, align));
}

/* Ticks. */

/* Those of the candidates that are at least `least` px apart, ascending; earlier ones have priority. */
export function spacedTicks(candidates, placeOf, least) {
  const chosen = [];
  for (const value of candidates) {
    if (chosen.every((other) => Math.abs(placeOf(value) - placeOf(other)) >= least)) chosen.push(value);
  }
  return chosen.toSorted((a, b) => a - b);
}

/* Round values within a range, about five. */
export function roundTicks(low, high) {
  const power = 10 ** Math.floor(Math.log10((high - low || 1) / 4));
  const step = [1, 2, 5, 10].map((digit) => digit * power).find((size) => (high - low) / size <= 6);
  const found = [];
  for (let at = Math.ceil(low / step); at * step <= high; at++) found.push(Number((at * step).toPrecision(6)));
  return found;
}

/* A grid line from `left`, and the text of its tick `gap` px before it. */
export function drawLevel(context, theme, text, y, left, length, gap) {
  drawBox(context, theme.line, left, y - 0.5, length, 1);
  drawNote(context, theme, text, left - gap, y, "right");
}
