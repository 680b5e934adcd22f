// Mounts the explorer, owns its state and repaints on new data, theme or size.

import { sameBytes, unpack } from "../shared/bytes.js";
import { partsOf } from "../shared/dom.js";
import { NO_CELL } from "../shared/grid.js";
import { lastStates, mounts, onceFontsCome } from "../shared/mounts.js";
import { renewTheme } from "../shared/theme.js";
import { buildBadge, paintBadge } from "./badge.js";
import { listenToFolds, listenToOptions, listenToSteps } from "./controls.js";
import { decodePayload, hasProbabilities, kindsOf, withAnswer } from "./data.js";
import { buildExports, listenToExport } from "./export.js";
import { buildEditedTarget, spokenTranslation } from "./edited_target.js";
import { explainControls } from "./help.js";
import { listenToPanels } from "./panels.js";
import { listenToCopying } from "./copy.js";
import { atHead, currentMap, NO_PREVIEW } from "./focus.js";
import { listenToKeyboard } from "./keyboard.js";
import { layOut, layOutSentences, watchSize } from "./layout.js";
import { linkParameters, listenToHeadLink, listenToNavigation, scheduleLink } from "./link.js";
import { mapOf, WEIGHTS } from "./maps.js";
import { measure } from "./measures.js";
import { openAtLargestEffect, scheduleNextStep, takeNextStep } from "./next_step.js";
import { buildKinds, buildQuantities } from "./options.js";
import { buildOverview } from "./overview.js";
import { overviewOf } from "./overview_picture.js";
import { listenToOverview, listenToPicture, listenToSentences } from "./pointer.js";
import { mapPixels } from "./raster.js";
import { announce, byTouch } from "./readout.js";
import { cancelRequests, pinExact, settleEdit, settleRequest, sendRequest } from "./requests.js";
import { buildSentences, resetTokenStyles } from "./sentences.js";
import { buildStatistics } from "./statistics.js";
import { listenToStrips, scheduleStrip } from "./strip.js";
import { buildSteps, lastStep, pause } from "./steps.js";
import { broadcastData, listenToGroup } from "./together.js";
import { paint } from "./paint.js";
import { askEffects, askQuantity, follow, unpin, update } from "./update.js";
import { FIRST_VIEW, pinnedOfLink, nextView, sameTokens, viewOfLink, viewOfOther } from "./view.js";
import { buildWhatIf, listenToWhatIf, requestEdit } from "./what_if.js";
import { listenToZoom } from "./zoom.js";

