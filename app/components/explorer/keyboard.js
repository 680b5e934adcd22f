// Keyboard control: global keys for kinds, views and steps; arrows move, Enter pins, Escape unpins.

import { ARROWS, handled } from "../shared/keys.js";
import { between } from "../shared/numbers.js";
import { play } from "./controls.js";
import { currentMap, focusOf, isPinned } from "./focus.js";
import { neighbour } from "./overview.js";
import { openPanel, showPanel, togglePanel } from "./panels.js";
import { canZoomIn, ZOOM_STEP } from "./picture.js";
import { announce } from "./readout.js";
import { pause } from "./steps.js";
import { endPreview, goToStep, pin, showPreview, undo, unpin, update } from "./update.js";
import { lookingWords } from "./words.js";
import { reveal, setZoom } from "./zoom.js";

/** @param {Explorer} explorer */
function walkMap(explorer, event) {
  const map = currentMap(explorer);
  const { query, key } = focusOf(explorer);
  const start = query === null && key === null;
  const [down, right] = ARROWS[event.key];
  // The first arrow key only shows the starting cell.
  const nextQuery = start ? 0 : between(0, (query ?? 0) + down, map.queries - 1);
  const nextKey = start ? 0 : between(0, (key ?? 0) + right, map.keys - 1);
  reveal(explorer, nextQuery, nextKey);
  showPreview(explorer, nextQuery, nextKey);
  announce(explorer);
}

/** @param {Explorer} explorer */
function onMapKey(explorer, event) {
  if (ARROWS[event.key]) {
    handled(event);
    walkMap(explorer, event);
  } else if (event.key === "Enter" || event.key === " ") {
    handled(event);
    const { query, key } = focusOf(explorer);
    if (query !== null || key !== null) pin(explorer, query, key);
  }
}

/** @param {Explorer} explorer */
function onOverviewKey(explorer, event) {
  const arrow = ARROWS[event.key];
  if (!arrow) return;
  handled(event);
  const { layer, head, button } = neighbour(explorer, arrow);
  update(explorer, { layer, head });
  button.focus();
}

/** @param {Explorer} explorer */
function onSentenceKey(explorer, side, event) {
  const step = ARROWS[event.key]?.[1];
  if (!step) return;
  handled(event);
  const words = explorer.dom.words[side];
  const from = words.findIndex(({ button }) => button === event.target.closest("button"));
  const next = words[from + (explorer.dom.parts[side].dir === "rtl" ? -step : step)];
  if (!next) return;
  next.button.focus();
}

/** Global keys. @type {Record<string, (explorer: Explorer) => unknown>} */
const ROOT_KEYS = {
  1: (explorer) => update(explorer, { kind: "encoder" }),
  2: (explorer) => update(explorer, { kind: "decoder" }),
  3: (explorer) => update(explorer, { kind: "cross" }),
  m: (explorer) => update(explorer, { picture: "map" }),
  l: (explorer) => update(explorer, { picture: "lines" }),
  w: (explorer) => update(explorer, { unit: explorer.view.unit === "words" ? "pieces" : "words" }),
  ",": (explorer) => goToStep(explorer, explorer.now.step - 1),
  ".": (explorer) => goToStep(explorer, explorer.now.step + 1),
  p: play,
  u: undo,
  "?": (explorer) => togglePanel(explorer, "keys"),
  "+": (explorer) => explorer.view.picture === "map" && canZoomIn(explorer) && setZoom(explorer, explorer.layout.zoom * ZOOM_STEP),
  "-": (explorer) => explorer.view.picture === "map" && setZoom(explorer, explorer.layout.zoom / ZOOM_STEP),
};

/** @param {Explorer} explorer */
function onRootKey(explorer, event) {
  // A select uses letters for type-ahead.
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("select")) return;
  const action = ROOT_KEYS[event.key];
  if (!action) return;
  handled(event);
  action(explorer);
  if (!explorer.now.playing) announce(explorer, lookingWords(explorer.data)[explorer.view.kind]);
}

const isInView = (part) => {
  const { top, bottom, width } = part.getBoundingClientRect();
  return width > 0 && bottom > 0 && top < window.innerHeight;
};

const isWhollyInView = (part) => {
  const { top, bottom } = part.getBoundingClientRect();
  return top >= 0 && bottom <= window.innerHeight;
};

/**
 * While nothing has focus, all keys work for the first explorer in view. Arrows enter its map, unless they turn the pages of
 * a presentation or scroll: up and down enter a map that is wholly in view.
 * @param {Explorer} explorer
 */
function onFreeKey(explorer, event) {
  const { root, parts } = explorer.dom;
  if (event.target !== document.body || event.defaultPrevented || !explorer.data || !isInView(root)) return;
  const arrow = ARROWS[event.key];
  if (!arrow) return onRootKey(explorer, event);
  if (document.querySelector(".st-key-presenting") || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
  if (!isInView(parts.map) || (arrow[0] && !isWhollyInView(parts.map))) return;
  handled(event);
  const pinned = isPinned(explorer);
  parts.map.focus({ preventScroll: true });
  if (pinned) walkMap(explorer, event);
}

/**
 * Escape works on the whole page, because focus may have moved elsewhere since a click pinned a cell. It closes an open
 * panel first, then unpins.
 * @param {Explorer} explorer
 */
function onDocumentKey(explorer, event) {
  if (event.key !== "Escape") return onFreeKey(explorer, event);
  pause(explorer);
  if (openPanel(explorer)) showPanel(explorer, null);
  else if (isPinned(explorer) || focusOf(explorer).previewed) unpin(explorer);
}

/** @param {Explorer} explorer */
export function listenToKeyboard(explorer) {
  const { root, parts } = explorer.dom;
  parts.map.addEventListener("keydown", (event) => onMapKey(explorer, event));
  parts.map.addEventListener("focus", () => {
    if (!parts.map.matches(":focus-visible") || isPinned(explorer)) return;
    showPreview(explorer, 0, 0);
    announce(explorer);
  });
  parts.map.addEventListener("blur", () => endPreview(explorer));
  parts.overview.addEventListener("keydown", (event) => onOverviewKey(explorer, event));
  for (const side of ["source", "target"]) {
    parts[side].addEventListener("keydown", (event) => onSentenceKey(explorer, side, event));
  }
  root.addEventListener("keydown", (event) => onRootKey(explorer, event));
  const listener = (event) => onDocumentKey(explorer, event);
  document.addEventListener("keydown", listener);
  return () => document.removeEventListener("keydown", listener);
}
