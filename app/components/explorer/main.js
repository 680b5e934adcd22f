// Mounts the explorer, holds its state and decides what is painted again when something changes.

import { sameBytes, unpack } from "../shared/bytes.js";
import { partsOf } from "../shared/dom.js";
import { mounts, onceFontsCome } from "../shared/mounts.js";
import { between } from "../shared/numbers.js";
import { readTheme } from "../shared/theme.js";
import { askedByLink, saveAddress, takeFurtherView, takeKept } from "./address.js";
import { buildBadge } from "./badge.js";
import { MASSES, OPTIONS } from "./choices.js";
import { listenToBadge, listenToOptions, listenToSteps } from "./controls.js";
import { decodePayload, KINDS } from "./data.js";
import { buildExports, listenToExport } from "./export.js";
import { atHead, NOTHING } from "./focus.js";
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
import { forgetRequests, pinExact, settleRequests } from "./requests.js";
import { buildSentences, forgetShades } from "./sentences.js";
import { buildStatistics } from "./statistics.js";
import { buildSteps, lastStep, pause } from "./steps.js";
import { askQuantity, lastViews, letGo, showQuantity } from "./update.js";
import { allHeads, allLayers } from "./words.js";
import { listenToZoom } from "./zoom.js";

function createExplorer(parent, key) {
  const root = parent.querySelector(".explorer");
  const parts = partsOf(root);
  const explorer = {
    key,
    root,
    parts,
    base: document.createElement("canvas"),
    bytes: null,
    data: null,
    theme: null,
    kind: "cross",
    layer: 0,
    head: 0,
    view: "map",
    unit: "pieces",
    hide: new Set(),
    sort: "layer",
    combine: "mean",
    quantity: WEIGHTS,
    wanted: WEIGHTS,
    mass: MASSES.usual,
    zoom: 1,
    kept: NOTHING,
    preview: { ...NOTHING, note: null },
    step: 0,
    stepping: false,
    stepShown: -1,
    playing: 0,
    geometries: {},
    linesGeometry: null,
    room: 0,
    tallest: 0,
    tickWidth: 0,
    places: null,
    warming: 0,
    words: null,
    thumbnails: [],
    overviews: {},
    overview: null,
    painted: 0,
    size: "",
    givenView: "",
    chosen: false,
    addressTimer: 0,
    pathname: window.location.pathname,
    ask: () => {},
    requests: {},
    behind: null,
  };
  parts["let-go"].addEventListener("click", () => letGo(explorer));
  if (byTouch) parts["let-go"].textContent = "Unpin";
  listenToSentences(explorer);
  listenToSteps(explorer);
  listenToOptions(explorer);
  listenToOverview(explorer);
  listenToZoom(explorer);
  listenToPicture(explorer);
  listenToExport(explorer);
  listenToBadge(explorer);
  const forgetKeyboard = listenToKeyboard(explorer);
  const forgetSize = watchSize(explorer);
  onceFontsCome(root, () => layOut(explorer));
  explorer.destroy = () => {
    pause(explorer);
    forgetKeyboard();
    forgetSize();
    window.cancelIdleCallback?.(explorer.warming);
    forgetRequests(explorer);
    clearTimeout(explorer.addressTimer);
  };
  return explorer;
}

/* Takes new data: another sentence keeps what is chosen, as far as it has it, and drops the kept cell. */
function takeData(explorer, bytes) {
  const before = explorer.data;
  const raw = unpack(bytes);
  const data = decodePayload(raw);
  const same = before?.sentence === data.sentence;
  if (same) {
    // What came earlier for this sentence still holds.
    data.quantities = { ...before.quantities, ...data.quantities };
    data.exact = new Map([...before.exact, ...data.exact]);
  }
  // All layers and all heads stand after the last one, however many the new model has.
  const [everyLayer, everyHead] = before ? [allLayers(explorer), allHeads(explorer)] : [false, false];
  explorer.bytes = bytes;
  explorer.data = data;
  // Until something is chosen here, each sentence opens as Python says; then what was chosen stays.
  const opens = !before || (!same && !explorer.chosen && raw.view.q !== undefined);
  const asked = opens ? takeFirstView(explorer, raw.view) : null;
  if (!opens) {
    const layers = data.layers[explorer.kind];
    explorer.layer = everyLayer ? layers : between(0, explorer.layer, layers - 1);
    explorer.head = everyHead ? data.heads : between(0, explorer.head, data.heads - 1);
  }
  if (!same) forgetRequests(explorer);
  buildQuantities(explorer);
  settleRequests(explorer);
  settleQuantity(explorer, Boolean(before) && !same);
  if (!same) {
    explorer.kept = NOTHING;
    explorer.step = lastStep(explorer);
    explorer.stepping = false;
    explorer.zoom = 1;
  }
  if (asked) takeKept(explorer, asked);
  explorer.preview = { ...NOTHING, note: null };
  explorer.root.dataset.sentence = data.sentence;
  explorer.parts.inside.classList.toggle("nowhere", !data.inside);
  buildBadge(explorer);
  buildExports(explorer);
  // An answer changes no word: what has the keyboard's focus stays.
  if (same) return;
  buildSentences(explorer);
  buildSteps(explorer);
  buildOverview(explorer);
  buildStatistics(explorer);
}

