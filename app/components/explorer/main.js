// Mounts the explorer, owns its state and repaints on new data, theme or size.

import { sameBytes, unpack } from "../shared/bytes.js";
import { partsOf } from "../shared/dom.js";
import { NO_CELL } from "../shared/grid.js";
import { lastStates, mounts, onceFontsCome } from "../shared/mounts.js";
import { readTheme } from "../shared/theme.js";
import { linkParameters, listenToHistory, listenToInside, saveAddress } from "./address.js";
import { buildBadge } from "./badge.js";
import { listenToOptions, listenToSteps } from "./controls.js";
import { decodePayload, KINDS } from "./data.js";
import { buildExports, listenToExport } from "./export.js";
import { explainControls } from "./help.js";
import { listenToPanels } from "./panels.js";
import { listenToCopying } from "./copy.js";
import { atHead, currentMap, NO_PREVIEW } from "./focus.js";
import { listenToKeyboard } from "./keyboard.js";
import { layOut, watchSize } from "./layout.js";
import { mapOf, WEIGHTS } from "./maps.js";
import { measure } from "./measures.js";
import { buildQuantities } from "./options.js";
import { buildOverview } from "./overview.js";
import { overviewOf } from "./overview_picture.js";
import { listenToOverview, listenToPicture, listenToSentences } from "./pointer.js";
import { mapPixels } from "./raster.js";
import { byTouch } from "./readout.js";
import { cancelRequests, pinExact, settleRequests } from "./requests.js";
import { buildSentences, resetTokenStyles } from "./sentences.js";
import { buildStatistics } from "./statistics.js";
import { buildSteps, lastStep, pause } from "./steps.js";
import { broadcastData, listenToGroup } from "./together.js";
import { askEffects, askQuantity, follow, unpin } from "./update.js";
import { FIRST_VIEW, pinnedOfLink, nextView, sameTokens, viewOfLink, viewOfOther } from "./view.js";
import { buildWhatIf, listenToWhatIf } from "./what_if.js";
import { listenToZoom } from "./zoom.js";

function createExplorer(parent, key) {
  const root = parent.querySelector(".explorer");
  const parts = partsOf(root);
  /** @type {Explorer} */
  const explorer = {
    key,
    bytes: null,
    /* Decoded payload (frozen, one object per record) and the page's theme. */
    data: null,
    theme: null,
    /* Everything that a link stores: frozen, changed by `update` alone. */
    view: FIRST_VIEW,
    /* Undo history. */
    past: [],
    /* Transient state, not stored in links: hovered cell, decoding step, requested quantity. */
    now: { preview: NO_PREVIEW, step: 0, stepping: false, playing: 0, wanted: WEIGHTS },
    /* Measured layout. */
    layout: {
      size: "",
      room: 0,
      tallest: 0,
      reserved: 0,
      tickWidth: 0,
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
      stepShown: -1,
      painted: 0,
    },
    /*
     * Whether the visitor has chosen anything here, the last view that Python gave, and whether back/forward navigation
     * is waiting for its data.
     */
    memory: { chosen: false, given: "", returning: false },
    setState: () => {},
    trigger: () => {},
    requests: {},
    warming: 0,
    addressTimer: 0,
    pathname: window.location.pathname,
  };
  parts.unpin.addEventListener("click", () => unpin(explorer));
  if (byTouch) parts.unpin.textContent = "Unpin";
  listenToSentences(explorer);
  listenToSteps(explorer);
  listenToOptions(explorer);
  listenToOverview(explorer);
  listenToZoom(explorer);
  listenToPicture(explorer);
  listenToExport(explorer);
  listenToPanels(explorer);
  explainControls(explorer);
  listenToCopying(explorer);
  const forgetInside = listenToInside(explorer);
  listenToWhatIf(explorer);
  const forgetHistory = listenToHistory(explorer);
  const forgetKeyboard = listenToKeyboard(explorer);
  const forgetSize = watchSize(explorer);
  const forgetOthers = listenToGroup(explorer, follow, rescale);
  onceFontsCome(root, () => layOut(explorer));
  explorer.destroy = () => {
    pause(explorer);
    forgetHistory();
    forgetKeyboard();
    forgetSize();
    forgetOthers();
    forgetInside();
    window.cancelIdleCallback?.(explorer.warming);
    cancelRequests(explorer);
    clearTimeout(explorer.addressTimer);
  };
  return explorer;
}