function createExplorer(parent, key, host) {
  const root = parent.querySelector(".explorer");
  const parts = partsOf(root);
  /** @type {Explorer} */
  const explorer = {
    key,
    host,
    bytes: null,
    /* Answers about a record that is not shown yet, by request. */
    early: new Map(),
    /* Decoded payload (frozen, one object per record) and the page's theme. */
    data: null,
    theme: null,
    /* Everything that a link stores: a frozen object, replaced at every change. */
    view: FIRST_VIEW,
    /* Undo history. */
    past: [],
    /* Transient state, not stored in links: hovered cell, decoding step, requested quantity. */
    now: { preview: NO_PREVIEW, step: 0, stepping: false, playing: 0, wanted: WEIGHTS },
    /* Measured layout. */
    layout: {
      size: "",
      fitted: "",
      room: 0,
      tallest: 0,
      presented: 0,
      reserved: 0,
      tickWidth: 0,
      bars: false,
      means: false,
      zoom: 1,
      places: null,
      geometries: {},
      linesGeometry: null,
      overviews: {},
    },
    /* DOM elements, and what was last written to them. */
    dom: {
      root,
      parts,
      base: document.createElement("canvas"),
      words: null,
      thumbnails: [],
      headLabels: [],
      orderLabel: null,
      layerLabels: [],
      overviewMaps: null,
      overviewFocus: null,
      overview: null,
      columns: [],
      stepShown: -1,
      painted: 0,
    },
    /*
     * Whether the visitor has chosen anything here, the last view that a payload gave and its turn, and whether back/forward
     * navigation is waiting for its data. Then whether no link named the view that the page opened with, the record whose
     * effects were requested unasked, the one whose states were, and the second head that the next step switched off.
     */
    memory: { chosen: false, given: "", returning: false, turn: undefined, suggested: false, asked: "", readFor: "", repair: null },
    requests: {},
    warming: 0,
    stepTimer: 0,
    stripTimer: 0,
    linkTimer: 0,
  };
  parts.unpin.addEventListener("click", () => unpin(explorer));
  if (byTouch) parts.unpin.textContent = "Unpin";
  listenToSentences(explorer);
  listenToSteps(explorer);
  listenToFolds(explorer);
  listenToOptions(explorer);
  listenToOverview(explorer);
  listenToZoom(explorer);
  listenToPicture(explorer);
  listenToExport(explorer);
  listenToPanels(explorer);
  explainControls(explorer);
  listenToCopying(explorer);
  listenToWhatIf(explorer);
  listenToStrips(explorer, update);
  parts["next-step"].addEventListener("click", () => takeNextStep(explorer, update, requestEdit));
  const stopListening = [
    listenToHeadLink(explorer),
    listenToNavigation(explorer),
    listenToKeyboard(explorer),
    watchSize(explorer),
    listenToGroup(explorer, follow, rescale),
    host.listen((answer) => receive(explorer, answer)),
  ];
  onceFontsCome(root, () => layOut(explorer));
  explorer.destroy = () => {
    pause(explorer);
    for (const stop of stopListening) stop();
    window.cancelIdleCallback?.(explorer.warming);
    cancelRequests(explorer);
    clearTimeout(explorer.linkTimer);
    clearTimeout(explorer.stepTimer);
    clearTimeout(explorer.stripTimer);
  };
  return explorer;
}

/**
 * Apply a new payload. A new sentence keeps the chosen view where possible and drops the pinned cell. Returns whether the
 * sentence is still the same, so that its layout can stay.
 * @param {Explorer} explorer
 */
function applyPayload(explorer, bytes) {
  const { now, memory, dom, layout } = explorer;
  const before = explorer.data;
  const raw = unpack(bytes);
  const data = decodePayload(raw, before);
  const same = before?.sentence === data.sentence;
  const sameWords = Boolean(before) && sameTokens(data, before);
  Object.assign(explorer, { bytes, data });
  // Open with the view of the payload until the visitor has chosen one.
  const isOwn = !memory.chosen || raw.view.turn !== memory.turn; // an example opens with its own head
  memory.turn = raw.view.turn;
  const isReturning = memory.returning; // to the view of a link, not to one that the page suggests
  const opens = !before || isReturning || (!sameWords && isOwn && raw.view.q !== undefined);
  const pinned = opens ? openView(explorer, raw.view) : null;
  if (!opens) explorer.view = viewOfOther(data, explorer.view, before);
  if (!same) cancelRequests(explorer, sameWords ? "edit" : null);
  buildKinds(explorer);
  buildQuantities(explorer);
  settleEdit(explorer);
  const failed = applyEarlyAnswers(explorer);
  settleQuantity(explorer, failed);
  broadcastData(explorer);
  if (before && !same) forgetQuantity(explorer);
  askEffects(explorer);
  if (!sameWords) {
    now.step = lastStep(explorer);
    now.stepping = false;
    layout.zoom = 1;
    explorer.past = [];
  }
  if (pinned) explorer.view = nextView(data, explorer.view, { pinned });
  if (pinned?.query != null && explorer.view.kind !== "encoder") [now.step] = currentMap(explorer).rows[pinned.query].members;
  if (!same) explorer.memory.suggested = opens && !isReturning && Boolean(raw.view.suggested);
  now.preview = NO_PREVIEW;
  openAtLargestEffect(explorer);
  dom.root.dataset.sentence = data.sentence;
  dom.root.classList.toggle("weights-only", !hasProbabilities(data));
  dom.parts.inside.classList.toggle("nowhere", !explorer.host.headPage);
  buildBadge(explorer);
  buildExports(explorer);
  buildWhatIf(explorer);
  // A response to a request changes no token: leave the sentences, and keyboard focus, alone.
  if (same) return true;
  buildSentences(explorer);
  buildSteps(explorer);
  buildOverview(explorer);
  buildStatistics(explorer);
  buildEditedTarget(explorer);
  return false;
}

