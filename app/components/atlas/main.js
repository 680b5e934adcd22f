// Mounts the atlas: stores the chosen head and measures, also in the URL, and repaints what depends on them.

import { sameBytes } from "../shared/bytes.js";
import { copyText, flashText } from "../shared/clipboard.js";
import { fillSelect, partsOf, pointIn } from "../shared/dom.js";
import { ARROWS, handled } from "../shared/keys.js";
import { lastStates, mounts, onceFontsCome, onNewSize } from "../shared/mounts.js";
import { wrapped } from "../shared/numbers.js";
import { copyBase, prepareCanvas, sizeCanvas } from "../shared/plot.js";
import { renewTheme } from "../shared/theme.js";
import { asPythonWrites, prepareSwitch, writeParameters } from "../shared/url.js";
import { decodeAtlas, headId } from "./data.js";
import { fillExamples, fillNotes, fillOrigin, fillPanel, fillReadout } from "./panel.js";
import { drawPlaces, drawPlacesFocus, headAt, headBeside, placesGeometry } from "./places.js";
import { curvesOf, drawPruning, pruningGeometry, pruningText } from "./pruning.js";
import { distanceGeometry, drawDistance, drawRoles, rolesGeometry } from "./roles.js";
import { addSaves } from "./saving.js";
import { drawScatter, drawScatterFocus, pointAt, pointBeside, scatterGeometry } from "./scatter.js";

const SELECTS = ["measure", "x", "y"];

/* The explorer's parameters remain in the URL when a visitor returns from the explorer; null removes them. */
const OF_THE_EXPLORER = { kind: null, layer: null, q: null, k: null };

const NARROW = 760; // px: below this width, pictures and cards are in one column

function createView(parent, key) {
  const root = parent.querySelector(".atlas");
  const parts = partsOf(root);
  /** @type {AtlasView} */
  const view = {
    key,
    root,
    parts,
    pathname: window.location.pathname,
    bytes: null,
    data: null,
    theme: null,
    chosen: { head: 0, measure: "", x: "", y: "", curve: "loss" },
    hovered: null,
    turns: new Map(),
    geometries: {},
    bases: { heads: document.createElement("canvas"), scatter: document.createElement("canvas") },
    size: "",
    painted: 0,
    open: () => {},
  };
  addSaves(view, (_, name) => pictureOf(view, name));
  for (const name of [...SELECTS, "curve"]) {
    parts[name].addEventListener("change", (event) => choose(view, { [name]: event.target.value }));
  }
  parts.previous.addEventListener("click", () => choose(view, { head: wrapped(view.chosen.head - 1, view.data.places.length) }, true));
  parts.next.addEventListener("click", () => choose(view, { head: wrapped(view.chosen.head + 1, view.data.places.length) }, true));
  parts.one.addEventListener("click", (event) => onPanelClick(view, event));
  parts.copy.addEventListener("click", () => copyCommand(view));
  listen(view, "heads", (x, y) => headAt(view.data, view.geometries.heads, x, y), (n, arrow) => headBeside(view.data, n, ARROWS[arrow]));
  listen(view, "scatter", (x, y) => pointAt(view.data, view.geometries.scatter, x, y), (n, arrow) => pointBeside(view.data, view.geometries.scatter, n, arrow));
  // A picture in a closed fold has no width.
  for (const fold of root.querySelectorAll("details")) fold.addEventListener("toggle", () => view.data && layOut(view));
  onceFontsCome(root, () => layOut(view));
  view.destroy = onNewSize(root, () => {
    if (view.data && root.clientWidth && sizeOf(view) !== view.size) layOut(view);
  });
  return view;
}

const sizeOf = ({ root }) => `${root.clientWidth} ${window.devicePixelRatio}`;

