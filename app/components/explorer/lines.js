// Draws a head as lines between two columns of tokens: the fewest that cover most of each row's weight.

import { labelsOf, widest } from "../shared/grid.js";
import { drawBox, drawFrame, drawNote, drawPath, drawText, fontOf } from "../shared/plot.js";
import { rampStep } from "../shared/theme.js";
import { currentMap, focusOf } from "./focus.js";
import { longWords } from "./map.js";
import { isMasked, isSigned, mapOf, rampOf, shadeOf, shareOf, valueAt, WEIGHTS } from "./maps.js";
import { hiddenMass, isHidden, smallestSet } from "./measures.js";
import { mapFigure, QUANTITIES, summedFigure } from "./words.js";

/** Scores and changes are not shares of a row: show the corresponding weights instead. @param {Explorer} explorer */
export function linesMap(explorer) {
  return isSigned(explorer.view.quantity) ? mapOf(explorer.data, { ...explorer.view, quantity: WEIGHTS }) : currentMap(explorer);
}

/** @param {Explorer} explorer */
function linesOf(explorer) {
  const map = linesMap(explorer);
  const name = `${explorer.view.mass} ${[...explorer.view.hide]}`;
  if (map.lines?.name !== name) map.lines = { name, ...smallestSet(map, explorer.view.hide, explorer.view.mass / 100) };
  return map.lines;
}

const LINES_CHOICE_HEIGHT = 44; // two rows on a narrow screen

const LINES_MARGIN = 46;

const leastPitch = (room) => (room < 460 ? 10 : 7);

/* Minimum height of the lines for the longer sentence, slider included. */
export function leastLinesHeight({ data: { sides }, layout: { room } }) {
  const count = Math.max(sides.source.length, sides.produced.length);
  return count * leastPitch(room) + LINES_MARGIN + LINES_CHOICE_HEIGHT;
}

/**
 * Geometry of the lines view: both columns are centred vertically, each with its own pitch.
 * @param {Explorer} explorer
 */
export function linesGeometry(explorer) {
  const { theme } = explorer;
  const { parts } = explorer.dom;
  const map = linesMap(explorer);
  const { room } = explorer.layout;
  const small = room < 460;
  const count = Math.max(map.queries, map.keys);
  // At most as tall as the map it replaces; if space is short, only every n-th token is labelled.
  const space = Math.min(small ? 560 : 540, explorer.layout.tallest - LINES_CHOICE_HEIGHT - LINES_MARGIN);
  const pitch = Math.max(leastPitch(room), Math.min(30, Math.floor(space / count)));
  const fontSize = Math.max(11, Math.min(small ? 14 : 17, pitch - 3));
  const context = parts.map.getContext("2d");
  context.font = fontOf(theme, fontSize, 650);
  const limit = small ? 110 : 200;
  const keyLabels = labelsOf(context, map.columns, limit);
  const queryLabels = labelsOf(context, map.rows, limit);
  const hidden = explorer.view.hide.size && !small ? 64 : 0;
  const [keyRoom, queryRoom] = [widest(keyLabels) + 30, widest(queryLabels) + 30 + hidden];
  const width = Math.min(room, Math.max(small ? room : 620, keyRoom + queryRoom + 240));
  const start = small ? 0 : Math.round((room - width) * 0.3);
  const top = 34;
  const pitchOf = (items) => Math.min(30, Math.max(pitch, (count * pitch) / items));
  const pitches = { key: pitchOf(map.keys), query: pitchOf(map.queries) };
  const firstOf = (items, of) => top + (count * pitch - items * of) / 2;
  return {
    lines: true,
    small,
    fontSize,
    keyLabels,
    queryLabels,
    pitches,
    every: { key: everyLabel(fontSize, pitches.key), query: everyLabel(fontSize, pitches.query) },
    firsts: { key: firstOf(map.keys, pitches.key), query: firstOf(map.queries, pitches.query) },
    left: start + keyRoom + 14,
    right: start + width - queryRoom - 14,
    width: room,
    height: count * pitch + LINES_MARGIN,
  };
}

const everyLabel = (fontSize, pitch) => Math.max(1, Math.ceil((fontSize * 0.92) / pitch));

const keyY = ({ firsts, pitches }, key) => firsts.key + (key + 0.5) * pitches.key;

export const queryY = ({ firsts, pitches }, query) => firsts.query + (query + 0.5) * pitches.query;

