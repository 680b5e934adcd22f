// The overview: a thumbnail per head, by layer or sorted by a measure, plus means or maxima.

import { buttonOf, element } from "../shared/dom.js";
import { wrapped } from "../shared/numbers.js";
import { isolated, tokenName } from "../shared/tokens.js";
import { orderMeaning, pinnedProduced } from "./captions.js";
import { KINDS } from "./data.js";
import { atHead } from "./focus.js";
import { ROLLOUT } from "./maps.js";
import { isCrowded, isDense, isSortedInGrid, overviewOf } from "./overview_picture.js";
import { capital, headName } from "./words.js";

/**
 * Build the grid once per shape of network, for the deepest kind. A kind with fewer layers hides the spare rows, and the
 * height stays.
 * @param {Explorer} explorer
 */
export function buildOverview(explorer) {
  const { data } = explorer;
  const { parts, headLabels, layerLabels } = explorer.dom;
  const layers = Math.max(...KINDS.map((kind) => data.layers[kind]));
  explorer.layout.overviews = {};
  if (headLabels.length === data.heads + 1 && layerLabels.length === layers + 1) return;
  parts.overview.replaceChildren();
  parts.overview.classList.toggle("dense", isDense(data));
  parts.overview.classList.toggle("crowded", isCrowded(data));
  explorer.dom.headLabels = [...Array(data.heads + 1).keys()].map((head) => {
    const label = element("span", "head-label numbers");
    label.style.gridArea = `1 / ${columnOf(data, head)}`;
    label.classList.toggle("of-all", head === data.heads);
    return label;
  });
  explorer.dom.orderLabel = buildOrderLabel();
  explorer.dom.layerLabels = [...Array(layers + 1).keys()].map((layer) => {
    const label = element("span", "layer-label numbers", layer + 1);
    label.style.gridRow = layer + 2;
    label.classList.toggle("of-all", layer === layers);
    return label;
  });
  explorer.dom.overviewMaps = element("canvas", "overview-maps");
  explorer.dom.overviewFocus = element("canvas", "overview-focus");
  for (const canvas of [explorer.dom.overviewMaps, explorer.dom.overviewFocus]) canvas.setAttribute("aria-hidden", "true");
  explorer.dom.thumbnails = [];
  for (let layer = 0; layer <= layers; layer++) {
    for (let head = 0; head <= data.heads; head++) {
      const thumbnail = buildThumbnail();
      thumbnail.button.style.gridArea = `${layer + 2} / ${columnOf(data, head)}`;
      thumbnail.button.classList.toggle("of-all", layer === layers || head === data.heads);
      explorer.dom.thumbnails.push(thumbnail);
    }
  }
  parts.overview.append(
    ...explorer.dom.headLabels,
    explorer.dom.orderLabel,
    ...explorer.dom.layerLabels,
    ...explorer.dom.thumbnails.map(({ button }) => button),
    explorer.dom.overviewMaps,
    explorer.dom.overviewFocus,
  );
}

/** @param {RecordData} data */
const columnOf = (data, head) => head + 2 + (head === data.heads ? 1 : 0);

/* Map and caption are drawn on one shared canvas: see overview_picture.js. */
function buildThumbnail() {
  const button = buttonOf("thumbnail");
  button.append(element("span", "frame"));
  return { button, layer: 0, head: 0, exists: true, chosen: null, spoken: "" };
}

