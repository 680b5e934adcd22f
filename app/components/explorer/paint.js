// Repaints the parts that a change affects; a table lists the state that each part shows.

import { element } from "../shared/dom.js";
import { paintBadge } from "./badge.js";
import { editWords } from "./edited.js";
import { placeEditedTarget } from "./edited_target.js";
import { currentMap, focusOf } from "./focus.js";
import { valueAt } from "./maps.js";
import { paintNextStep } from "./next_step.js";
import { paintAxisNote } from "./notes.js";
import { paintOptions } from "./options.js";
import { markChosenHead, paintOverview } from "./overview.js";
import { overviewOf, paintCaptionLine, paintOverviewFocus, showOverview } from "./overview_picture.js";
import { drawBase, paintLive, paintZoom, placeMap } from "./picture.js";
import { paintReadout } from "./readout.js";
import { paintSentences } from "./sentences.js";
import { paintStatistics } from "./statistics.js";
import { paintSteps, shownStep } from "./steps.js";
import { placeStrips } from "./strip.js";
import { paintEditTokens, paintWhatIf } from "./what_if.js";
import { lookingWords, mapTitle } from "./words.js";

/* State that determines the maps (MAPS) and which of them is chosen (HEAD). */
const MAPS = ["kind", "unit", "hide", "combine", "quantity"];
const HEAD = [...MAPS, "layer", "head"];

/**
 * Ordered: canvases first, because setting a canvas font after a DOM change forces a style recalculation.
 * @type {[(explorer: Explorer) => void, string[]][]}
 */
const PAINTS = [
  [placeMap, [...MAPS, "picture", "zoom"]],
  [drawBase, [...HEAD, "picture", "mass", "zoom"]],
  [paintLive, [...HEAD, "picture", "mass", "zoom", "pinned", "now"]],
  [showOverview, [...HEAD, "sort", "wholeTranslation"]],
  [paintOptions, [...MAPS, "picture", "sort", "wanted"]],
  [paintZoom, [...MAPS, "picture", "zoom"]],
  [paintOverview, [...MAPS, "sort", "wholeTranslation"]],
  [paintCaptionLine, [...HEAD, "sort", "wholeTranslation", "pinned"]],
  [markChosenHead, [...HEAD, "sort", "wholeTranslation", "pinned"]],
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
  [paintNextStep, [...HEAD, "pinned"]],
  [placeEditedTarget, []],
  [placeStrips, []],
  [paintEditTokens, []],
];

/**
 * Repaint the parts that depend on `changed`: names of view values, "zoom", or "now" for transient state. Without it,
 * repaint everything.
 * @param {Explorer} explorer
 */
export function paint(explorer, changed = null) {
  const touches = (shown) => changed === null || shown.some((name) => changed.includes(name));
  for (const [part, shown] of PAINTS) if (touches(shown)) part(explorer);
  tell(explorer);
}

/** Captions depend on the pinned row or column. @param {Explorer} explorer */
function paintCaptions(explorer) {
  if (overviewOf(explorer) === explorer.dom.overview) return;
  showOverview(explorer);
  paintOverview(explorer);
}

/** @param {Explorer} explorer */
function paintTitle(explorer) {
  const { data, view } = explorer;
  const { parts } = explorer.dom;
  const looking = element("small", "", lookingWords(data)[view.kind]);
  const { title, note } = editWords(data, view);
  parts.title.replaceChildren(mapTitle(data, view), ...(title ? [element("b", "edited", ` ${title}`)] : []), looking);
  parts["map-note"].textContent = note;
  parts["map-note"].hidden = !note;
}

/** Publish what is shown as data attributes; the last step of every paint. @param {Explorer} explorer */
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
