// Mounts a row of maps, holds the layer, head and cell that all of them show, and hears pointer and keys.

/* Streamlit calls again with the same parent for new data and new themes; the state outlives the calls. */
const views = new WeakMap();

/* What was last chosen under each component key: leaving the page and coming back finds it again. */
const lastChoices = new Map();

const NOWHERE = Object.freeze({ query: null, key: null });
const WALK = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
const clamped = (low, value, high) => Math.max(low, Math.min(high, value));

function createView(parent, key) {
  const root = parent.querySelector(".map-row");
  const parts = {};
  for (const part of root.querySelectorAll("[data-part]")) parts[part.dataset.part] = part;
  const { layer, head } = lastChoices.get(key) ?? { layer: 0, head: 0 };
  const { pathname } = window.location;
  const view = { key, root, pathname, parts, bytes: null, data: null, theme: null, layer, head, kept: NOWHERE, preview: NOWHERE };
  Object.assign(view, { maps: [], geometry: null, size: "", painted: 0 });
  for (const name of ["layer", "head"]) {
    parts[`${name}s`].addEventListener("change", (event) => choose(view, { [name]: Number(event.target.value) }));
  }
  parts.svg.addEventListener("click", () => saveRow(view, "svg", rowAsSvg(view)));
  parts.csv.addEventListener("click", () => saveRow(view, "csv", rowAsCsv(view)));
  listenToMaps(view);
  const check = () => {
    // A hidden tab has no width: there is nothing to fit until it is shown again.
    if (view.data && root.clientWidth && sizeOf(view) !== view.size) layOut(view);
  };
  const observer = new ResizeObserver(check);
  observer.observe(root);
  const gone = new AbortController();
  onOtherPixels(check, gone.signal);
  view.destroy = () => {
    observer.disconnect();
    gone.abort();
    views.delete(parent);
  };
  return view;
}

/* On a screen with finer pixels the width may stay; a query of the resolution answers once, for the one it names. */
function onOtherPixels(check, signal) {
  const again = () => {
    check();
    onOtherPixels(check, signal);
  };
  matchMedia(`(resolution: ${window.devicePixelRatio}dppx)`).addEventListener("change", again, { once: true, signal });
}

function made(tag, className, words = "") {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = words;
  return element;
}

/* New data keeps the layer and head as far as it has them, and the kept cell where the words are the same. */
function takeData(view, bytes) {
  const data = decodeRow(unpack(bytes));
  const wordsOf = (given) => JSON.stringify([given?.queries, given?.keys]);
  if (wordsOf(data) !== wordsOf(view.data)) view.kept = NOWHERE;
  Object.assign(view, { bytes, data, preview: NOWHERE });
  if (data.opened && data.opened.turn !== lastChoices.get(view.key)?.turn) turnTo(view, data.opened);
  view.layer = clamped(0, view.layer, data.layers.length - 1);
  view.head = clamped(0, view.head, data.heads - 1);
  fillSegments(view, "layer", data.layers);
  fillSegments(view, "head", [...Array(data.heads).keys()]);
  view.maps = data.maps.map(({ name }) => {
    const figure = made("figure", "map");
    const [note, box, canvas] = [made("p", "note"), made("div", "box"), made("canvas", "")];
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "application"); // so that a screen reader hands the arrow keys on
    canvas.setAttribute("aria-label", `${name}. Arrow keys walk from cell to cell in all maps, Enter keeps one, Escape lets go.`);
    box.append(canvas);
    figure.append(made("p", "name", name), note, box);
    return { figure, note, canvas, base: document.createElement("canvas"), map: null };
  });
  view.parts.maps.replaceChildren(...view.maps.map(({ figure }) => figure));
}

/* The browser's own radio buttons: one stop for Tab, arrow keys between them, names for screen readers. */
function fillSegments({ parts, ...view }, name, places) {
  const segments = places.map((shown, place) => {
    const label = made("label", "segment");
    const input = document.createElement("input");
    Object.assign(input, { type: "radio", name, value: place, checked: place === view[name] });
    input.setAttribute("aria-label", `${name} ${shown + 1}`);
    label.append(input, made("span", "", shown + 1));
    return label;
  });
  parts[`${name}s`].replaceChildren(...segments);
  parts[`${name}s`].parentElement.hidden = places.length < 2;
}

function choose(view, choice) {
  turnTo(view, { ...view, ...choice });
  paintHead(view);
}

/* A row that was turned by Python remembers which turn that was: it is not turned twice. */
function turnTo(view, { layer, head, turn = lastChoices.get(view.key)?.turn }) {
  Object.assign(view, { layer, head });
  lastChoices.set(view.key, { layer, head, turn });
}

/* The history entry is Streamlit's: its state and every other parameter stay as they are. */
function keepInAddress({ data, layer, head, pathname }) {
  const address = new URL(window.location.href);
  if (!data.opened || address.pathname !== pathname) return;
  const { names } = data.opened;
  address.searchParams.set(names.layer, layer);
  address.searchParams.set(names.head, head);
  window.history.replaceState(window.history.state, "", address);
}

const sizeOf = ({ root }) => `${root.clientWidth} ${window.devicePixelRatio}`;

