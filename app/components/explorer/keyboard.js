// Gives every part its keys: kinds, views and steps from everywhere, arrows to walk, Enter to pin, Escape to unpin.

import { ARROWS, handled } from "../shared/keys.js";
import { between } from "../shared/numbers.js";
import { checksAreOpen, openChecks } from "./badge.js";
import { play } from "./controls.js";
import { currentMap, focusOf, isKept } from "./focus.js";
import { neighbour } from "./overview.js";
import { canZoomIn, ZOOM_STEP } from "./picture.js";
import { announce } from "./readout.js";
import { pause } from "./steps.js";
import { chooseHead, chooseKind, chooseUnit, chooseView, endPreview, goToStep, keep, letGo, showPreview } from "./update.js";
import { lookingWords } from "./words.js";
import { reveal, setZoom } from "./zoom.js";

function walkMap(explorer, event) {
  const map = currentMap(explorer);
  const { query, key } = focusOf(explorer);
  const start = query === null && key === null;
  const [down, right] = ARROWS[event.key];
  // The first arrow key only shows where one stands.
  const nextQuery = start ? 0 : between(0, (query ?? 0) + down, map.queries - 1);
  const nextKey = start ? 0 : between(0, (key ?? 0) + right, map.keys - 1);
  reveal(explorer, nextQuery, nextKey);
  showPreview(explorer, nextQuery, nextKey);
  announce(explorer);
}

function onMapKey(explorer, event) {
  if (ARROWS[event.key]) {
    handled(event);
    walkMap(explorer, event);
  } else if (event.key === "Enter" || event.key === " ") {
    handled(event);
    const { query, key } = focusOf(explorer);
    if (query !== null || key !== null) keep(explorer, query, key);
  }
}

function onOverviewKey(explorer, event) {
  const arrow = ARROWS[event.key];
  if (!arrow) return;
  handled(event);
  const { layer, head, button } = neighbour(explorer, arrow);
  chooseHead(explorer, layer, head);
  button.focus();
}

function onSentenceKey(explorer, side, event) {
  const step = ARROWS[event.key]?.[1];
  if (!step) return;
  handled(event);
  const words = explorer.words[side];
  const from = words.findIndex(({ button }) => button === event.target.closest("button"));
  const next = words[from + step];
  if (!next) return;
  next.button.focus();
}

/* The keys that work on every part of the explorer, by what is pressed. */
const ROOT_KEYS = {
  1: (explorer) => chooseKind(explorer, "encoder"),
  2: (explorer) => chooseKind(explorer, "decoder"),
  3: (explorer) => chooseKind(explorer, "cross"),
  m: (explorer) => chooseView(explorer, "map"),
  l: (explorer) => chooseView(explorer, "lines"),
  w: (explorer) => chooseUnit(explorer, explorer.unit === "words" ? "pieces" : "words"),
  ",": (explorer) => goToStep(explorer, explorer.step - 1),
  ".": (explorer) => goToStep(explorer, explorer.step + 1),
  p: play,
  "?": ({ parts }) => (parts.keys.open = !parts.keys.open),
  "+": (explorer) => explorer.view === "map" && canZoomIn(explorer) && setZoom(explorer, explorer.zoom * ZOOM_STEP),
  "-": (explorer) => explorer.view === "map" && setZoom(explorer, explorer.zoom / ZOOM_STEP),
};

function onRootKey(explorer, event) {
  // A list of choices takes letters as a search in it.
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("select")) return;
  const action = ROOT_KEYS[event.key];
  if (!action) return;
  handled(event);
  action(explorer);
  if (!explorer.playing) announce(explorer, lookingWords(explorer)[explorer.kind]);
}

/*
 * Escape is heard on the whole page, because a pointer can pin a cell and then move the focus elsewhere. It closes
 * what was opened last: the checks and the keys lie over the map, so they go before the pinned cell.
 */
function onDocumentKey(explorer, event) {
  if (event.key !== "Escape") return;
  pause(explorer);
  if (checksAreOpen(explorer)) openChecks(explorer, false);
  else if (explorer.parts.keys.open) explorer.parts.keys.open = false;
  else if (isKept(explorer) || focusOf(explorer).previewed) letGo(explorer);
}

export function listenToKeyboard(explorer) {
  const { root, parts } = explorer;
  parts.map.addEventListener("keydown", (event) => onMapKey(explorer, event));
  parts.map.addEventListener("focus", () => {
    if (!parts.map.matches(":focus-visible") || isKept(explorer)) return;
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