/**
 * Apply a new payload. A new sentence keeps the chosen view where possible and drops the pinned cell.
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
  broadcastData(explorer);
  // Open with the view that Python suggests until the visitor has chosen one.
  const opens = !before || memory.returning || (!sameWords && !memory.chosen && raw.view.q !== undefined);
  const pinned = opens ? openView(explorer, raw.view) : null;
  if (!opens) explorer.view = viewOfOther(data, explorer.view, before);
  if (!same) cancelRequests(explorer, sameWords ? "edit" : null);
  buildQuantities(explorer);
  settleRequests(explorer);
  settleQuantity(explorer, Boolean(before) && !same);
  askEffects(explorer);
  if (!sameWords) {
    now.step = lastStep(explorer);
    now.stepping = false;
    layout.zoom = 1;
    explorer.past = [];
  }
  if (pinned) explorer.view = nextView(data, explorer.view, { pinned });
  if (pinned?.query != null && explorer.view.kind !== "encoder") [now.step] = currentMap(explorer).rows[pinned.query].members;
  now.preview = NO_PREVIEW;
  dom.root.dataset.sentence = data.sentence;
  dom.parts.inside.classList.toggle("nowhere", !data.inside);
  buildBadge(explorer);
  buildExports(explorer);
  buildWhatIf(explorer);
  // A response to a request changes no token: leave the sentences, and keyboard focus, alone.
  if (same) return;
  buildSentences(explorer);
  buildSteps(explorer);
  buildOverview(explorer);
  buildStatistics(explorer);
}

/**
 * Apply the view that Python suggests, with the rest from the link; a view chosen earlier wins unless Python now
 * suggests another. Returns the cell to pin.
 * @param {Explorer} explorer
 */
function openView(explorer, given) {
  const { data, memory, now } = explorer;
  const last = lastStates.get(explorer.key);
  memory.given = JSON.stringify(given);
  const again = last?.given === memory.given && !memory.returning;
  memory.returning = false;
  const link = again ? last.link : { ...linkParameters(explorer), ...given };
  const { view, quantity } = viewOfLink(data, explorer.view, link);
  explorer.view = view;
  now.wanted = quantity ?? now.wanted;
  return again && last.sentence !== data.sentence ? NO_CELL : pinnedOfLink(data, view, link);
}

/**
 * Show the requested quantity if the payload has it; otherwise show weights and request it. Tell Python when a quantity
 * in the payload is no longer wanted.
 * @param {Explorer} explorer
 */
function settleQuantity(explorer, another) {
  const { data, now } = explorer;
  const failed = data.failed.quantity && !data.quantities[now.wanted];
  if (!data.offered.includes(now.wanted) || failed) now.wanted = WEIGHTS;
  const { wanted } = now;
  explorer.view = nextView(data, explorer.view, { quantity: data.quantities[wanted] ? wanted : WEIGHTS });
  if (!data.quantities[wanted] && !explorer.requests.quantity) askQuantity(explorer);
  const unwanted = Object.keys(data.quantities).some((name) => name !== WEIGHTS && name !== wanted);
  if (another && unwanted && !data.alone) explorer.setState("quantity", wanted);
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
  const waiting = KINDS.flatMap((kind) => [
    ...[...Array(data.layers[kind] + 1).keys()].flatMap((layer) =>
      [...Array(data.heads + 1).keys()].map((head) => () => make(kind, layer, head)),
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

export default function render({ data, parentElement, key, setStateValue, setTriggerValue }) {
  const explorer = explorerAt(parentElement, key);
  explorer.setState = setStateValue ?? explorer.setState;
  explorer.trigger = setTriggerValue ?? explorer.trigger;
  const theme = readTheme(explorer.dom.root);
  const themeChanged = explorer.theme?.signature !== theme.signature;
  const dataChanged = !sameBytes(explorer.bytes, data);
  explorer.theme = theme;
  if (dataChanged) applyPayload(explorer, data);
  if (dataChanged || themeChanged) {
    resetTokenStyles(explorer);
    layOut(explorer);
    pinExact(explorer);
    warmUp(explorer);
  }
  saveAddress(explorer);
  return explorer.destroy;
}
