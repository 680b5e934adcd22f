// Renders map, lines or overview to PNG, SVG and PDF files.

import { showsLabel, yOf } from "../shared/grid.js";
import { savePicture, withTitle } from "../shared/picture_files.js";
import { cutLabel, drawFrame, drawText, fontOf } from "../shared/plot.js";
import { aboutLines } from "./about.js";
import { isOverview, orderMeaning } from "./captions.js";
import { chosenFigure, completed, figureGeometry, partOf, POINTS_PER_MM } from "./figure.js";
import { atHead, currentMap, focusOf } from "./focus.js";
import { linesMap, namedQueries, queryY } from "./lines.js";
import { mapOf } from "./maps.js";
import { isSortedInGrid, overviewOf } from "./overview_picture.js";
import { VIEWS } from "./picture.js";
import { drawThumbnail } from "./raster.js";
import { mapTitle, pictureTitle } from "./words.js";

/**
 * The picture in view: its size, the space to the left of its origin, and how to draw it.
 * @param {Explorer} explorer
 */
export function viewPicture(explorer) {
  const figure = chosenFigure(explorer);
  const fedOf = (geometry) => (figure.labels || geometry.lines ? fedColumn(explorer, geometry) : NO_COLUMN);
  const geometry = figureGeometry(explorer, figure, (laid) => fedOf(laid).width);
  const { still, live } = VIEWS[explorer.view.picture];
  const fed = fedOf(geometry);
  const [left, top, right, bottom] = geometry.lines ? [0, 0, geometry.width, geometry.height] : partOf(figure, geometry);
  return completed(explorer, figure, {
    theme: explorer.theme,
    title: `${mapTitle(explorer.data, explorer.view)} \u00b7 ${pictureTitle(explorer.data, explorer.view)}`,
    before: geometry.lines ? 0 : fed.width - left,
    width: right - left + fed.width,
    height: bottom - top,
    draw: (context) => {
      if (top) context.translate(0, -top);
      still?.(context, explorer, geometry);
      live(context, explorer, geometry);
      fed.draw(context);
    },
  });
}

/** @type {{width: number, draw: (context: Drawing) => void}} */
const NO_COLUMN = { width: 0, draw: () => {} };

const FED_LIMIT = 150;

/**
 * The column of fed-in tokens, which a file needs because the sentence rows are missing: left of the map's rows, or
 * right of the lines.
 * @param {Explorer} explorer
 */
function fedColumn(explorer, geometry) {
  const { theme } = explorer;
  const { kind } = explorer.view;
  if (kind === "encoder") return NO_COLUMN;
  const measuring = explorer.dom.base.getContext("2d");
  const { size, places } = geometry.lines ? fedBesideLines(explorer, geometry) : fedBesideMap(explorer, geometry);
  measuring.font = fontOf(theme, size);
  const words = currentMap(explorer).rows.map((row) => cutLabel(measuring, fedIn(explorer, row), FED_LIMIT));
  const widths = [...words, "fed in"].map((shown) => measuring.measureText(shown).width);
  const arrow = 20;
  const [align, start, step] = geometry.lines ? ["left", geometry.width, 1] : ["right", 0, -1];
  const sign = geometry.lines ? "\u2190" : "\u2192";
  const draw = (context) => {
    drawText(context, theme, "fed in", start + step * arrow, geometry.lines ? 12 : geometry.top - 12, { colour: "ink2", align });
    for (const [query, y] of places) {
      drawText(context, theme, sign, start + (step * arrow) / 2, y, { size, colour: "ink3", align: "center" });
      drawText(context, theme, words[query], start + step * arrow, y, { size, colour: "ink2", align });
    }
  };
  return { width: Math.ceil(Math.max(...widths)) + arrow, draw };
}

