// Paints again what a change touches, in three sizes: everything, one head, the place looked at.

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
import { lookingWords, mapTitle } from "./words.js";

/*
 * Three sizes of a paint. In each the canvas comes first: once words have changed, setting its font would make the
 * browser work out all styles at once.
 */

/* Everything that depends on the kind, and on how maps are made. */
export function paintAll(explorer) {
  placeMap(explorer);
  drawBase(explorer);
  paintLive(explorer);
  showOverview(explorer);
  paintOptions(explorer);
  paintZoom(explorer);
  paintOverview(explorer);
  describeHead(explorer);
  describeFocus(explorer);
}

/* Everything that depends on the layer and head. */
export function paintHead(explorer) {
  drawBase(explorer);
  paintLive(explorer);
  showOverview(explorer);
  describeHead(explorer);
  describeFocus(explorer);
}

/* Everything that depends on the place looked at. */
export function paintFocus(explorer) {
  paintLive(explorer);
  if (overviewOf(explorer) !== explorer.overview) {
    showOverview(explorer);
    paintOverview(explorer);
  }
  describeFocus(explorer);
}

export function paintPicture(explorer) {
  drawBase(explorer);
  paintFocus(explorer);
}

function describeHead(explorer) {
  const { parts, kind } = explorer;
  parts.title.replaceChildren(mapTitle(explorer), element("small", "", lookingWords(explorer)[kind]));
  markChosenHead(explorer);
  paintBadge(explorer);
  paintAxisNote(explorer);
  paintStatistics(explorer);
}

/* The last step of every paint: words about the place looked at, and the attributes that tell it. */
function describeFocus(explorer) {
  const { root, data, kind, layer, head, combine } = explorer;
  const { query, key } = focusOf(explorer);
  paintSentences(explorer);
  paintSteps(explorer);
  paintReadout(explorer);
  paintOverviewFocus(explorer);
  const cell = query !== null && key !== null;
  root.dataset.kind = kind;
  root.dataset.layer = layer < data.layers[kind] ? layer : combine;
  root.dataset.head = head < data.heads ? head : combine;
  root.dataset.query = query ?? "";
  root.dataset.key = key ?? "";
  root.dataset.weight = cell ? valueAt(currentMap(explorer), query, key).toFixed(4) : "";
  root.dataset.step = shownStep(explorer);
  root.dataset.painted = ++explorer.painted;
}
