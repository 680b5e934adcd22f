// State changes that a visitor makes: another view, cell, step or quantity, and undo.

import { NO_CELL, samePlace } from "../shared/grid.js";
import { lastStates } from "../shared/mounts.js";
import { between } from "../shared/numbers.js";
import { HIDEABLE } from "./choices.js";
import { itemOfToken, itemsOf, NO_PREVIEW } from "./focus.js";
import { layOutSentences } from "./layout.js";
import { scheduleLink } from "./link.js";
import { WEIGHTS } from "./maps.js";
import { paint } from "./paint.js";
import { announce } from "./readout.js";
import { cancelRequest, pinExact, request, sendRequest } from "./requests.js";
import { lastStep } from "./steps.js";
import { scheduleStrip } from "./strip.js";
import { broadcastView } from "./together.js";
import { FIRST_VIEW, linkOf, nextView, pinnedOfLink, viewOfLink } from "./view.js";
import { QUANTITY_TITLES } from "./words.js";

/* Maximum number of undo steps. */
const LONGEST_PAST = 100;

/** Change the view: compute the next one, repaint what differs, remember it. @param {Explorer} explorer */
export function update(explorer, change) {
  const before = explorer.view;
  explorer.memory.returning = false;
  const view = nextView(explorer.data, before, change);
  const names = Object.keys(view).filter((name) => view[name] !== before[name]);
  if (names.length && !explorer.now.playing) {
    explorer.past.push(before);
    if (explorer.past.length > LONGEST_PAST) explorer.past.shift();
  }
  show(explorer, view, names);
  shareView(explorer);
}

/** Broadcast the view to the group, with the quantity that may still be pending. @param {Explorer} explorer */
const shareView = (explorer) =>
  broadcastView(explorer, linkOf(explorer.data, { ...explorer.view, quantity: explorer.now.wanted }));

/**
 * Show the view of another explorer, limited to the layers, heads and quantities that this explorer has.
 * @param {Explorer} explorer
 * @param {Link} link
 */
export function follow(explorer, link) {
  const { data, now, view: before } = explorer;
  const { picture, unit, hide, sort, combine, states, wholeTranslation } = FIRST_VIEW;
  /** @type {View} */
  const usual = { ...before, picture, unit, hide, sort, combine, states, wholeTranslation, quantity: WEIGHTS, beforeRollout: null, pinned: NO_CELL };
  const { view, quantity } = viewOfLink(data, Object.freeze(usual), link);
  const wanted = data.offered.includes(quantity) ? quantity : WEIGHTS;
  if (wanted !== now.wanted) cancelRequest(explorer, "quantity");
  now.wanted = wanted;
  now.stepping = false;
  const pinned = pinnedOfLink(data, view, link);
  const next = nextView(data, view, { pinned, quantity: data.quantities[wanted] ? wanted : WEIGHTS });
  if (!data.quantities[wanted] && !explorer.requests.quantity) askQuantity(explorer);
  show(explorer, next, [...Object.keys(next).filter((name) => next[name] !== before[name]), "wanted"]);
}

/** Undo the last change of the view. @param {Explorer} explorer */
export function undo(explorer) {
  const view = explorer.past.pop();
  if (!view) return;
  explorer.now.wanted = view.quantity;
  explorer.now.stepping = false;
  show(explorer, view, Object.keys(view).filter((name) => view[name] !== explorer.view[name]));
  shareView(explorer);
}

/* A change of these invalidates the hovered cell. */
const CLEARING_PREVIEW = ["kind", "unit", "picture", "pinned"];

/** @param {Explorer} explorer @param {View} view */
function show(explorer, view, names) {
  const { now, layout } = explorer;
  const unit = names.includes("unit");
  explorer.view = view;
  if (names.includes("kind") || unit) {
    if (unit || layout.zoom > 1) layout.geometries = {};
    layout.zoom = 1;
  }
  if (names.some((name) => CLEARING_PREVIEW.includes(name))) now.preview = NO_PREVIEW;
  // A pinned produced row is also the current step.
  if (view.pinned.query !== null && view.kind !== "encoder") {
    const { members } = itemsOf(explorer, "produced")[view.pinned.query];
    if (!members.includes(now.step)) [now.step] = members;
  }
  paint(explorer, [...names, "now"]);
  if (names.includes("states")) {
    layOutSentences(explorer);
    scheduleStrip(explorer);
  }
  remember(explorer);
}