/** Update labels and accessible names, writing only what changed. @param {Explorer} explorer */
export function paintOverview(explorer) {
  const { data } = explorer;
  const { kind, combine, quantity } = explorer.view;
  const overview = overviewOf(explorer);
  if (explorer.dom.overview === overview) return;
  explorer.dom.overview = overview;
  const sorted = isSortedInGrid(explorer);
  const ofLayers = quantity === ROLLOUT;
  const columns = ofLayers ? data.layers[kind] : data.headsOf[kind];
  for (const [head, label] of explorer.dom.headLabels.entries()) {
    const first = isDense(data) ? "1" : ofLayers ? "layer 1" : "head 1";
    label.textContent = head === data.heads ? combine : head === 0 ? first : String(head + 1);
    const isLayer = head < columns && columns <= data.heads;
    const isHead = head < columns || (head === data.heads && explorer.layout.means);
    label.classList.toggle("missing", sorted || !(ofLayers ? isLayer && head < data.heads : isHead));
  }
  paintOrderLabel(explorer, sorted);
  explorer.dom.layerLabels.forEach((label, row) => {
    if (ofLayers) {
      // With several layers per row, label the row with its first layer.
      label.textContent = String(row * data.heads + 1);
      label.title = `layer ${row * data.heads + 1}`;
      label.classList.toggle("missing", columns <= data.heads || row * data.heads >= columns);
      return;
    }
    const first = isDense(data) ? "1" : "layer 1";
    label.textContent = row === data.layers[kind] ? combine : row === 0 ? first : String(row + 1);
    label.title = row === data.layers[kind] ? `${combine} over layers` : `layer ${row + 1}`;
    label.classList.toggle("missing", row >= data.layers[kind] + Number(explorer.layout.means) || (sorted && row < data.layers[kind]));
  });
  overview.cells.forEach((cell, index) => {
    const thumbnail = explorer.dom.thumbnails[index];
    const { button } = thumbnail;
    const { layer, head, exists } = cell;
    if (thumbnail.exists !== exists) button.classList.toggle("missing", !exists);
    Object.assign(thumbnail, { layer, head, exists });
    if (button.dataset.l !== String(layer)) button.dataset.l = layer;
    if (button.dataset.h !== String(head)) button.dataset.h = head;
    if (!exists) return;
    const { word, mark, number, meaning, edited } = cell;
    const name = capital(headName(explorer.data, atHead(explorer.view, layer, head)));
    const spoken = [`${name}: ${meaning} ${isolated(word)}${mark} ${number.replace(/ b$/, " bits")}`.trimEnd(), ...(edited && number ? [edited] : [])].join(", ");
    if (thumbnail.spoken === spoken) return;
    thumbnail.spoken = spoken;
    button.setAttribute("aria-label", spoken);
  });
}

/* Replaces the head labels while sorted: the sort key, and the target of the effects. */
function buildOrderLabel() {
  const label = element("span", "order-label");
  const switches = [false, true].map((whole) => {
    const button = buttonOf("effect-of");
    button.dataset.whole = whole;
    return button;
  });
  label.append(element("span"), ...switches);
  return label;
}

/** @param {Explorer} explorer */
function paintOrderLabel(explorer, sorted) {
  const { view, dom: { orderLabel } } = explorer;
  const [words, ofWord, ofAll] = /** @type {any} */ (orderLabel.children);
  orderLabel.classList.toggle("missing", !sorted);
  if (!sorted) return;
  orderLabel.title = `layer.head: ${orderMeaning(explorer)}`;
  const pinned = view.sort === "effect" ? pinnedProduced(explorer) : null;
  words.textContent = view.sort === "effect" ? "nats without the head, " : orderLabel.title;
  ofWord.hidden = !pinned;
  ofAll.hidden = view.sort !== "effect";
  ofWord.textContent = pinned ? `of ${tokenName(pinned)}` : "";
  ofAll.textContent = "of the whole";
  ofAll.disabled = !pinned;
  ofWord.setAttribute("aria-pressed", String(!view.wholeTranslation));
  ofAll.setAttribute("aria-pressed", String(view.wholeTranslation || !pinned));
}

/** Roving tabindex: only the chosen thumbnail is a tab stop. @param {Explorer} explorer */
export function markChosenHead(explorer) {
  for (const thumbnail of explorer.dom.thumbnails) {
    const chosen = thumbnail.exists && thumbnail.layer === explorer.view.layer && thumbnail.head === explorer.view.head;
    if (thumbnail.chosen === chosen) continue;
    thumbnail.chosen = chosen;
    thumbnail.button.setAttribute("aria-pressed", chosen);
    thumbnail.button.tabIndex = chosen ? 0 : -1;
  }
}

/* The next existing thumbnail in an arrow key's direction, wrapping around. */
export function neighbour(explorer, [down, right]) {
  const columns = explorer.data.heads + 1;
  const rows = explorer.dom.thumbnails.length / columns;
  const { thumbnails } = explorer.dom;
  const from = thumbnails.findIndex(({ chosen }) => chosen);
  let [row, column] = [Math.floor(from / columns), from % columns];
  do {
    row = wrapped(row + down, rows);
    column = wrapped(column + right, columns);
  } while (!thumbnails[row * columns + column].exists);
  return thumbnails[row * columns + column];
}