/**
 * Apply the payload's view, completed from the page's link. The view that the visitor chose earlier wins unless the
 * payload gives a new one. After back or forward navigation, whatever the link leaves out gets its default. Returns the
 * cell to pin.
 * @param {Explorer} explorer
 */
function openView(explorer, given) {
  const { data, memory, now } = explorer;
  const last = lastStates.get(explorer.key);
  memory.given = JSON.stringify(given);
  const { returning } = memory;
  const again = last?.given === memory.given && !returning;
  memory.returning = false;
  const link = again ? last.link : { ...linkParameters(explorer), ...given };
  const { view, quantity } = viewOfLink(data, returning ? FIRST_VIEW : explorer.view, link);
  explorer.view = view;
  now.wanted = quantity ?? (returning ? WEIGHTS : now.wanted);
  return again && last.sentence !== data.sentence ? NO_CELL : pinnedOfLink(data, view, link);
}

/**
 * Show the wanted quantity if the data holds it. Otherwise show weights and request it, unless it has just `failed`.
 * @param {Explorer} explorer
 */
function settleQuantity(explorer, failed = false) {
  const { data, now } = explorer;
  if (!data.offered.includes(now.wanted) || (failed && !data.quantities[now.wanted])) now.wanted = WEIGHTS;
  const { wanted } = now;
  explorer.view = nextView(data, explorer.view, { quantity: data.quantities[wanted] ? wanted : WEIGHTS });
  if (!data.quantities[wanted] && !explorer.requests.quantity) askQuantity(explorer);
}

/** Tell the host when a quantity that came with a new sentence is no longer wanted. @param {Explorer} explorer */
function forgetQuantity(explorer) {
  const { data, host, now } = explorer;
  const unwanted = Object.keys(data.quantities).some((name) => name !== WEIGHTS && name !== now.wanted);
  if (unwanted && host.answers.has("quantity")) sendRequest(explorer, "quantity", { quantity: now.wanted });
}

/**
 * Receive an answer. If its record is not shown yet, keep it until then.
 * @param {Explorer} explorer
 * @param {Uint8Array} bytes
 */
function receive(explorer, bytes) {
  /** @type {Answer} */
  const answer = unpack(bytes);
  if (answer.sentence !== explorer.data?.sentence) {
    explorer.early.set(answer.name, answer);
    return;
  }
  if (answer.name === "checks") {
    showChecks(explorer, answer);
    return;
  }
  if (answer.name === "lens") {
    showReadings(explorer, answer);
    return;
  }
  explorer.data = withAnswer(explorer.data, answer);
  if (answer.name === "again") {
    showNewTranslation(explorer);
    return;
  }
  const failed = settleRequest(explorer, answer);
  openAtLargestEffect(explorer);
  settleQuantity(explorer, failed && answer.name === "quantity");
  askEffects(explorer);
  broadcastData(explorer);
  showData(explorer);
}

/** Show checks that were made after the maps were painted; the maps stay. @param {Explorer} explorer @param {Answer} answer */
function showChecks(explorer, { checks, checked }) {
  explorer.data = Object.freeze({ ...explorer.data, checks, checked });
  buildBadge(explorer);
  paintBadge(explorer);
  warmUp(explorer);
}