/** @param {Explorer} explorer */
function remember(explorer) {
  const { data, memory, key } = explorer;
  memory.chosen = true;
  pinExact(explorer);
  lastStates.set(key, { given: memory.given, link: linkOf(data, explorer.view), sentence: data.sentence });
  scheduleLink(explorer);
}

/** @param {Explorer} explorer */
export function hideColumns(explorer, name, hidden) {
  const { hide } = explorer.view;
  update(explorer, { hide: new Set(HIDEABLE.filter((part) => (part === name ? hidden : hide.has(part)))) });
}

/**
 * Show a quantity; if it is missing, request it and keep the current picture until it arrives.
 * @param {Explorer} explorer
 */
export function chooseQuantity(explorer, quantity) {
  explorer.now.wanted = quantity;
  cancelRequest(explorer, "quantity");
  if (!explorer.data.quantities[quantity]) askQuantity(explorer);
  if (!explorer.requests.quantity && quantity !== explorer.view.quantity) return update(explorer, { quantity });
  paint(explorer, ["wanted"]);
  shareView(explorer);
}

/** @param {Explorer} explorer */
export function askQuantity(explorer) {
  const { now } = explorer;
  request(explorer, "quantity", { quantity: now.wanted }, {
    what: `The chosen quantity (${QUANTITY_TITLES[now.wanted]})`,
    take: ({ quantities }) => now.wanted in quantities,
    giveUp: () => {
      // Tell the host too: otherwise every new sentence would try again.
      now.wanted = explorer.view.quantity;
      sendRequest(explorer, "quantity", { quantity: now.wanted });
      paint(explorer, ["wanted"]);
    },
  });
}

/** Request the ablation effects that sorting by effect needs. @param {Explorer} explorer */
export function askEffects(explorer) {
  const { data, view, requests, host } = explorer;
  if (view.sort !== "effect" || data.effects || !host.answers.has("effects") || requests.effects) return;
  request(explorer, "effects", { sentence: data.sentence }, {
    what: "The effect of each head",
    take: ({ effects }) => effects !== null,
    giveUp: () => update(explorer, { sort: "layer" }),
  });
}

/** @param {Explorer} explorer */
export function showPreview(explorer, query, key, note = null) {
  const { preview } = explorer.now;
  if (samePlace(preview, { query, key }) && preview.note === note) return;
  explorer.now.preview = { query, key, note };
  paint(explorer, ["now"]);
}

/** @param {Explorer} explorer */
export const endPreview = (explorer) => showPreview(explorer, null, null);

/** Pin a cell, row or column; pinning it again unpins it. @param {Explorer} explorer */
export function pin(explorer, query, key) {
  explorer.now.stepping = false;
  setPinned(explorer, samePlace(explorer.view.pinned, { query, key }) ? NO_CELL : { query, key });
}

/** @param {Explorer} explorer */
export function unpin(explorer) {
  explorer.now.stepping = false;
  setPinned(explorer, NO_CELL);
}

/** @param {Explorer} explorer */
function setPinned(explorer, pinned) {
  const { now } = explorer;
  now.preview = NO_PREVIEW;
  update(explorer, { pinned });
  if (!now.playing) announce(explorer);
}

/** Go to a step: pin its row if the kind has one, and grey out tokens not generated yet. @param {Explorer} explorer */
export function goToStep(explorer, step) {
  const { now } = explorer;
  now.step = between(0, step, lastStep(explorer));
  now.stepping = true;
  const query = itemOfToken(explorer, "produced", now.step);
  setPinned(explorer, explorer.view.kind === "encoder" ? NO_CELL : { query, key: null });
}
