// Paints the map or the lines on their shared canvas.

import { placeAt } from "../shared/grid.js";
import { copyBase, prepareCanvas, sizeCanvas } from "../shared/plot.js";
import { geometryOf } from "./geometry.js";
import { drawLines, lineAt, linesGeometry } from "./lines.js";
import { drawLiveMap, drawStillMap } from "./map.js";

/* `still` draws what does not depend on the focused cell. Lines have no such part: the focused cell changes almost all. */
export const VIEWS = {
  map: { still: drawStillMap, live: drawLiveMap, at: placeAt },
  lines: { still: null, live: drawLines, at: lineAt },
};

/**
 * Geometry of the shown picture. The map's is cached per kind, that of the lines until `placeMap` runs again.
 * @param {Explorer} explorer
 */
export function shownGeometry(explorer) {
  if (explorer.view.picture === "map") return geometryOf(explorer, explorer.view.kind);
  explorer.layout.linesGeometry ??= linesGeometry(explorer);
  return explorer.layout.linesGeometry;
}

/** @param {Explorer} explorer */
export function drawBase(explorer) {
  const { still } = VIEWS[explorer.view.picture];
  if (!still) return;
  const geometry = shownGeometry(explorer);
  const context = prepareCanvas(explorer.dom.base, geometry.width, geometry.height, explorer.dom.parts.map);
  still(context, explorer, geometry);
}

/**
 * Blit the cached base and draw what depends on the focused cell: all the drawing that a hover costs.
 * @param {Explorer} explorer
 */
export function paintLive(explorer) {
  const geometry = shownGeometry(explorer);
  const { base, parts } = explorer.dom;
  const { still, live } = VIEWS[explorer.view.picture];
  const context = still ? copyBase(parts.map, base, geometry) : prepareCanvas(parts.map, geometry.width, geometry.height);
  live(context, explorer, geometry);
}

/** Publish the position of the cells for page and tests, whenever the geometry changes. @param {Explorer} explorer */
export function placeMap(explorer) {
  const { map } = explorer.dom.parts;
  explorer.layout.linesGeometry = null;
  const geometry = shownGeometry(explorer);
  sizeCanvas(map, geometry.width, geometry.height);
  const isMap = explorer.view.picture === "map";
  map.dataset.left = isMap ? geometry.left : "";
  map.dataset.top = isMap ? geometry.top : "";
  map.dataset.cell = isMap ? geometry.cell : "";
  map.dataset.firstQuery = isMap ? geometry.first.query : "";
  map.dataset.firstKey = isMap ? geometry.first.key : "";
  const what = isMap ? "Attention map" : "Attention lines";
  const zoom = isMap ? " Plus and minus zoom." : "";
  map.setAttribute("aria-label", `${what}. Arrow keys move, Enter pins, Escape unpins.${zoom}`);
}

export const ZOOM_STEP = 1.5;

/** Once cells print their numbers at full size, zooming in has no use. @param {Explorer} explorer */
export const canZoomIn = (explorer) => geometryOf(explorer, explorer.view.kind).cell < 27;

/** @param {Explorer} explorer */
export function paintZoom(explorer) {
  const { picture } = explorer.view;
  const { zoom } = explorer.layout;
  const { parts } = explorer.dom;
  const small = geometryOf(explorer, explorer.view.kind).unzoomed < 20;
  // Keeps its space while hidden, so that the row does not shift.
  parts.zoom.classList.toggle("unused", picture !== "map" || !small);
  parts["zoom-in"].disabled = !canZoomIn(explorer);
  parts["zoom-out"].disabled = zoom === 1;
  parts.map.classList.toggle("zoomed", zoom > 1);
}