/** The labelled rows with their y positions. @param {Explorer} explorer */
function fedBesideMap(explorer, geometry) {
  const { first, shown, every, fontSize } = geometry;
  const { query: focused } = focusOf(explorer);
  const rows = [...Array(shown.queries).keys()].map((row) => first.query + row);
  const named = rows.filter((query) => showsLabel(query, every, focused));
  return { size: fontSize, places: named.map((query) => [query, yOf(geometry, query + 0.5) + 1]) };
}

/** @param {Explorer} explorer */
function fedBesideLines(explorer, geometry) {
  const { query, key } = focusOf(explorer);
  const named = namedQueries(linesMap(explorer), geometry, query, key);
  return { size: geometry.fontSize, places: [...named].map((place) => [place, queryY(geometry, place) + 1]) };
}

const TILE = 84;

/** @param {Explorer} explorer */
export function overviewPicture(explorer) {
  const { data, theme } = explorer;
  const { hide } = explorer.view;
  const across = data.heads + 1;
  const { cells } = overviewOf(explorer);
  const used = cells.flatMap(({ exists }, index) => (exists ? [index] : []));
  const columns = 1 + Math.max(...used.map((index) => index % across));
  const rows = 1 + Math.max(...used.map((index) => Math.floor(index / across)));
  const figure = chosenFigure(explorer);
  const width = 40 + columns * (TILE + 10);
  const font = figure.mm ? (figure.points * (width + 24)) / (figure.mm * POINTS_PER_MM) : 11;
  return completed(explorer, figure, {
    theme,
    title: `Every layer and head${isSortedInGrid(explorer) ? `, by the ${orderMeaning(explorer)}` : ""} \u00b7 ${pictureTitle(explorer.data, explorer.view)}`,
    width,
    height: rows * (TILE + 19 + font) + 8,
    draw: (context) => {
      cells.forEach(({ exists, layer, head, word, mark, number }, index) => {
        if (!exists) return;
        const x = 36 + (index % across) * (TILE + 10);
        const y = 12 + Math.floor(index / across) * (TILE + 19 + font);
        const map = mapOf(data, atHead(explorer.view, layer, head));
        drawThumbnail(context, map, theme, hide, { left: x, top: y, size: TILE });
        drawFrame(context, theme.line, 1, x - 0.5, y - 0.5, TILE + 1, TILE + 1);
        if (!figure.labels) return;
        const place = [layer === data.layers[explorer.view.kind] ? "all" : layer + 1, head === data.heads ? "all" : head + 1];
        // While sorted, the caption already names the head.
        const name = isSortedInGrid(explorer) && !isOverview(explorer, layer, head) ? word : `${place.join(".")}  ${word}${mark}`;
        context.font = fontOf(theme, font);
        const room = TILE - context.measureText(number).width - 6;
        drawText(context, theme, cutLabel(context, name, room), x, y + TILE + 3.5 + font / 2, { size: font, colour: "ink2" });
        drawText(context, theme, number, x + TILE, y + TILE + 3.5 + font / 2, { size: font, colour: "ink2", align: "right" });
      });
    },
  }, true);
}

/** Save a picture that `viewPicture` or `overviewPicture` describes. @param {Explorer} explorer */
export function saveView(explorer, name, ending, described) {
  const { sourceText, translation } = explorer.data;
  const about = [...aboutLines(explorer), sourceText, translation].join("\n");
  const { title, mm } = chosenFigure(explorer);
  const frame = { margin: 12, above: title ? 34 : 0, style: title ? { size: 13, colour: "ink2" } : null, isCut: true };
  return savePicture(name, ending, withTitle({ about, mm, ...described }, frame));
}

/**
 * Name of a row: in decoder and cross-attention, the token fed in, then the token produced.
 * @param {Explorer} explorer
 */
export function rowName(explorer, row) {
  return explorer.view.kind === "encoder" ? row.label : `${fedIn(explorer, row)} \u2192 ${row.label}`;
}

const fedIn = ({ data }, { members }) => members.map((index) => data.sides.fed[index].label).join(" ");
