// Mounts the explorer, holds its state and decides what is painted again when something changes.

/* Streamlit calls again with the same parent for new data and new themes; the state outlives the calls. */
const explorers = new WeakMap();

/* What was last chosen under each component key: leaving the page and coming back finds it again. */
const lastViews = new Map();

function createExplorer(parent, key) {
  const root = parent.querySelector(".explorer");
  const parts = {};
  for (const part of root.querySelectorAll("[data-part]")) parts[part.dataset.part] = part;
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
  explorer.destroy = () => {
    pause(explorer);
    forgetKeyboard();
    forgetSize();
    window.cancelIdleCallback?.(explorer.warming);
    forgetRequests(explorer);
    clearTimeout(explorer.addressTimer);
    explorers.delete(parent);
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

const WIDTHS = [[700, "narrow"], [900, "medium"], [1300, "large"], [Infinity, "wide"]];

/* The layout follows the component's own width, because a sidebar may or may not stand beside it. */
function layOut(explorer) {
  const { root, parts, theme } = explorer;
  const width = root.clientWidth;
  root.dataset.width = WIDTHS.find(([limit]) => width < limit)[1];
  explorer.size = sizeOf(explorer);
  fitSentences(explorer);
  reserveMap(explorer);
  drawHatch(prepareCanvas(parts.hatch, 22, 10), theme, 0, 0, 22, 10);
  paintAll(explorer);
}

const sizeOf = ({ root }) => `${root.clientWidth} ${window.innerHeight} ${window.devicePixelRatio}`;

function watchSize(explorer) {
  let timer = 0;
  const check = () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      // A hidden tab has no width: there is nothing to fit until it is shown again.
      if (explorer.data && explorer.root.clientWidth && explorer.size !== sizeOf(explorer)) layOut(explorer);
    }, 40);
  };
  const observer = new ResizeObserver(check);
  observer.observe(explorer.root);
  window.addEventListener("resize", check);
  return () => {
    clearTimeout(timer);
    observer.disconnect();
    window.removeEventListener("resize", check);
  };
}

function chooseKind(explorer, kind) {
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

function chooseHead(explorer, layer, head) {
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

/*
 * Three sizes of a paint. In each the canvas comes first: once words have changed, setting its font would make the
 * browser work out all styles at once.
 */

/* Everything that depends on the kind, and on how maps are made. */
function paintAll(explorer) {
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
function paintHead(explorer) {
  drawBase(explorer);
  paintLive(explorer);
  showOverview(explorer);
  describeHead(explorer);
  describeFocus(explorer);
}

/* Everything that depends on the place looked at. */
function paintFocus(explorer) {
  paintLive(explorer);
  if (overviewOf(explorer) !== explorer.overview) {
    showOverview(explorer);
    paintOverview(explorer);
  }
  describeFocus(explorer);
}

const lookingWords = ({ data: { sourceLanguage: source, targetLanguage: target } }) => ({
  encoder: `${source} looks at ${source}`,
  decoder: `${target} looks back at ${target}`,
  cross: `${target} looks at ${source}`,
});

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

export default function render({ data, parentElement, key, setStateValue }) {
  let explorer = explorers.get(parentElement);
  const isNew = !explorer;
  if (isNew) {
    explorer = createExplorer(parentElement, key);
    explorers.set(parentElement, explorer);
  }
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
  // Labels are measured: if the page's font was still on its way, everything is fitted again once it is there.
  if (isNew && document.fonts.status !== "loaded") {
    document.fonts.ready.then(() => explorer.root.isConnected && layOut(explorer));
  }
  saveAddress(explorer);
  return explorer.destroy;
}
