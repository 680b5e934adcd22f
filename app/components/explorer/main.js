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
    kept: NOTHING,
    preview: { ...NOTHING, note: null },
    geometries: {},
    words: null,
    thumbnails: [],
    painted: 0,
    size: "",
    givenView: "",
    addressTimer: 0,
  };
  for (const button of parts.kinds.children) {
    button.addEventListener("click", () => chooseKind(explorer, button.dataset.kindOption));
  }
  parts["let-go"].addEventListener("click", () => letGo(explorer));
  if (byTouch) parts["let-go"].textContent = "Let go";
  listenToSentences(explorer);
  listenToOverview(explorer);
  listenToMap(explorer);
  listenToBadge(explorer);
  const forgetKeyboard = listenToKeyboard(explorer);
  const forgetSize = watchSize(explorer);
  const forgetAddress = watchAddress(explorer);
  explorer.destroy = () => {
    forgetKeyboard();
    forgetSize();
    forgetAddress();
    clearTimeout(explorer.addressTimer);
    explorers.delete(parent);
  };
  return explorer;
}

/* Takes new data: another sentence keeps kind, layer and head, as far as it has them, and drops the kept cell. */
function takeData(explorer, bytes) {
  const before = explorer.data;
  const raw = unpack(bytes);
  const data = decodePayload(raw);
  const wasMean = before && explorer.head === before.heads;
  explorer.bytes = bytes;
  explorer.data = data;
  if (!before) {
    // The view that Python gives counts until something is chosen, and again once Python gives another.
    const last = lastViews.get(explorer.key);
    explorer.givenView = JSON.stringify(raw.view);
    const { kind, layer, head } = last?.given === explorer.givenView ? last.view : raw.view;
    explorer.kind = kind;
    explorer.layer = Number(layer) || 0;
    explorer.head = head === "mean" ? data.heads : between(0, Number(head) || 0, data.heads - 1);
  } else {
    // The mean stands after the last head, however many heads the new model has.
    explorer.head = wasMean ? data.heads : between(0, explorer.head, data.heads - 1);
  }
  explorer.layer = between(0, explorer.layer, data.layers[explorer.kind] - 1);
  if (!before || before.sentence !== data.sentence) explorer.kept = NOTHING;
  explorer.preview = { ...NOTHING, note: null };
  explorer.root.dataset.sentence = data.sentence;
  buildBadge(explorer);
  buildSentences(explorer);
  buildOverview(explorer);
}

const WIDTHS = [[700, "narrow"], [900, "medium"], [1300, "large"], [Infinity, "wide"]];

/* The layout follows the component's own width, because a sidebar may or may not stand beside it. */
function layOut(explorer) {
  const { root } = explorer;
  const width = root.clientWidth;
  root.dataset.width = WIDTHS.find(([limit]) => width < limit)[1];
  explorer.size = sizeOf(explorer);
  fitSentences(explorer);
  reserveMap(explorer);
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
  // Decoder and cross share their rows, so a kept row stays; anything else would point at a different word.
  const sharesRows = ROW_SIDE[kind] === ROW_SIDE[explorer.kind];
  explorer.kept = sharesRows ? { query: explorer.kept.query, key: null } : NOTHING;
  explorer.kind = kind;
  explorer.layer = between(0, explorer.layer, explorer.data.layers[kind] - 1);
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
  lastViews.set(explorer.key, { given: explorer.givenView, view: viewOf(explorer) });
  saveAddress(explorer);
}

/* Everything that depends on the kind. */
function paintAll(explorer) {
  const { parts, data, kind, theme } = explorer;
  for (const button of parts.kinds.children) button.setAttribute("aria-pressed", button.dataset.kindOption === kind);
  parts["masked-legend"].classList.toggle("unused", !hasMasked(data, kind));
  drawScale(parts.scale, theme);
  drawHatch(prepareCanvas(parts.hatch, 22, 10), theme, 0, 0, 22, 10);
  paintOverview(explorer);
  placeMap(explorer);
  paintAxisNote(explorer);
  paintHead(explorer);
}

/* Everything that depends on the layer and head. */
function paintHead(explorer) {
  const { parts, data, kind, layer, head } = explorer;
  const { sourceLanguage: source, targetLanguage: target } = data;
  const looking = {
    encoder: `${source} looks at ${source}`,
    decoder: `${target} looks back at ${target}`,
    cross: `${target} looks at ${source}`,
  };
  const title = `Layer ${layer + 1}, ${head < data.heads ? `head ${head + 1}` : `mean of ${data.heads} heads`}`;
  parts.title.replaceChildren(title, element("small", "", looking[kind]));
  markChosenHead(explorer);
  drawBase(explorer);
  paintFocus(explorer);
}

/* Everything that depends on the place looked at; the last step of every paint. */
function paintFocus(explorer) {
  const { root, data, kind, layer, head } = explorer;
  const { query, key } = focusOf(explorer);
  paintSentences(explorer);
  paintReadout(explorer);
  paintMap(explorer);
  const cell = query !== null && key !== null;
  root.dataset.kind = kind;
  root.dataset.layer = layer;
  root.dataset.head = head < data.heads ? head : "mean";
  root.dataset.query = query ?? "";
  root.dataset.key = key ?? "";
  root.dataset.weight = cell ? weightAt(currentMap(explorer), query, key).toFixed(4) : "";
  root.dataset.painted = ++explorer.painted;
}

function paintAxisNote({ parts, data, kind }) {
  const { sourceLanguage: source, targetLanguage: target } = data;
  const row = kind === "encoder" ? `: the ${source} piece being read. ` : `: the ${target} piece being produced. `;
  const column = {
    encoder: `: the ${source} piece looked at. `,
    decoder: `: the ${target} piece looked at, already written. `,
    cross: `: the ${source} piece looked at. `,
  };
  parts["axis-note"].replaceChildren(bold("Row"), row, bold("Column"), column[kind], "Each row sums to\u00a01.");
}

export default function render({ data, parentElement, key }) {
  let explorer = explorers.get(parentElement);
  const isNew = !explorer;
  if (isNew) {
    explorer = createExplorer(parentElement, key);
    explorers.set(parentElement, explorer);
  }
  const theme = readTheme(explorer.root);
  const themeChanged = explorer.theme?.signature !== theme.signature;
  const dataChanged = !sameBytes(explorer.bytes, data);
  explorer.theme = theme;
  if (dataChanged) takeData(explorer, data);
  if (dataChanged || themeChanged) {
    forgetShades(explorer);
    layOut(explorer);
  }
  // Labels are measured: if the page's font was still on its way, everything is fitted again once it is there.
  if (isNew && document.fonts.status !== "loaded") {
    document.fonts.ready.then(() => explorer.root.isConnected && layOut(explorer));
  }
  saveAddress(explorer);
  return explorer.destroy;
}