/* Pointer and arrow keys on a canvas: the pointer previews a head, a click or an arrow chooses it. */
function listen(view, name, under, beside) {
  const canvas = view.parts[name];
  const headUnder = (event) => under(...pointIn(canvas, event));
  canvas.addEventListener("pointermove", (event) => event.pointerType !== "touch" && hover(view, headUnder(event)));
  canvas.addEventListener("pointerleave", () => hover(view, null));
  canvas.addEventListener("click", (event) => {
    const head = headUnder(event);
    if (head !== null) choose(view, { head }, true);
  });
  canvas.addEventListener("keydown", (event) => {
    if (!ARROWS[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    handled(event);
    choose(view, { head: beside(view.chosen.head, event.key) });
  });
}

/** @param {AtlasView} view */
function hover(view, head) {
  if (view.hovered === head) return;
  view.hovered = head;
  paintFocus(view);
}

/*
 * Choose a head, a measure or a curve, and repaint what depends on it. A click on a head adds an entry to the browser's
 * history, so that Back undoes the choice. Select lists and arrow keys, which pass over many heads, add no entry.
 */
/** @param {AtlasView} view */
function choose(view, change, isClick = false) {
  Object.assign(view.chosen, change);
  view.hovered = null;
  remember(view, isClick);
  if ("head" in change) fillPanel(view);
  paint(view);
}

/** @param {AtlasView} view */
function remember(view, isEntry = false) {
  const { data, chosen, key, pathname } = view;
  lastStates.set(key, { ...chosen, head: headId(data, chosen.head), turn: data.opened.turn });
  if (!data.opened.in_url) return;
  const other = (name) => (chosen[name] === data.opened.defaults[name] ? null : chosen[name]);
  const head = headId(data, chosen.head);
  writeParameters(pathname, { head, measure: other("measure"), x: other("x"), y: other("y"), curve: other("curve"), ...OF_THE_EXPLORER }, isEntry);
}

function onPanelClick(view, event) {
  const { dataset } = event.target;
  if (event.target.matches("button.jump")) choose(view, { head: Number(dataset.head) }, true);
  if (event.target.matches(".another")) {
    const at = `${view.chosen.head} ${dataset.decile}`;
    view.turns.set(at, (view.turns.get(at) ?? 0) + 1);
    fillExamples(view);
    view.parts.examples.querySelector(`[data-decile="${dataset.decile}"]`)?.focus();
  }
  const hasKey = event.ctrlKey || event.metaKey || event.shiftKey || event.altKey;
  if (dataset.query && !hasKey) {
    event.preventDefault(); // a plain link would start a new session
    const query = asPythonWrites(dataset.query);
    prepareSwitch(query);
    view.open({ page: dataset.page, query });
  }
}

async function copyCommand({ parts }) {
  const copied = await copyText(parts.command.textContent);
  flashText(parts.copy, copied ? "Copied" : "Copy failed: select, Ctrl+C", "Copy");
}

/**
 * Apply new data. The visitor's last choices stay, unless `turn` is new: then the URL's parameters override them.
 * @param {AtlasView} view
 */
function applyData(view, bytes) {
  const data = decodeAtlas(bytes);
  Object.assign(view, { bytes, data, hovered: null });
  view.turns.clear();
  const last = lastStates.get(view.key);
  const asked = last?.turn === data.opened.turn ? [] : data.opened.asked;
  const kept = Object.fromEntries(Object.entries(last ?? {}).filter(([name]) => !asked.includes(name)));
  const head = data.places.findIndex((_, n) => headId(data, n) === kept.head);
  const curves = curvesOf(data).map(({ what }) => what);
  const [measure, x, y] = SELECTS.map((name) => (kept[name] in data.byKey ? kept[name] : data.opened[name]));
  const curve = [kept.curve, data.opened.curve].find((what) => curves.includes(what)) ?? curves[0] ?? "loss";
  view.chosen = { head: head < 0 ? data.opened.head : head, curve, measure, x, y };
  for (const name of SELECTS) fillSelect(view.parts[name], data.measures.map(({ key, label }) => [key, label]));
  fillSelect(view.parts.curve, curvesOf(data).map(({ what, words }) => [what, words]));
  fillOrigin(view);
  figureOf(view, "pruning").hidden = !curves.length;
  figureOf(view, "pruning").parentElement.hidden = !curves.length;
  view.parts["pruning-result"].textContent = `curves of ${curvesOf(data).map(({ what }) => (what === "loss" ? what : "BLEU")).join(" and ")}`;
  remember(view);
  fillPanel(view);
}

/** @returns {HTMLElement} */
const figureOf = ({ root }, name) => root.querySelector(`[data-picture=${name}]`);

/** @param {AtlasView} view */
function layOut(view) {
  const { root } = view;
  view.size = sizeOf(view);
  root.dataset.width = root.clientWidth < NARROW ? "narrow" : "wide";
  paint(view);
}

/** Size and drawing of a picture, for the page and for files. @param {AtlasView} view */
function pictureOf(view, name) {
  const { data, chosen, parts } = view;
  const width = Math.max(240, parts[name].parentElement.clientWidth);
  /** @type {Record<string, () => [any, (context: Drawing) => void]>} */
  const pictures = {
    heads: () => {
      const geometry = placesGeometry(data, width);
      return [geometry, (context) => [drawPlaces, drawPlacesFocus].forEach((draw) => draw(context, view, geometry))];
    },
    scatter: () => {
      const geometry = scatterGeometry(data, chosen, width, Math.min(360, width + 20));
      return [geometry, (context) => [drawScatter, drawScatterFocus].forEach((draw) => draw(context, view, geometry))];
    },
    roles: () => {
      const geometry = rolesGeometry(data, chosen.head, width);
      return [geometry, (context) => drawRoles(context, view, geometry)];
    },
    distance: () => {
      const geometry = distanceGeometry(width);
      return [geometry, (context) => drawDistance(context, view, geometry)];
    },
    pruning: () => {
      const geometry = pruningGeometry(Math.min(width, 900));
      return [geometry, (context) => drawPruning(context, view, geometry)];
    },
  };
  const [geometry, draw] = pictures[name]();
  view.geometries[name] = geometry;
  return { width: geometry.width, height: geometry.height, draw };
}

/** Paint all pictures and notes. @param {AtlasView} view */
function paint(view) {
  const { data, parts, chosen } = view;
  for (const name of [...SELECTS, "curve"]) parts[name].value = chosen[name];
  fillNotes(view);
  for (const name of ["roles", "distance", "pruning"]) {
    if (figureOf(view, name).hidden) continue;
    const { width, height, draw } = pictureOf(view, name);
    sizeCanvas(parts[name], width, height);
    draw(prepareCanvas(parts[name], width, height));
  }
  if (data.pruning.length) {
    parts["pruning-note"].textContent = pruningText(data, chosen.head, chosen.curve);
    parts.pruning.setAttribute("aria-label", pruningText(data, chosen.head, chosen.curve));
  }
  for (const [name, draw] of /** @type {const} */ ([["heads", drawPlaces], ["scatter", drawScatter]])) {
    const { width, height } = pictureOf(view, name);
    draw(prepareCanvas(view.bases[name], width, height), view, view.geometries[name]);
  }
  paintFocus(view);
}

/** Paint what depends on the head under the pointer. @param {AtlasView} view */
function paintFocus(view) {
  const { data, parts, root, chosen, hovered, geometries } = view;
  for (const [name, draw] of /** @type {const} */ ([["heads", drawPlacesFocus], ["scatter", drawScatterFocus]])) {
    sizeCanvas(parts[name], geometries[name].width, geometries[name].height);
    draw(copyBase(parts[name], view.bases[name], geometries[name]), view, geometries[name]);
  }
  root.dataset.values = fillReadout(view);
  Object.assign(root.dataset, { head: headId(data, chosen.head), hovered: hovered === null ? "" : headId(data, hovered) });
  Object.assign(root.dataset, { measure: chosen.measure, x: chosen.x, y: chosen.y, curve: chosen.curve });
  root.dataset.painted = String(++view.painted);
}

const viewAt = mounts(createView);

export function render({ data, parentElement, key, setTriggerValue }) {
  const view = viewAt(parentElement, key);
  const themeChanged = renewTheme(view, view.root);
  view.open = (link) => setTriggerValue("link", link);
  const dataChanged = !sameBytes(view.bytes, data);
  if (dataChanged) applyData(view, data);
  if (dataChanged || themeChanged) layOut(view);
  return view.destroy;
}
