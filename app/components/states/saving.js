// Saves the grids and the curve as pictures, and their numbers as CSV.

import { csvOf } from "../shared/csv.js";
import { element } from "../shared/dom.js";
import { between } from "../shared/numbers.js";
import { savePicture, withCaption, withTitle } from "../shared/picture_files.js";
import { cutLabel, drawBox, drawFrame, drawText, fontOf } from "../shared/plot.js";
import { save } from "../shared/save.js";
import { fillSaves } from "../shared/saves.js";

/* px */
const CELL = { height: 26, gap: 2, least: 30, most: 110 };
const HEAD = 28; // of a grid: its columns' words
const BETWEEN = 14; // two grids

const TITLE = { size: 14, weight: 600 };

/** px of the widest text */
function widestOf(theme, { size, weight }, texts) {
  const measuring = document.createElement("canvas").getContext("2d");
  measuring.font = fontOf(theme, size, weight);
  return Math.max(...texts.map((text) => measuring.measureText(text).width));
}

/** What is shown beside a picture: the edit in words, and each sentence with its translation. @param {StatesView} view */
function aboutOf({ parts, data }) {
  const sentences = data.mode === "copy" ? [data.donor, data.receiver] : [{ source: data.source, translation: data.before }];
  return [parts.say.textContent, ...sentences.map(({ name, source, translation }) => `${name ? `${name}: ` : ""}${source} \u2192 ${translation}`)].join(" ");
}

/**
 * The save menu of a picture.
 * @param {StatesView} view @param {string} name  of its file @param {string} title
 * @param {() => {width: number, height: number, draw: (context: Drawing) => void}} drawn
 * @param {() => (string | number)[][]} lines  of the CSV, headings first
 */
export function saveMenu(view, name, title, drawn, lines) {
  const menu = element("details", "saves");
  const file = `headlight_states_${name}`;
  const saveAs = (ending, captioned) => {
    if (ending === "csv") return save(`${file}.csv`, csvOf(lines()));
    const { width, ...made } = drawn();
    const picture = { theme: view.theme, title, about: aboutOf(view), ...made, width: Math.max(width, Math.ceil(widestOf(view.theme, TITLE, [title]))) };
    const whole = captioned ? withCaption(picture, `${title}. ${picture.about}`) : picture;
    return savePicture(file, ending, withTitle(whole, { margin: 16, above: 28, style: TITLE }));
  };
  fillSaves(menu, title, saveAs, `${name} `);
  return menu;
}

/** The save menu of grids, one below the other; the cells' `line` is that of the CSV. @param {StateGrid[]} grids */
export function saveGridsMenu(view, name, title, headings, ...grids) {
  return saveMenu(view, name, title, () => pictureOf(view, grids), () => [headings, ...grids.flatMap(({ cells }) => cells.flat().map(({ line }) => line))]);
}

/** @param {StatesView} view @param {StateGrid[]} grids */
function pictureOf({ theme }, grids) {
  const widest = (texts) => widestOf(theme, { size: 13, weight: 650 }, texts);
  const names = widest(grids.flatMap(({ rows, corner = "" }) => [...rows, corner])) + 10;
  const texts = grids.flatMap(({ columns, cells }) => [...columns, ...cells.flat()].map(({ text }) => text));
  const cell = Math.ceil(between(CELL.least, widest(texts) + 10, CELL.most));
  const widths = grids.map(({ columns }) => names + columns.length * (cell + CELL.gap));
  const tops = [0];
  for (const { rows } of grids) tops.push(tops.at(-1) + HEAD + rows.length * (CELL.height + CELL.gap) + BETWEEN);
  const width = Math.max(...widths);
  const draw = (context) => grids.forEach((grid, place) => drawStates(context, theme, grid, { top: tops[place], width, names, cell }));
  return { width, height: tops.at(-1) - BETWEEN, draw };
}

/** @param {Drawing} context @param {Theme} theme @param {StateGrid} grid */
function drawStates(context, theme, grid, { top, width, names, cell }) {
  const { dir, corner = "", rows, columns, cells } = grid;
  const isMirrored = dir === "rtl";
  const left = (column) => {
    const x = names + column * (cell + CELL.gap);
    return isMirrored ? width - x - cell : x;
  };
  const write = (text, column, y, style) => {
    context.font = fontOf(theme, 13, style.weight);
    drawText(context, theme, cutLabel(context, text, cell - 4), left(column) + cell / 2, y, { ...style, align: "center" });
  };
  const name = (text, y, style) => drawText(context, theme, text, isMirrored ? width : 0, y, { ...style, align: isMirrored ? "right" : "left" });
  name(corner, top + HEAD / 2, { size: 15, weight: 650 });
  columns.forEach(({ text, strong }, column) => write(text, column, top + HEAD / 2, { weight: strong ? 650 : 400 }));
  rows.forEach((row, place) => {
    const y = top + HEAD + place * (CELL.height + CELL.gap);
    name(row, y + CELL.height / 2, { colour: "ink2" });
    cells[place].forEach(({ text, ground, opacity = 1, ink = "ink", looks }, column) => {
      const box = [left(column), y, cell, CELL.height];
      context.globalAlpha = opacity;
      if (ground) drawBox(context, ground, ...box);
      context.globalAlpha = 1;
      const frame = { goal: theme.wrong, source: theme.ink, none: theme.line }[looks.split(" ")[0]];
      if (frame) drawFrame(context, frame, looks === "none" ? 1 : 2, box[0] + 1, y + 1, cell - 2, CELL.height - 2);
      write(text, column, y + CELL.height / 2, { colour: ink, weight: /goal|changed/.test(looks) ? 650 : 400 });
    });
  });
}
