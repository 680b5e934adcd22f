// Changes what is shown: each choice of kind, head, view and cell, and what follows from it.

import { between } from "../shared/numbers.js";
import { saveAddress, viewOf } from "./address.js";
import { HIDEABLE, MASSES } from "./choices.js";
import { COLUMN_SIDE, ROW_SIDE } from "./data.js";
import { currentMap, itemOfPiece, itemsOf, NOTHING } from "./focus.js";
import { paintLinesNote } from "./lines.js";
import { ROLLOUT } from "./maps.js";
import { paintAxisNote } from "./notes.js";
import { paintOptions } from "./options.js";
import { markChosenHead, paintOverview } from "./overview.js";
import { showOverview } from "./overview_picture.js";
import { paintAll, paintFocus, paintHead, paintPicture } from "./paint.js";
import { paintZoom, placeMap } from "./picture.js";
import { announce } from "./readout.js";
import { forgetRequest, pinExact, request } from "./requests.js";
import { lastStep } from "./steps.js";
import { allHeads, allLayers, QUANTITY_TITLES } from "./words.js";

/* What was last chosen under each component key: leaving the page and coming back finds it again. */
export const lastViews = new Map();

export function chooseKind(explorer, kind) {
  if (kind === explorer.kind) return;
  const { data, quantity } = explorer;
  // Decoder and cross share their rows, so a kept row stays; anything else would point at a different word.
  const sharesRows = ROW_SIDE[kind] === ROW_SIDE[explorer.kind];
  const every = allLayers(explorer);
  const layers = data.layers[kind];
  explorer.kept = sharesRows ? { query: explorer.kept.query, key: null } : NOTHING;
  explorer.kind = kind;
  explorer.layer = every && quantity !== ROLLOUT ? layers : between(0, explorer.layer, layers - 1);
  if (explorer.zoom > 1) explorer.geometries = {};
  explorer.zoom = 1;
  explorer.preview = { ...NOTHING, note: null };
  paintAll(explorer);
  rememberView(explorer);
}

export function chooseHead(explorer, layer, head) {
  explorer.layer = layer;
  explorer.head = head;
  paintHead(explorer);
  rememberView(explorer);
}

function rememberView(explorer) {
  explorer.chosen = true;
  pinExact(explorer);
  const { givenView: given, data } = explorer;
  lastViews.set(explorer.key, { given, view: viewOf(explorer), sentence: data.sentence });
  saveAddress(explorer);
}

export function chooseView(explorer, view) {
  if (view === explorer.view) return;
  explorer.view = view;
  explorer.preview = { ...NOTHING, note: null };
  paintOptions(explorer);
  placeMap(explorer);
  paintZoom(explorer);
  paintAxisNote(explorer);
  paintPicture(explorer);
  rememberView(explorer);
}

/* The kept row and column stay: those of the first piece, or the word that holds it. */
export function chooseUnit(explorer, unit) {
  if (unit === explorer.unit) return;
  const before = currentMap(explorer);
  const { kept, kind } = explorer;
  const pieceOf = (items, index) => (index === null ? null : items[index].members[0]);
  const [query, key] = [pieceOf(before.rows, kept.query), pieceOf(before.columns, kept.key)];
  explorer.unit = unit;
  explorer.zoom = 1;
  explorer.kept = {
    query: query === null ? null : itemOfPiece(explorer, ROW_SIDE[kind], query),
    key: key === null ? null : itemOfPiece(explorer, COLUMN_SIDE[kind], key),
  };
  explorer.preview = { ...NOTHING, note: null };
  explorer.geometries = {};
  paintAll(explorer);
  rememberView(explorer);
}

export function chooseHidden(explorer, name, hidden) {
  explorer.hide = new Set(HIDEABLE.filter((part) => (part === name ? hidden : explorer.hide.has(part))));
  paintAll(explorer);
  rememberView(explorer);
}

