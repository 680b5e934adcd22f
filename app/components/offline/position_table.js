// Draws the position encodings of a sentence: one row for each token, one column for each dimension.

import { element } from "../shared/dom.js";
import { labelsOf, widest } from "../shared/grid.js";
import { exactly, scientific } from "../shared/numbers.js";
import { onNewSize } from "../shared/mounts.js";
import { drawColourBar, drawNote, drawText, fontOf, imageOf, prepareCanvas, rasterOf, sizeCanvas } from "../shared/plot.js";
import { readTheme, signedStep } from "../shared/theme.js";

const ROW = 20;

const LONGEST_NAME = 96;

const MARGIN = { top: 24, foot: 40, gap: 8 };

/** A canvas with a readout, and the function that paints encodings [token, dimension] on it. */
export function positionTable() {
  const figure = element("figure", "position-table");
  const canvas = element("canvas");
  const readout = element("p", "readout numbers");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", "Position encodings: one row for each token, one column for each dimension");
  figure.append(readout, canvas);
  let shown = null;
  /* `sinusoidal`: even dimensions are sines, odd ones cosines. */
  const paint = (names, values, sinusoidal) => {
    shown = { names, values, sinusoidal, width: values.length / names.length };
    layOut();
  };
  let geometry = null;
  const layOut = () => {
    if (shown && figure.clientWidth) geometry = drawTable(canvas, figure, shown);
    say(null);
  };
  const say = (cell) => {
    readout.textContent = "Point at a cell to read its value.";
    if (!cell) return;
    const { names, values, sinusoidal, width } = shown;
    const wave = sinusoidal ? ` (${cell.column % 2 ? "cosine" : "sine"})` : "";
    const value = exactly(values[cell.row * width + cell.column]);
    readout.textContent = `${names[cell.row]}, pos ${cell.row}, dimension ${cell.column}${wave}: ${value}`;
  };
  canvas.addEventListener("pointermove", ({ offsetX, offsetY }) => say(geometry && cellAt(geometry, offsetX, offsetY)));
  canvas.addEventListener("pointerleave", () => say(null));
  onNewSize(figure, layOut);
  return { figure, paint };
}

function cellAt({ left, cellWidth, rows, columns }, x, y) {
  const [row, column] = [Math.floor((y - MARGIN.top) / ROW), Math.floor((x - left) / cellWidth)];
  return row >= 0 && row < rows && column >= 0 && column < columns ? { row, column } : null;
}

function drawTable(canvas, figure, { names, values, width }) {
  const theme = /** @type {Theme} */ (readTheme(figure.closest(".lessons")));
  const measuring = canvas.getContext("2d");
  measuring.font = fontOf(theme, 13);
  const labels = labelsOf(measuring, names.map((label) => ({ label })), LONGEST_NAME);
  const left = Math.ceil(widest(labels)) + MARGIN.gap;
  const room = figure.clientWidth - left - 2;
  const height = MARGIN.top + ROW * names.length + MARGIN.foot;
  sizeCanvas(canvas, figure.clientWidth, height);
  const context = prepareCanvas(canvas, figure.clientWidth, height);
  const limit = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0) || 1;
  const { pixel } = theme.signed;
  const image = imageOf(width, names.length, (pixels) => values.forEach((value, cell) => (pixels[cell] = pixel[signedStep(value / limit)])));
  context.imageSmoothingEnabled = false;
  context.drawImage(rasterOf(image), left, MARGIN.top, room, ROW * names.length);
  drawNote(context, theme, `dimension 0 to ${width - 1}`, left, 10);
  labels.forEach(({ text }, row) => drawText(context, theme, text, left - MARGIN.gap, MARGIN.top + (row + 0.5) * ROW, { align: "right" }));
  drawColourBar(context, theme, theme.signed, left, MARGIN.top + ROW * names.length + 10, 160, [-limit, 0, limit].map(scientific));
  return { left, cellWidth: room / width, rows: names.length, columns: width };
}
