// Responsive layout: size class, space reserved for the map, repaint on resize.

import { onNewSize } from "../shared/mounts.js";
import { heightBelow, onceSettled, screenOf } from "../shared/presented.js";
import { drawHatch, prepareCanvas } from "../shared/plot.js";
import { KINDS } from "./data.js";
import { placeEditedTarget } from "./edited_target.js";
import { mapGeometry } from "./geometry.js";
import { level } from "./level.js";
import { leastLinesHeight } from "./lines.js";
import { overviewPlaces } from "./overview_picture.js";
import { paint } from "./paint.js";
import { ROLLOUT } from "./maps.js";
import { fitSentences } from "./sentences.js";
import { buildStrips, placeStrips } from "./strip.js";
import { allHeads, allLayers } from "./words.js";

/** @type {[number, string][]} */
const WIDTHS = [[700, "narrow"], [900, "medium"], [1300, "large"], [Infinity, "wide"]];

/** Lay out for the component's own width: a sidebar may take part of the window. @param {Explorer} explorer */
export function layOut(explorer) {
  const { theme } = explorer;
  const { root, parts } = explorer.dom;
  buildStrips(explorer); // before reading the width, which forces a reflow: a resize seldom changes them
  const width = root.clientWidth;
  const presented = screenOf(root) === "maps" && width >= LEAST_PRESENTED;
  root.dataset.width = presented ? "medium" : WIDTHS.find(([limit]) => width < limit)[1];
  explorer.layout.size = sizeOf(explorer);
  buildStrips(explorer);
  fitSentences(explorer);
  showMeans(explorer);
  explorer.layout.presented = presented ? heightBelow(root) - BELOW : 0;
  fitOverview(explorer);
  reserveMap(explorer);
  drawHatch(prepareCanvas(parts.hatch, 22, 10), theme, 0, 0, 22, 10);
  paint(explorer);
  level(explorer);
  if (presented) onceSettled(root, () => layOut(explorer));
}

/** Lay the sentences out again after a change of their strips; the maps stay. @param {Explorer} explorer */
export function layOutSentences(explorer) {
  buildStrips(explorer);
  fitSentences(explorer);
  placeEditedTarget(explorer);
  placeStrips(explorer);
}

/**
 * Show the maps that combine heads or layers only if they are asked for, or the view is about them: one of them is chosen,
 * or how they are combined.
 * @param {Explorer} explorer
 */
function showMeans({ data, view, layout, dom: { parts } }) {
  const chosen = view.combine === "max" || (view.quantity !== ROLLOUT && (allHeads(data, view) || allLayers(data, view)));
  layout.means ||= chosen;
  parts.means.checked = layout.means;
  parts.overview.classList.toggle("plain", !layout.means);
  parts.overview.style.gridTemplateColumns = `38px repeat(${data.heads}, minmax(0, 1fr))${layout.means ? " 4px minmax(0, 1fr)" : ""}`;
}

/* px: narrower presented maps are laid out as on a phone. */
const LEAST_PRESENTED = 600;

/* px below the presented maps, for the line that says how to see the rest of the page. */
const BELOW = 56;

/**
 * Fit the presented overview into the rest of the window's height: its maps are square and have no captions.
 * @param {Explorer} explorer
 */
function fitOverview({ data, dom: { parts }, layout: { presented, means } }) {
  const { overview } = parts;
  overview.style.maxWidth = `${MARGINS + WIDEST * (data.heads + Number(means))}px`;
  if (!presented) return;
  const { columnGap, rowGap } = getComputedStyle(overview);
  const rows = Math.max(...KINDS.map((kind) => data.layers[kind])) + Number(means);
  const side = (heightBelow(overview) - BELOW - HEAD_LABEL) / rows - parseFloat(rowGap);
  overview.style.maxWidth = `${MARGINS + LAST_GAP * Number(means) + Math.max(12, side) * (data.heads + Number(means)) + parseFloat(columnGap) * (data.heads + 2 * Number(means))}px`;
}

/* px: the overview's row of head numbers, and its column of layer numbers with the gap before the last column. */
const HEAD_LABEL = 14;
const MARGINS = 38 + 3;
const LAST_GAP = 4;

/* px: the thumbnails of one or two heads do not fill the width. */
const WIDEST = 220;

const sizeOf = ({ dom: { root } }) =>
  `${root.clientWidth} ${window.innerHeight} ${window.devicePixelRatio} ${screenOf(root)}`;

/** @param {Explorer} explorer */
export function watchSize(explorer) {
  let timer = 0;
  const check = () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      // Skip hidden tabs: they have no width.
      if (explorer.data && explorer.dom.root.clientWidth && explorer.layout.size !== sizeOf(explorer)) layOut(explorer);
    }, 40);
  };
  const end = onNewSize(explorer.dom.root, check);
  return () => {
    clearTimeout(timer);
    end();
  };
}

/* px for the notes and buttons below the map: two lines; where they are narrow, the buttons wrap (see .foot). */
const NOTE_HEIGHT = { narrow: 128, wide: 52, other: 76 };

/**
 * Reserve the height of the tallest map or of the lines, whichever is larger: switching never moves the content below.
 * @param {Explorer} explorer
 */
function reserveMap(explorer) {
  // Read all sizes before writing any style: reading forces a reflow.
  explorer.layout.room = explorer.dom.parts["map-box"].clientWidth;
  explorer.layout.tickWidth = explorer.dom.parts.ticks.clientWidth;
  explorer.layout.places = overviewPlaces(explorer);
  explorer.layout.overviews = {};
  explorer.layout.geometries = {};
  const heights = KINDS.map((kind) => mapGeometry(explorer, kind, "pieces", 1).height);
  const { presented } = explorer.layout;
  explorer.layout.tallest = Math.max(...heights, presented ? 0 : leastLinesHeight(explorer));
  const note = presented ? 0 : (NOTE_HEIGHT[explorer.dom.root.dataset.width] ?? NOTE_HEIGHT.other);
  explorer.layout.reserved = explorer.layout.tallest + note;
  explorer.dom.parts["map-place"].style.minHeight = `${explorer.layout.reserved}px`;
}
