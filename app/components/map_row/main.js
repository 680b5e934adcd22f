// Mounts a row of maps that share layer, head and focused cell; handles pointer and keyboard.

import { sameBytes, unpack } from "../shared/bytes.js";
import { element, partsOf, pointIn, segmentOf } from "../shared/dom.js";
import { NO_CELL, placeAt, samePlace } from "../shared/grid.js";
import { ARROWS } from "../shared/keys.js";
import { lastStates, mounts, onceFontsCome, onNewSize } from "../shared/mounts.js";
import { between, exactly } from "../shared/numbers.js";
import { copyBase, prepareCanvas, sizeCanvas } from "../shared/plot.js";
import { onceSettled, screenOf } from "../shared/presented.js";
import { fillSaves } from "../shared/saves.js";
import { renewTheme } from "../shared/theme.js";
import { tokenName } from "../shared/tokens.js";
import { writeParameters } from "../shared/url.js";
import { drawLive, drawStill, focusOf, GAP, rowGeometry } from "./drawing.js";
import { decodeRow, mapAt, noteOf } from "./numbers.js";
import { headingOf, saveRow } from "./saving.js";

/* px above maps: Streamlit's header, and the readout. */
const HEADER = 120;

function createView(parent, key) {
  const root = parent.querySelector(".map-row");
  const parts = partsOf(root);
  const { layer, head } = lastStates.get(key) ?? { layer: 0, head: 0 };
  /** @type {RowView} */
  const view = {
    key,
    root,
    pathname: window.location.pathname,
    parts,
    bytes: null,
    data: null,
    theme: null,
    layer,
    head,
    pinned: NO_CELL,
    preview: NO_CELL,
    maps: [],
    geometry: null,
    size: "",
    painted: 0,
  };
  for (const name of ["layer", "head"]) {
    parts[`${name}s`].addEventListener("change", (event) => choose(view, { [name]: Number(event.target.value) }));
  }
  fillSaves(parts.saves, "the maps in view", (ending, captioned) => saveRow(view, ending, captioned));
  listenToMaps(view);
  const check = () => {
    // Skip hidden tabs: they have no width.
    if (view.data && root.clientWidth && sizeOf(view) !== view.size) layOut(view);
  };
  onceFontsCome(root, () => layOut(view));
  view.destroy = onNewSize(root, check);
  return view;
}

/**
 * Apply new data: keep layer and head where possible, and the pinned cell if the tokens are the same.
 * @param {RowView} view
 */
function applyData(view, bytes) {
  const data = decodeRow(unpack(bytes));
  const wordsOf = (row) => JSON.stringify([row?.queries, row?.keys]);
  if (wordsOf(data) !== wordsOf(view.data)) view.pinned = NO_CELL;
  Object.assign(view, { bytes, data, preview: NO_CELL });
  if (data.pinned) view.pinned = { query: data.pinned[0], key: data.pinned[1] };
  if (data.opened && data.opened.turn !== lastStates.get(view.key)?.turn) setHead(view, data.opened);
  view.layer = between(0, view.layer, data.layers.length - 1);
  view.head = between(0, view.head, data.heads - 1);
  fillSegments(view, "layer", data.layers);
  fillSegments(view, "head", [...Array(data.heads).keys()]);
  view.maps = data.maps.map(({ name }) => {
    const figure = element("figure", "map");
    const [note, box, canvas] = [element("p", "note"), element("div", "box"), element("canvas", "")];
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "application"); // so that screen readers pass arrow keys through
    canvas.setAttribute("aria-label", `${name}. Arrow keys walk from cell to cell in all maps, Enter pins one, Escape unpins.`);
    box.append(canvas);
    figure.append(element("p", "name", name), note, box);
    return { figure, note, canvas, base: document.createElement("canvas"), map: null };
  });
  view.parts.maps.replaceChildren(...view.maps.map(({ figure }) => figure));
}

/* The key in the group's name keeps two rows of maps on one page from sharing a group. */
function fillSegments({ parts, key, ...view }, name, places) {
  const segments = places.map((shown, place) =>
    segmentOf(shown + 1, { name: `${key} ${name}`, value: place, checked: place === view[name], ariaLabel: `${name} ${shown + 1}` }));
  parts[`${name}s`].replaceChildren(...segments);
  parts[`${name}s`].parentElement.hidden = places.length < 2;
}

/** @param {RowView} view */
function choose(view, choice) {
  setHead(view, { ...view, ...choice });
  paintHead(view);
}

/* Remember the `turn` in which Python chose the head: until it changes, the visitor's later choice stays. */
function setHead(view, { layer, head, turn = lastStates.get(view.key)?.turn }) {
  Object.assign(view, { layer, head });
  lastStates.set(view.key, { layer, head, turn });
}

function keepInAddress({ data, layer, head, pathname }) {
  const names = data.opened?.names; // null: the page keeps the choice out of its URL
  if (names) writeParameters(pathname, { [names.layer]: layer, [names.head]: head });
}

const sizeOf = ({ root }) => `${root.clientWidth} ${window.devicePixelRatio} ${screenOf(root) && window.innerHeight}`;

/** @param {RowView} view */
function layOut(view) {
  const { root, parts } = view;
  view.size = sizeOf(view);
  root.dataset.width = root.clientWidth < 420 ? "phone" : root.clientWidth < 700 ? "narrow" : "wide";
  view.geometry = rowGeometry(view);
  const { width, height, left, top, cell } = view.geometry;
  for (const { figure, canvas } of view.maps) {
    figure.style.width = `${width}px`;
    sizeCanvas(canvas, width, height);
    Object.assign(canvas.dataset, { left, top, cell });
  }
  parts.maps.style.columnGap = `${GAP}px`;
  root.dataset.high = String(!screenOf(root) && parts.maps.offsetHeight > window.innerHeight - HEADER);
  paintHead(view);
  if (screenOf(root)) onceSettled(root, () => layOut(view));
}