export function lineAt(geometry, x, y) {
  const { left, right, firsts, pitches, keyLabels, queryLabels } = geometry;
  const key = Math.floor((y - firsts.key) / pitches.key);
  const query = Math.floor((y - firsts.query) / pitches.query);
  if (x < (left + right) / 2) return key >= 0 && key < keyLabels.length ? { query: null, key } : null;
  return query >= 0 && query < queryLabels.length ? { query, key: null } : null;
}

function drawLine(context, theme, geometry, map, [query, key, value], faint) {
  const { left, right } = geometry;
  const [from, to, bend] = [keyY(geometry, key), queryY(geometry, query), (right - left) * 0.42];
  const share = Math.min(1, shareOf(map, value));
  context.beginPath();
  context.moveTo(left, from);
  context.bezierCurveTo(left + bend, from, right - bend, to, right, to);
  context.lineWidth = 0.7 + 3.6 * share;
  // Start a fifth of the way up the scale, so that the thinnest line is visible.
  context.strokeStyle = theme.ramp.css[rampStep(0.22 + 0.78 * share)];
  context.globalAlpha = faint ? 0.13 : 1;
  context.stroke();
  context.globalAlpha = 1;
}

/** @param {Drawing} context @param {Explorer} explorer */
function drawEnds(context, explorer, geometry) {
  const { theme, data } = explorer;
  const { kind } = explorer.view;
  const { left, right, width } = geometry;
  const language = kind === "encoder" ? data.sourceLanguage : data.targetLanguage;
  const keys = `key: ${kind === "decoder" ? data.targetLanguage : data.sourceLanguage}`;
  const queries = `query: ${language}, being ${kind === "encoder" ? "read" : "produced"}`;
  context.font = fontOf(theme, 13);
  const ends = Math.max(left - 8, context.measureText(keys).width + 1);
  const starts = Math.min(right + 8, width - context.measureText(queries).width - 1);
  drawText(context, theme, keys, ends, 12, { colour: "ink2", align: "right" });
  drawText(context, theme, queries, starts, 12, { colour: "ink2" });
}

/** @param {Drawing} context @param {Explorer} explorer */
export function drawLines(context, explorer, geometry) {
  drawEnds(context, explorer, geometry);
  const { theme } = explorer;
  const { hide } = explorer.view;
  const { left, right, small } = geometry;
  const map = linesMap(explorer);
  const { query, key } = focusOf(explorer);
  const any = query !== null || key !== null;
  const belongs = ([q, k]) => (query === null || q === query) && (key === null || k === key || query !== null);
  const lines = linesOf(explorer).lines.toSorted((a, b) => a[2] - b[2]);
  if (any) for (const line of lines) if (!belongs(line)) drawLine(context, theme, geometry, map, line, true);
  for (const line of lines) if (belongs(line)) drawLine(context, theme, geometry, map, line, false);

  const number = (value, x, y, align) => drawNote(context, theme, mapFigure(map, value, 2), x, y, align, "ink");
  const enough = enoughOf(map);
  const keyValue = (k) =>
    query !== null && !isHidden(map, k, hide) && !isMasked(map, query, k) ? valueAt(map, query, k) : null;
  const keyNames = namesShown(map.keys, (k) => keyValue(k) >= enough, geometry.every.key, key);
  for (const k of inFront(map.keys, keyValue, key)) {
    const hidden = isHidden(map, k, hide);
    const value = keyValue(k);
    const y = keyY(geometry, k);
    drawChip(context, theme, geometry, map, geometry.keyLabels[k], left - 8, y, geometry.pitches.key, "right", {
      value,
      named: keyNames.has(k),
      focused: k === key,
      hidden,
    });
    if (value !== null && value >= enough) number(value, left + 6, y - Math.max(8, geometry.pitches.key * 0.32), "left");
  }
  const queryValue = valueOfQuery(map, query, key);
  const queryNames = namedQueries(map, geometry, query, key);
  for (const q of inFront(map.queries, queryValue, query)) {
    const value = queryValue(q);
    const y = queryY(geometry, q);
    const end = drawChip(context, theme, geometry, map, geometry.queryLabels[q], right + 8, y, geometry.pitches.query, "left", {
      value,
      named: queryNames.has(q),
      focused: q === query,
      hidden: false,
    });
    if (value !== null && value >= enough) number(value, right - 6, y - Math.max(8, geometry.pitches.query * 0.32), "right");
    const mass = q === query && hide.size && !small ? hiddenMass(map, hide, q) : 0;
    if (mass > 0) drawNote(context, theme, `hidden ${summedFigure(map, mass, map.columns.filter((_, k) => isHidden(map, k, hide)).length)}`, end + 8, y);
  }
  drawBrackets(context, theme, geometry);
}