/*
 * Kind, layer and head that Python gives, and the rest from the link, count until something is chosen, and again once
 * Python gives another view. Returns what was asked for.
 */
function takeFirstView(explorer, given) {
  const { data } = explorer;
  const last = lastViews.get(explorer.key);
  explorer.givenView = JSON.stringify(given);
  const again = last?.given === explorer.givenView;
  const asked = again ? last.view : { ...askedByLink(explorer), ...given };
  takeFurtherView(explorer, asked);
  explorer.kind = asked.kind;
  const together = [asked.layer, asked.head].find((value) => OPTIONS.combine.includes(value));
  if (together) explorer.combine = together;
  const place = (value, count) => (OPTIONS.combine.includes(value) ? count : between(0, Number(value) || 0, count - 1));
  explorer.layer = place(asked.layer, data.layers[explorer.kind]);
  explorer.head = place(asked.head, data.heads);
  return again && last.sentence !== data.sentence ? null : asked;
}

/*
 * Shows the wanted quantity if it came along; until it does, the weights, and asks for it. What came along with another
 * sentence though nobody looks at it any more, Python need not work out again.
 */
function settleQuantity(explorer, another) {
  const { data } = explorer;
  if (!data.offered.includes(explorer.wanted) || (data.failed.quantity && !data.quantities[explorer.wanted])) {
    explorer.wanted = WEIGHTS;
  }
  const { wanted } = explorer;
  showQuantity(explorer, data.quantities[wanted] ? wanted : WEIGHTS);
  if (!data.quantities[wanted] && !explorer.requests.quantity) askQuantity(explorer);
  const unwanted = Object.keys(data.quantities).some((name) => name !== WEIGHTS && name !== wanted);
  if (another && unwanted && !data.alone) explorer.ask("quantity", wanted);
}

/* Makes and draws the maps of the other kinds while nothing else is to do, so that the first switch is as fast. */
function warmUp(explorer) {
  // Safari has no idle time to give.
  if (!window.requestIdleCallback) return;
  cancelIdleCallback(explorer.warming);
  const { data } = explorer;
  const make = (kind, layer, head) => {
    const map = mapOf(data, { ...atHead(explorer, layer, head), kind });
    measure(map);
    mapPixels(map, explorer.theme, explorer.hide);
  };
  const waiting = KINDS.flatMap((kind) => [
    ...[...Array(data.layers[kind] + 1).keys()].flatMap((layer) =>
      [...Array(data.heads + 1).keys()].map((head) => () => make(kind, layer, head)),
    ),
    () => overviewOf({ ...explorer, kind }),
  ]);
  const go = (deadline) => {
    while (waiting.length && deadline.timeRemaining() > 2 && explorer.data === data) waiting.shift()();
    if (waiting.length && explorer.data === data) explorer.warming = requestIdleCallback(go);
  };
  explorer.warming = requestIdleCallback(go);
}

const explorerAt = mounts(createExplorer);

export default function render({ data, parentElement, key, setStateValue }) {
  const explorer = explorerAt(parentElement, key);
  explorer.ask = setStateValue ?? explorer.ask;
  const theme = readTheme(explorer.root);
  const themeChanged = explorer.theme?.signature !== theme.signature;
  const dataChanged = !sameBytes(explorer.bytes, data);
  explorer.theme = theme;
  if (dataChanged) takeData(explorer, data);
  if (dataChanged || themeChanged) {
    forgetShades(explorer);
    layOut(explorer);
    pinExact(explorer);
    warmUp(explorer);
  }
  saveAddress(explorer);
  return explorer.destroy;
}