/** Paint everything that depends on layer and head. @param {RowView} view */
function paintHead(view) {
  const { data, geometry, layer, head, parts } = view;
  view.maps.forEach((shown, place) => {
    shown.map = mapAt(data, place, layer, head);
    drawStill(prepareCanvas(shown.base, geometry.width, geometry.height, shown.canvas), view, geometry, shown.map);
    shown.note.textContent = noteOf(shown.map);
  });
  parts.title.textContent = headingOf(view);
  keepInAddress(view);
  paintFocus(view);
}

/** Paint everything that depends on the focused cell, in all maps. @param {RowView} view */
function paintFocus(view) {
  const { root, data, geometry, maps } = view;
  const focus = focusOf(view);
  const { query, key } = focus;
  maps.forEach(({ canvas, base }, place) => drawLive(copyBase(canvas, base, geometry), view, geometry, focus, place));
  const cell = query === null ? null : query * data.keys.length + key;
  const unmasked = cell !== null && !data.covered.includes(query) && data.unmasked[cell] === 1;
  sayCell(view, focus, cell, unmasked);
  Object.assign(root.dataset, { layer: data.layers[view.layer], head: view.head, query: query ?? "", key: key ?? "" });
  root.dataset.outlined = String(data.outlined ?? "");
  root.dataset.covered = data.covered.join(" ");
  root.dataset.values = unmasked ? maps.map(({ map }) => map.values[cell]).join(" ") : "";
  root.dataset.painted = String(++view.painted);
}

function sayCell({ data, maps, parts }, { query, key }, cell, unmasked) {
  const parted = (words, value) => {
    const part = element("span", "part", words);
    part.append(element("b", "", value));
    return part;
  };
  const open = maps.filter(({ map }) => map.unmasked.includes(1)); // the others are not shown yet
  if (cell === null) {
    const all = ["the map", "both maps"][open.length - 1] ?? `all ${open.length} maps`;
    parts.readout.textContent = `Point at a cell to read its numbers in ${all}; click to pin it.`;
    return;
  }
  if (data.covered.includes(query)) {
    parts.readout.textContent = `Covered: the question is about this row.${data.sealed ? "" : " Click it to see it."}`;
    return;
  }
  const statements = [parted("query: ", tokenName(data.queries[query])), parted("key: ", tokenName(data.keys[key]))];
  if (unmasked) open.forEach(({ map }) => statements.push(parted(`${map.short} `, map.unmasked[cell] ? exactly(printedAt(maps, map, cell)) : "masked")));
  else statements.push(element("span", "part", "masked: its numbers are not used"));
  parts.readout.replaceChildren(...statements.flatMap((part, place) => (place ? [" \u00b7 ", part] : [part])));
}

/* A value of a map; a difference is that of the two numbers as they are printed, unless these are equal. */
function printedAt(maps, { minus, values }, cell) {
  const [first, second] = (minus ?? []).map((at) => Math.round(1e4 * maps[at].map.values[cell]));
  return (first - second) / 1e4 || values[cell];
}

/** @param {RowView} view */
function preview(view, place) {
  if (samePlace(view.preview, place)) return;
  view.preview = place;
  paintFocus(view);
}

/* Pinning a pinned cell unpins it. */
function pin(view, { query, key }) {
  if (view.data.covered.includes(query)) {
    if (view.data.sealed) return;
    view.data.covered = [];
    paintHead(view);
  }
  view.pinned = samePlace(view.pinned, { query, key }) ? NO_CELL : { query, key };
  view.preview = NO_CELL;
  paintFocus(view);
}

/** @param {RowView} view */
function listenToMaps(view) {
  const { maps } = view.parts;
  const placeOf = (event) => {
    if (event.target.localName !== "canvas") return NO_CELL;
    const place = placeAt(view.geometry, ...pointIn(event.target, event));
    return place && place.query !== null && place.key !== null ? place : NO_CELL;
  };
  maps.addEventListener("pointermove", (event) => event.pointerType !== "touch" && preview(view, placeOf(event)));
  maps.addEventListener("pointerleave", () => preview(view, NO_CELL));
  maps.addEventListener("click", (event) => {
    if (event.target.localName === "canvas") pin(view, placeOf(event));
  });
  maps.addEventListener("focusin", (event) => {
    if (event.target.matches(":focus-visible") && view.pinned.query === null) preview(view, { query: 0, key: 0 });
  });
  maps.addEventListener("focusout", () => preview(view, NO_CELL));
  maps.addEventListener("keydown", (event) => onMapKey(view, event));
}

/** @param {RowView} view */
function onMapKey(view, event) {
  const focus = focusOf(view);
  const direction = ARROWS[event.key];
  const pins = event.key === "Enter" || event.key === " ";
  if (direction) {
    const { queries, keys } = view.data;
    const step = (from, by, count) => (from === null ? 0 : between(0, from + by, count - 1));
    preview(view, { query: step(focus.query, direction[0], queries.length), key: step(focus.key, direction[1], keys.length) });
  } else if (pins && focus.query !== null) pin(view, focus);
  else if (event.key === "Escape") pin(view, view.pinned);
  else if (!pins) return;
  event.preventDefault();
}

const viewAt = mounts(createView);

export function render({ data, parentElement, key }) {
  const view = viewAt(parentElement, key);
  const themeChanged = renewTheme(view, view.root);
  const dataChanged = !sameBytes(view.bytes, data);
  if (dataChanged) applyData(view, data);
  if (dataChanged || themeChanged) layOut(view);
  return view.destroy;
}