export function chooseOrder(explorer, sort) {
  explorer.sort = sort;
  showOverview(explorer);
  paintOverview(explorer);
  markChosenHead(explorer);
  paintOptions(explorer);
  paintFocus(explorer);
  rememberView(explorer);
}

export function chooseCombine(explorer, combine) {
  explorer.combine = combine;
  paintAll(explorer);
  rememberView(explorer);
}

/*
 * Another quantity than the weights is worked out where the model is: it is asked for once, shown when it comes, and
 * the picture stays what it is until then.
 */
export function chooseQuantity(explorer, quantity) {
  explorer.wanted = quantity;
  forgetRequest(explorer, "quantity");
  if (!explorer.data.quantities[quantity]) askQuantity(explorer);
  if (quantity === explorer.quantity || explorer.requests.quantity) return paintOptions(explorer);
  showQuantity(explorer, quantity);
  paintAll(explorer);
  return rememberView(explorer);
}

export function askQuantity(explorer) {
  const { wanted } = explorer;
  request(explorer, "quantity", wanted, {
    what: `What was chosen, ${QUANTITY_TITLES[wanted]},`,
    take: ({ quantities }) => wanted in quantities,
    giveUp: () => {
      // Python forgets it too: else it would try again with each sentence.
      explorer.wanted = explorer.quantity;
      explorer.ask("quantity", explorer.wanted);
      paintOptions(explorer);
    },
  });
}

/* Rollout has no heads and is one map a layer already: the head chosen before comes back when it goes. */
export function showQuantity(explorer, quantity) {
  const { data, kind } = explorer;
  const last = data.layers[kind] - 1;
  if (quantity === ROLLOUT) {
    explorer.behind ??= { head: allHeads(explorer) ? null : explorer.head, everyLayer: allLayers(explorer) };
    explorer.head = data.heads;
    explorer.layer = Math.min(explorer.layer, last);
  } else if (explorer.behind) {
    const { head, everyLayer } = explorer.behind;
    explorer.head = head === null ? data.heads : Math.min(head, data.heads - 1);
    if (everyLayer && explorer.layer === last) explorer.layer = last + 1;
    explorer.behind = null;
  }
  explorer.quantity = quantity;
}

export function chooseMass(explorer, mass) {
  explorer.mass = between(MASSES.least, mass, MASSES.most);
  paintLinesNote(explorer);
  paintPicture(explorer);
  rememberView(explorer);
}

export function showPreview(explorer, query, key, note = null) {
  const { preview } = explorer;
  if (preview.query === query && preview.key === key && preview.note === note) return;
  explorer.preview = { query, key, note };
  paintFocus(explorer);
}

export const endPreview = (explorer) => showPreview(explorer, null, null);

/* Keeping what is already kept lets go of it. A kept row of the decoder is also the step of the strip. */
export function keep(explorer, query, key) {
  const same = explorer.kept.query === query && explorer.kept.key === key;
  explorer.stepping = false;
  setKept(explorer, same ? NOTHING : { query, key });
}

export function letGo(explorer) {
  explorer.stepping = false;
  setKept(explorer, NOTHING);
}

function setKept(explorer, kept) {
  explorer.kept = kept;
  explorer.preview = { ...NOTHING, note: null };
  if (kept.query !== null && explorer.kind !== "encoder") {
    const { members } = itemsOf(explorer, "produced")[kept.query];
    if (!members.includes(explorer.step)) explorer.step = members[0];
  }
  paintFocus(explorer);
  if (!explorer.playing) announce(explorer);
  rememberView(explorer);
}

/* Goes to a step: its row is kept, where the kind has one, and what is not yet written is greyed. */
export function goToStep(explorer, step) {
  explorer.step = between(0, step, lastStep(explorer));
  explorer.stepping = true;
  const query = itemOfPiece(explorer, "produced", explorer.step);
  setKept(explorer, explorer.kind === "encoder" ? NOTHING : { query, key: null });
}
