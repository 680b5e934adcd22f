// Paints again what a change touches: each part of the page names the values that it shows.

import { element } from "../shared/dom.js";
import { paintBadge } from "./badge.js";
import { currentMap, focusOf } from "./focus.js";
import { valueAt } from "./maps.js";
import { paintAxisNote } from "./notes.js";
import { paintOptions } from "./options.js";
import { markChosenHead, paintOverview } from "./overview.js";
import { overviewOf, paintOverviewFocus, showOverview } from "./overview_picture.js";
import { drawBase, paintLive, paintZoom, placeMap } from "./picture.js";
import { paintReadout } from "./readout.js";
import { paintSentences } from "./sentences.js";
import { paintStatistics } from "./statistics.js";
import { paintSteps, shownStep } from "./steps.js";
import { paintEditTokens, paintWhatIf } from "./what_if.js";
import { lookingWords, mapTitle } from "./words.js";

/* What makes the maps themselves, and what chooses one of them. */
const MAPS = ["kind", "unit", "hide", "combine", "quantity"];
const HEAD = [...MAPS, "layer", "head"];

/**
 * In this order: the canvases come first, because once words have changed, setting a font would make the browser work
 * out all styles at once.
 *
 * @type {[(explorer: Explorer) => void, string[]][]}
 */
const PAINTS = [
  [placeMap, [...MAPS, "picture", "zoom"]],
  [drawBase, [...HEAD, "picture", "mass", "zoom"]],
  [paintLive, [...HEAD, "picture", "mass", "zoom", "pinned", "now"]],
  [showOverview, [...HEAD, "sort", "whole"]],
  [paintOptions, [...MAPS, "picture", "sort", "wanted"]],
  [paintZoom, [...MAPS, "picture", "zoom"]],
  [paintOverview, [...MAPS, "sort", "whole"]],
  [markChosenHead, [...HEAD, "sort", "whole", "pinned"]],
  [paintTitle, HEAD],
  [paintBadge, HEAD],
  [paintAxisNote, [...HEAD, "picture", "mass"]],
  [paintStatistics, HEAD],
  [paintCaptions, ["pinned", "now"]],
  [paintSentences, [...HEAD, "pinned", "now"]],
  [paintSteps, [...HEAD, "pinned", "now"]],
  [paintReadout, [...HEAD, "pinned", "now"]],
  [paintOverviewFocus, [...HEAD, "sort", "pinned", "now"]],
  [paintWhatIf, [...HEAD, "pinned"]],
  [paintEditTokens, []],
];

/**
 * `changed` names values of the view, or "zoom", or "now" for what passes: the pointer, the steps, what is waited for.
 * Without it everything is painted.
 *
 * @param {Explorer} explorer
 */
export function paint(explorer, changed = null) {
  const touches = (shown) => changed === null || shown.some((name) => changed.includes(name));
  for (const [part, shown] of PAINTS) if (touches(shown)) part(explorer);
  tell(explorer);
}

/**
 * A pinned row or column stands in every caption.
 *
 * @param {Explorer} explorer
 */
function paintCaptions(explorer) {
  if (overviewOf(explorer) === explorer.dom.overview) return;
  showOverview(explorer);
  paintOverview(explorer);
}

/** @param {Explorer} explorer */
function paintTitle(explorer) {
  const { data, view } = explorer;
  const looking = element("small", "", lookingWords(data)[view.kind]);
  explorer.dom.parts.title.replaceChildren(mapTitle(data, view), looking);
}

/**
 * The last step of every paint: the attributes that tell what is shown.
 *
 * @param {Explorer} explorer
 */
function tell(explorer) {
  const { data, dom } = explorer;
  const { kind, layer, head, combine } = explorer.view;
  const { query, key } = focusOf(explorer);
  const cell = query !== null && key !== null;
  Object.assign(dom.root.dataset, {
    kind,
    layer: layer < data.layers[kind] ? layer : combine,
    head: head < data.heads ? head : combine,
    query: query ?? "",
    key: key ?? "",
    weight: cell ? valueAt(currentMap(explorer), query, key).toFixed(4) : "",
    step: shownStep(explorer),
    painted: ++dom.painted,
  });
}