/** The smallest value that is printed. @param {AttentionMap} map */
const enoughOf = (map) => 0.05 * map.hi;

/** Value of a query's cell in the focused column, if only a column is focused. @param {AttentionMap} map */
const valueOfQuery = (map, query, key) => (q) =>
  query === null && key !== null && !isMasked(map, q, key) ? valueAt(map, q, key) : null;

/** @param {AttentionMap} map */
export function namedQueries(map, geometry, query, key) {
  const valueOf = valueOfQuery(map, query, key);
  return namesShown(map.queries, (q) => valueOf(q) >= enoughOf(map), geometry.every.query, query);
}

/* Indices to label: the focused one, those that matter, and other multiples of `every` that have space. */
function namesShown(count, matters, every, focused) {
  const places = [...Array(count).keys()];
  const first = places.filter((place) => place === focused || matters(place));
  const free = (place) => place % every === 0 && first.every((other) => Math.abs(place - other) >= every);
  return new Set([...first, ...places.filter(free)]);
}

/* Return the places in drawing order: larger values later, so that they cover smaller ones, and the focused place last. */
function inFront(count, valueOf, focused) {
  const rank = (place) => (place === focused ? Infinity : valueOf(place));
  return [...Array(count).keys()].toSorted((a, b) => rank(a) - rank(b));
}

/* Draw a token on the colour of its value, with its label if it is `named`. Returns the x at which it ends. */
function drawChip(context, theme, geometry, map, label, x, y, pitch, align, { value, named, focused, hidden }) {
  const { token } = label;
  const size = token.special ? Math.max(10.5, geometry.fontSize - 2) : geometry.fontSize;
  const number = token.repeated ? 14 : 0;
  const step = value === null ? null : shadeOf(map, value);
  const shaded = step !== null;
  let wide = 0;
  // Measuring costs more than drawing: measure only what has a background or a number.
  if (shaded || focused || token.repeated) {
    context.font = fontOf(theme, size, focused ? 650 : 400);
    wide = context.measureText(label.text).width + number + 6;
  }
  const start = align === "right" ? x - wide + 3 : x - 3;
  const high = named && (shaded || focused) ? Math.max(pitch, size + 5) : pitch;
  if (shaded || focused) drawBox(context, shaded ? rampOf(theme, map).css[step] : theme.page, start, y - high / 2 + 1, wide, high - 2);
  if (focused) drawFrame(context, theme.ink, 1.5, start + 0.5, y - high / 2 + 1.5, wide - 1, high - 3);
  if (!named) return start + wide;
  const colour = shaded ? rampOf(theme, map).ink[step] : token.special || hidden ? "ink3" : "ink";
  const weight = focused ? 650 : 400;
  drawText(context, theme, label.text, align === "right" ? x - number : x, y + 1, { size, weight, colour, align });
  const small = { size: Math.min(11, size - 1), colour: shaded ? colour : "ink3", align: "left" };
  if (token.repeated) drawText(context, theme, token.number, start + wide - number, y + Math.min(4, size / 5), small);
  return start + wide;
}

/** @param {Drawing} context @param {Theme} theme */
function drawBrackets(context, theme, geometry) {
  const { left, right, keyLabels, queryLabels, pitches } = geometry;
  const bracket = (x, yAt, pitch) => ([first, last]) => [[x, yAt(geometry, first) - pitch / 2 + 3], [x, yAt(geometry, last) + pitch / 2 - 3]];
  const ofKeys = longWords(keyLabels).map(bracket(left - 3.5, keyY, pitches.key));
  const ofQueries = longWords(queryLabels).map(bracket(right + 3.5, queryY, pitches.query));
  drawPath(context, theme.ink2, 1, ...ofKeys, ...ofQueries);
}

/** @param {Explorer} explorer */
export function paintLinesNote(explorer) {
  const { mass, unit, picture } = explorer.view;
  const { parts } = explorer.dom;
  parts["lines-choice"].hidden = picture !== "lines";
  if (picture !== "lines") return;
  const { lines, unmasked } = linesOf(explorer);
  parts.mass.value = mass;
  parts["mass-value"].textContent = `${mass}\u00a0%`;
  const token = unit === "words" ? "word" : "token";
  const shown = explorer.view.hide.size ? "visible " : "";
  const name = QUANTITIES[linesMap(explorer).quantity].name;
  parts["lines-count"].textContent = `of each ${token}\u2019s ${shown}${name}: ${lines.length} lines for ${unmasked} ${shown}unmasked cells`;
}
