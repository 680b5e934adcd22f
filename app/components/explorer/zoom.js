// Zooms and pans a large map.

import { pointIn } from "../shared/dom.js";
import { placeAt, xOf, yOf } from "../shared/grid.js";
import { handled } from "../shared/keys.js";
import { between } from "../shared/numbers.js";
import { focusOf } from "./focus.js";
import { geometryOf, LARGEST_CELL } from "./geometry.js";
import { paint } from "./paint.js";
import { drawBase, placeMap, ZOOM_STEP } from "./picture.js";

/** @param {Explorer} explorer */
export function setZoom(explorer, zoom, around = null) {
  const before = geometryOf(explorer, explorer.view.kind);
  const place = around ?? centreOf(explorer, before);
  const at = { x: xOf(before, place.key) - before.left, y: yOf(before, place.query) - before.top };
  explorer.layout.zoom = Math.max(1, Math.min(LARGEST_CELL / before.unzoomed, zoom));
  explorer.layout.geometries = {};
  const after = geometryOf(explorer, explorer.view.kind);
  // Keep the cell under the pointer in place, within the map's edges.
  moveTo(after, place.query - Math.floor(at.y / after.cell), place.key - Math.floor(at.x / after.cell));
  paint(explorer, ["zoom", "now"]);
}

/* The focused cell, else the centre of the visible part. */
function centreOf(explorer, { first, shown }) {
  const { query, key } = focusOf(explorer);
  return {
    query: query ?? first.query + Math.floor(shown.queries / 2),
    key: key ?? first.key + Math.floor(shown.keys / 2),
  };
}

/**
 * Make this query and key the first shown cell, or the nearest one that keeps the map filled.
 * @param {MapGeometry} geometry
 */
function moveTo(geometry, query, key) {
  const { rowLabels, columnLabels, shown } = geometry;
  geometry.first = {
    query: between(0, query, rowLabels.length - shown.queries),
    key: between(0, key, columnLabels.length - shown.keys),
  };
}

/** Scroll a cell into view, if the map is zoomed. @param {Explorer} explorer */
export function reveal(explorer, query, key) {
  if (explorer.layout.zoom === 1 || explorer.view.picture !== "map") return;
  const geometry = geometryOf(explorer, explorer.view.kind);
  const { first, shown } = geometry;
  const nearest = (start, count, index) =>
    index === null ? start : index < start ? index : Math.max(start, index - count + 1);
  moveTo(geometry, nearest(first.query, shown.queries, query), nearest(first.key, shown.keys, key));
  if (geometry.first.query === first.query && geometry.first.key === first.key) return;
  placeMap(explorer);
  drawBase(explorer);
}

/** @param {Explorer} explorer */
export function listenToZoom(explorer) {
  const { parts } = explorer.dom;
  parts["zoom-in"].addEventListener("click", () => setZoom(explorer, explorer.layout.zoom * ZOOM_STEP));
  parts["zoom-out"].addEventListener("click", () => setZoom(explorer, explorer.layout.zoom / ZOOM_STEP));
  // A pinch arrives as a wheel event with Ctrl. A plain wheel scrolls the page; with Shift it pans a zoomed map.
  parts.map.addEventListener("wheel", (event) => onWheel(explorer, event), { passive: false });
  let grabbed = null;
  parts.map.addEventListener("pointerdown", (event) => {
    if (explorer.layout.zoom === 1 || explorer.view.picture !== "map") return;
    const { first } = geometryOf(explorer, explorer.view.kind);
    grabbed = { x: event.clientX, y: event.clientY, first, moved: false };
  });
  parts.map.addEventListener("pointermove", (event) => {
    if (!grabbed || !event.buttons) return;
    const geometry = geometryOf(explorer, explorer.view.kind);
    const cells = (pixels) => Math.round(pixels / geometry.cell);
    const [down, right] = [cells(grabbed.y - event.clientY), cells(grabbed.x - event.clientX)];
    if (!grabbed.moved && !down && !right) return;
    if (!grabbed.moved) parts.map.setPointerCapture(event.pointerId);
    grabbed.moved = true;
    pan(explorer, grabbed.first.query + down, grabbed.first.key + right);
  });
  parts.map.addEventListener("pointerup", () => {
    // Ignore the click that ends a drag. If none follows immediately, the next click counts.
    if (grabbed?.moved) {
      parts.map.addEventListener("click", handled, { capture: true, once: true });
      setTimeout(() => parts.map.removeEventListener("click", handled, { capture: true }), 0);
    }
    grabbed = null;
  });
  parts.map.addEventListener("pointercancel", () => (grabbed = null));
}

/** @param {Explorer} explorer */
function onWheel(explorer, event) {
  if (explorer.view.picture !== "map") return;
  const geometry = geometryOf(explorer, explorer.view.kind);
  if (event.ctrlKey) {
    handled(event);
    const place = placeAt(geometry, ...pointIn(explorer.dom.parts.map, event));
    const around = place?.query != null && place.key != null ? place : null;
    setZoom(explorer, explorer.layout.zoom * (event.deltaY < 0 ? ZOOM_STEP : 1 / ZOOM_STEP), around);
  } else if (explorer.layout.zoom > 1 && event.shiftKey) {
    handled(event);
    pan(explorer, geometry.first.query, geometry.first.key + Math.sign(event.deltaY || event.deltaX));
  }
}

/** @param {Explorer} explorer */
function pan(explorer, query, key) {
  const geometry = geometryOf(explorer, explorer.view.kind);
  const { first } = geometry;
  moveTo(geometry, query, key);
  if (first.query === geometry.first.query && first.key === geometry.first.key) return;
  paint(explorer, ["zoom", "now"]);
}