function layOut(view) {
  const { root, parts } = view;
  view.size = sizeOf(view);
  root.dataset.width = root.clientWidth < 700 ? "narrow" : "wide";
  view.geometry = rowGeometry(view);
  const { width, height, left, top, cell } = view.geometry;
  for (const { figure, canvas } of view.maps) {
    figure.style.width = `${width}px`;
    Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
    Object.assign(canvas.dataset, { left, top, cell });
  }
  parts.maps.style.columnGap = `${GAP}px`;
  paintHead(view);
}

/* Everything that depends on the layer and head. */
function paintHead(view) {
  const { data, geometry, layer, head, parts } = view;
  view.maps.forEach((shown, place) => {
    shown.map = mapAt(data, place, layer, head);
    drawStill(prepareCanvas(shown.base, geometry.width, geometry.height), view, geometry, shown.map);
    shown.note.textContent = noteOf(data, shown.map);
  });
  parts.title.textContent = headingOf(view);
  keepInAddress(view);
  paintFocus(view);
}

function focusOf({ preview, kept }) {
  const previewed = preview.query !== null;
  return { ...(previewed ? preview : kept), previewed };
}

/* Everything that depends on the cell looked at, in all maps. */
function paintFocus(view) {
  const { root, data, geometry, maps } = view;
  const focus = focusOf(view);
  const { query, key } = focus;
  for (const { canvas, base } of maps) {
    const context = prepareCanvas(canvas, geometry.width, geometry.height);
    context.drawImage(base, 0, 0, geometry.width, geometry.height);
    drawLive(context, view, geometry, focus);
  }
  const cell = query === null ? null : query * data.keys.length + key;
  const open = cell !== null && data.open[cell] === 1;
  sayCell(view, focus, cell, open);
  root.dataset.layer = data.layers[view.layer];
  root.dataset.head = view.head;
  root.dataset.query = query ?? "";
  root.dataset.key = key ?? "";
  root.dataset.values = open ? maps.map(({ map }) => map.values[cell]).join(" ") : "";
  root.dataset.painted = ++view.painted;
}

function sayCell({ data, maps, parts }, { query, key }, cell, open) {
  const parted = (words, value) => {
    const part = made("span", "part", words);
    part.append(made("b", "", value));
    return part;
  };
  if (cell === null) {
    const all = maps.length === 1 ? "the map" : `all ${maps.length} maps`;
    parts.readout.textContent = `Point at a cell, or walk with the arrow keys, to read its numbers in ${all}; click to keep it.`;
    return;
  }
  const found = [parted("row: ", tokenName(data.queries[query])), parted("column: ", tokenName(data.keys[key]))];
  if (open) maps.forEach(({ map }) => found.push(parted(`${map.short} `, exactly(map.values[cell]))));
  else found.push(made("span", "part", "closed by the mask: no number of it counts"));
  parts.readout.replaceChildren(...found.flatMap((part, place) => (place ? [" \u00b7 ", part] : [part])));
}

function preview(view, place) {
  if (view.preview.query === place.query && view.preview.key === place.key) return;
  view.preview = place;
  paintFocus(view);
}

/* Keeping what is already kept lets go of it. */
function keep(view, { query, key }) {
  const same = view.kept.query === query && view.kept.key === key;
  view.kept = same ? NOWHERE : { query, key };
  view.preview = NOWHERE;
  paintFocus(view);
}

function listenToMaps(view) {
  const { maps } = view.parts;
  const placeOf = (event) => {
    if (event.target.localName !== "canvas") return NOWHERE;
    const box = event.target.getBoundingClientRect();
    const place = placeAt(view.geometry, event.clientX - box.left, event.clientY - box.top);
    return place && place.query !== null && place.key !== null ? place : NOWHERE;
  };
  maps.addEventListener("pointermove", (event) => event.pointerType !== "touch" && preview(view, placeOf(event)));
  maps.addEventListener("pointerleave", () => preview(view, NOWHERE));
  maps.addEventListener("click", (event) => {
    if (event.target.localName === "canvas") keep(view, placeOf(event));
  });
  maps.addEventListener("focusin", (event) => {
    if (event.target.matches(":focus-visible") && view.kept.query === null) preview(view, { query: 0, key: 0 });
  });
  maps.addEventListener("focusout", () => preview(view, NOWHERE));
  maps.addEventListener("keydown", (event) => onMapKey(view, event));
}

function onMapKey(view, event) {
  const focus = focusOf(view);
  const walked = WALK[event.key];
  const keeps = event.key === "Enter" || event.key === " ";
  if (walked) {
    const { queries, keys } = view.data;
    const step = (from, by, count) => (from === null ? 0 : clamped(0, from + by, count - 1));
    preview(view, { query: step(focus.query, walked[0], queries.length), key: step(focus.key, walked[1], keys.length) });
  } else if (keeps && focus.query !== null) keep(view, focus);
  else if (event.key === "Escape") keep(view, view.kept);
  else if (!keeps) return;
  event.preventDefault();
}

export default function render({ data, parentElement, key }) {
  let view = views.get(parentElement);
  if (!view) {
    view = createView(parentElement, key);
    views.set(parentElement, view);
    // Labels are measured: if the page's font was still on its way, everything is fitted again once it is there.
    if (document.fonts.status !== "loaded") document.fonts.ready.then(() => view.root.isConnected && layOut(view));
  }
  const theme = readTheme(view.root);
  const themeChanged = view.theme?.signature !== theme.signature;
  view.theme = theme;
  const dataChanged = !sameBytes(view.bytes, data);
  if (dataChanged) takeData(view, data);
  if (dataChanged || themeChanged) layOut(view);
  return view.destroy;
}
