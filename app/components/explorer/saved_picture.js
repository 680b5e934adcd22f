// Renders map, lines or overview to PNG and SVG files.

import { showsLabel, yOf } from "../shared/grid.js";
import { savePicture, withTitle } from "../shared/picture_files.js";
import { cutLabel, drawFrame, drawText, fontOf } from "../shared/plot.js";
import { isOverview, orderMeaning } from "./captions.js";
import { atHead, currentMap, focusOf } from "./focus.js";
import { linesMap, namedQueries, queryY } from "./lines.js";
import { mapOf } from "./maps.js";
import { isSortedInGrid, overviewOf } from "./overview_picture.js";
import { shownGeometry, VIEWS } from "./picture.js";
import { drawThumbnail } from "./raster.js";
import { derivation, mapTitle, pictureTitle } from "./words.js";

/**
 * The picture in view: its size, the space to the left of its origin, and how to draw it.
 * @param {Explorer} explorer
 */
export function viewPicture(explorer) {
  const geometry = shownGeometry(explorer);
  const { still, live } = VIEWS[explorer.view.picture];
  const fed = fedColumn(explorer, geometry);
  return {
    title: `${mapTitle(explorer.data, explorer.view)} \u00b7 ${pictureTitle(explorer.data, explorer.view)}`,
    before: geometry.lines ? 0 : fed.width,
    width: geometry.width + fed.width,
    height: geometry.height,
    draw: (context) => {
      still?.(context, explorer, geometry);
      live(context, explorer, geometry);
      fed.draw(context);
    },
  };
}

const FED_LIMIT = 150;

/**
 * The column of fed-in tokens, which a file needs because the sentence rows are missing: left of the map's rows, or
 * right of the lines.
 * @param {Explorer} explorer
 */
function fedColumn(explorer, geometry) {
  const { theme } = explorer;
  const { kind } = explorer.view;
  if (kind === "encoder") return { width: 0, draw: () => {} };
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
  const rows = explorer.dom.thumbnails.length / (data.heads + 1);
  return {
    title: `Every layer and head${isSortedInGrid(explorer) ? `, by the ${orderMeaning(explorer)}` : ""} \u00b7 ${pictureTitle(explorer.data, explorer.view)}`,
    width: 40 + (data.heads + 1) * (TILE + 10),
    height: rows * (TILE + 30) + 8,
    draw: (context) => {
      overviewOf(explorer).cells.forEach(({ exists, layer, head, word, mark, number }, index) => {
        if (!exists) return;
        const x = 36 + (index % (data.heads + 1)) * (TILE + 10);
        const y = 12 + Math.floor(index / (data.heads + 1)) * (TILE + 30);
        const map = mapOf(data, atHead(explorer.view, layer, head));
        drawThumbnail(context, map, theme, hide, { left: x, top: y, size: TILE });
        drawFrame(context, theme.line, 1, x - 0.5, y - 0.5, TILE + 1, TILE + 1);
        const place = [layer === data.layers[explorer.view.kind] ? "all" : layer + 1, head === data.heads ? "all" : head + 1];
        // While sorted, the caption already names the head.
        const name = isSortedInGrid(explorer) && !isOverview(explorer, layer, head) ? word : `${place.join(".")}  ${word}${mark}`;
        context.font = fontOf(theme, 11);
        const room = TILE - context.measureText(number).width - 6;
        drawText(context, theme, cutLabel(context, name, room), x, y + TILE + 9, { size: 11, colour: "ink2" });
        drawText(context, theme, number, x + TILE, y + TILE + 9, { size: 11, colour: "ink2", align: "right" });
      });
    },
  };
}

/** Save a picture that `viewPicture` or `overviewPicture` describes. @param {Explorer} explorer */
export function saveView(explorer, name, ending, described) {
  const { sourceText, translation } = explorer.data;
  const about = [...aboutLines(explorer), sourceText, translation].join("\n");
  const frame = { margin: 12, above: 34, style: { size: 13, colour: "ink2" }, isCut: true };
  return savePicture(name, ending, withTitle({ theme: explorer.theme, about, ...described }, frame));
}

/**
 * Name of a row: in decoder and cross-attention, the token fed in, then the token produced.
 * @param {Explorer} explorer
 */
export function rowName(explorer, row) {
  return explorer.view.kind === "encoder" ? row.label : `${fedIn(explorer, row)} \u2192 ${row.label}`;
}

const fedIn = ({ data }, { members }) => members.map((index) => data.sides.fed[index].label).join(" ");

/** Provenance lines of every file: model, record and precision. @param {Explorer} explorer */
export function aboutLines(explorer) {
  const { data } = explorer;
  const weights = data.weightsSha256 ? ` (weights ${data.weightsSha256.slice(0, 8)})` : "";
  return [
    [`${data.model}${weights}`, `${data.sourceLanguage} to ${data.targetLanguage}`, data.search].filter(Boolean).join(", "),
    `record ${data.sentence}, ${precisionOf(explorer)}`,
  ];
}

/** @param {Explorer} explorer */
function precisionOf(explorer) {
  const { error } = currentMap(explorer);
  const how = derivation(explorer.data, explorer.view);
  const numbers = error ? `numbers rounded, at most ${error.toPrecision(1)} off` : "32-bit numbers as recorded";
  return how ? `derived, ${how}, from ${numbers}` : numbers;
}