/** Show what the states say, which arrives after the maps were painted; the maps stay. @param {Explorer} explorer @param {Answer} answer */
function showReadings(explorer, answer) {
  const { maps, peers } = explorer.data;
  explorer.data = Object.freeze({ ...withAnswer(explorer.data, answer), maps, peers });
  settleRequest(explorer, answer);
  layOutSentences(explorer);
  warmUp(explorer);
}

/** Show the translation under the edits, which arrives after their maps were painted. @param {Explorer} explorer */
function showNewTranslation(explorer) {
  buildEditedTarget(explorer);
  buildWhatIf(explorer);
  paint(explorer);
  announce(explorer, spokenTranslation(explorer.data.again));
  scheduleNextStep(explorer);
}

/** Apply the answers that came before their record. Returns whether a quantity has failed. @param {Explorer} explorer */
function applyEarlyAnswers(explorer) {
  let failed = false;
  for (const [name, answer] of explorer.early) {
    if (answer.sentence !== explorer.data.sentence) continue;
    explorer.early.delete(name);
    explorer.data = withAnswer(explorer.data, answer);
    if (settleRequest(explorer, answer) && name === "quantity") failed = true;
  }
  return failed;
}

/** Repaint with new data or another theme. @param {Explorer} explorer */
function showData(explorer) {
  resetTokenStyles(explorer);
  layOut(explorer);
  afterData(explorer);
}

/** Repaint with new numbers of the same sentence, such as another snapshot of a network. @param {Explorer} explorer */
function showNumbers(explorer) {
  explorer.layout.overviews = {};
  paint(explorer);
  afterData(explorer);
}

/** @param {Explorer} explorer */
function afterData(explorer) {
  pinExact(explorer);
  warmUp(explorer);
  scheduleStrip(explorer);
  scheduleNextStep(explorer);
  scheduleLink(explorer);
}

/**
 * Prepare the maps of all kinds while the browser is idle, so that the first switch is fast as well.
 * @param {Explorer} explorer
 */
function warmUp(explorer) {
  // Safari does not support requestIdleCallback.
  if (!window.requestIdleCallback) return;
  cancelIdleCallback(explorer.warming);
  const { data } = explorer;
  const make = (kind, layer, head) => {
    const map = mapOf(data, { ...atHead(explorer.view, layer, head), kind });
    measure(map);
    mapPixels(map, explorer.theme, explorer.view.hide);
  };
  const waiting = kindsOf(data).flatMap((kind) => [
    ...[...Array(data.layers[kind] + 1).keys()].flatMap((layer) =>
      [...Array(data.headsOf[kind]).keys(), data.heads].map((head) => () => make(kind, layer, head)),
    ),
    () => overviewOf({ ...explorer, view: { ...explorer.view, kind } }),
  ]);
  const go = (deadline) => {
    while (waiting.length && deadline.timeRemaining() > 2 && explorer.data === data) waiting.shift()();
    if (waiting.length && explorer.data === data) explorer.warming = requestIdleCallback(go);
  };
  explorer.warming = requestIdleCallback(go);
}

/** Repaint after a change of scale; weights always use 0 to 1. @param {Explorer} explorer */
function rescale(explorer) {
  if (explorer.view.quantity === WEIGHTS) return;
  resetTokenStyles(explorer);
  if (explorer.dom.root.clientWidth) layOut(explorer);
  else explorer.layout.size = ""; // hidden: laid out when shown again
}

const explorerAt = mounts(createExplorer);

/* Show a packed payload; call it again for other data, another theme or another host. */
export function render({ data, parentElement, key, host }) {
  const explorer = explorerAt(parentElement, key, host);
  explorer.host = host;
  const themeChanged = renewTheme(explorer, explorer.dom.root);
  const dataChanged = !sameBytes(explorer.bytes, data);
  const isSameSentence = dataChanged && applyPayload(explorer, data);
  if (isSameSentence && !themeChanged) showNumbers(explorer);
  else if (dataChanged || themeChanged) showData(explorer);
  else scheduleLink(explorer);
  return explorer.destroy;
}
