// The strip between the sentences: below each token, the words that its states already say, read by a Jacobian lens.

import { buttonOf, element, headingCell, rowOf } from "../shared/dom.js";
import { shortLabel } from "../shared/labels.js";
import { ARROWS, handled } from "../shared/keys.js";
import { between, chance, digitsOf, fixed, isEven } from "../shared/numbers.js";
import { isolated, tokenName } from "../shared/tokens.js";
import { request } from "./requests.js";

/* ms after painting until the readings are requested. */
const READ_AFTER = 150;

/* px of a row of cells: see explorer.css. */
const CELL_STEP = 19;

/* The translation's own words whose ranks are listed. */
const OWN_WORDS = 3;

/** @type {{side: Side, row: "source" | "target", rows: string}[]} */
const STRIPS = [
  { side: "encoder", row: "source", rows: "--source-rows" },
  { side: "decoder", row: "target", rows: "--target-rows" },
];

/** @param {Explorer} explorer */
const hasLens = ({ data, host }) => host.answers.has("lens") && data.lensOffer !== null && data.lensOffer.command === undefined;

/** Whether all layers of a side are shown. @param {Explorer} explorer */
const isUnfolded = ({ view }, side) => view.states === "both" || view.states === side;

/** How many rows a side has: its embeddings and its layers. */
const rowsOf = (data, side) => data.layers[side] + 1;

/** The layers that are shown, from the embeddings: all, the one that says most, or, for one sentence on a phone, none. @param {Explorer} explorer */
function layersShown(explorer, side) {
  const { data, dom } = explorer;
  if (!hasLens(explorer)) return [];
  const all = [...Array(rowsOf(data, side)).keys()];
  const [encoder, decoder] = [isUnfolded(explorer, "encoder"), isUnfolded(explorer, "decoder")];
  if (side === "encoder") return encoder ? all : (dom.root.dataset.width === "narrow" && !data.together) || !data.lensOffer.unasked ? [] : all.slice(-1);
  if (!encoder) return [];
  return decoder ? all : all.slice(-2, -1); // the last layer is the output itself
}

/* The token of the sentence's row that a state belongs to: the decoder's state at position t writes the token after it. */
const positionOf = (side, index) => (side === "encoder" ? index : index - 1);

/** Whether a token has cells: the lens is not tested at the source's <eos>, and nothing writes <bos>. */
const hasCells = (token, side, index) => (side === "encoder" ? !token.special : index > 0);

const nameOfLayer = (layer) => (layer ? `layer ${layer}` : "embeddings");

/** Whether a layer reads no better than chance. @param {Readonly<RecordData>} data */
function isUnread({ lens }, side, layer) {
  const [, low, , , , nullHigh] = lens.rates[side][layer];
  return !(low > nullHigh);
}

/** What a state says, as texts. @param {Readonly<RecordData>} data */
function readingOf({ lens, sides }, side, layer, position) {
  const { ids, logitIds, probabilities, ranks, positions, best } = lens[side];
  const cell = layer * positions + position;
  const at = (numbers, count) => numbers.subarray(cell * count, (cell + 1) * count);
  const label = (place) => shortLabel(lens.tokens[place]);
  const own = sides.produced;
  const rankOf = at(ranks, own.length);
  return {
    words: Array.from(at(ids, best), (place, rank) => ({ label: label(place), probability: at(probabilities, best)[rank] })),
    logit: Array.from(at(logitIds, best), label),
    ranks: own.map((token, place) => ({ token, rank: rankOf[place] })),
  };
}

/** The share with two digits of its interval, in per cent. */
function shareText([value, low, high]) {
  const places = Math.max(0, digitsOf(low, high) - 2);
  const of = (share) => fixed(100 * share, places);
  if (!(high > low)) return `${of(value)}\u00a0%`;
  return isEven(value, low, high) ? `${of(value)} \u00b1 ${of((high - low) / 2)}\u00a0%` : `${of(value)}\u00a0% (${of(low)} to ${of(high)})`;
}

/** @param {Readonly<RecordData>} data */
function ratesText({ lens, targetLanguage }, side, layer) {
  const rate = lens.rates[side][layer];
  const [own, none] = [shareText(rate.slice(0, 3)), shareText(rate.slice(3))];
  if (side === "encoder") return `one of the five best tokens is in the translation for ${own} of tokens, in another sentence\u2019s for ${none}`;
  return `the best token is the one that the network prefers for ${own} of ${targetLanguage} tokens, with a random matrix for ${none}`;
}

/** The line below the open strip. @param {Readonly<RecordData>} data */
function noteOf(data) {
  const last = rowsOf(data, "encoder") - 1;
  const unread = STRIPS.some(({ side }) => data.lens.rates[side].some((_, layer) => isUnread(data, side, layer)));
  return (
    `Below each word: the first of the five tokens of the output vocabulary, whatever their language, whose directions fit its state best. Read by a Jacobian lens: a fitted average, not a calibrated probability. ` +
    `On ${data.lens.tested} other sentences, in ${nameOfLayer(last)}, ${ratesText(data, "encoder", last)}.` +
    (unread ? " Layers in grey letters read no better than that null." : "")
  );
}

/** Request the readings, some time after painting, once per record. @param {Explorer} explorer */
export function scheduleStrip(explorer) {
  clearTimeout(explorer.stripTimer);
  const { data, memory, requests } = explorer;
  const isWanted = hasLens(explorer) && !data.lens && !requests.lens && memory.readFor !== data.sentence;
  if (!isWanted || !(data.lensOffer.unasked || isUnfolded(explorer, "encoder"))) return;
  const ask = () => {
    if (!explorer.dom.root.isConnected || explorer.data.sentence !== data.sentence || explorer.data.lens || requests.lens) return;
    memory.readFor = data.sentence;
    request(explorer, "lens", { sentence: data.sentence }, {
      what: "What the states say",
      take: ({ lens }) => lens !== null,
      giveUp: () => buildStrips(explorer),
      isQuiet: !isUnfolded(explorer, "encoder"),
    });
    if (isUnfolded(explorer, "encoder")) buildStrips(explorer);
  };
  explorer.stripTimer = setTimeout(() => (window.requestIdleCallback ? window.requestIdleCallback(ask) : ask()), READ_AFTER);
}

/** Fill the cells below both sentences, if they differ from those shown. @param {Explorer} explorer */
export function buildStrips(explorer) {
  const { data, dom, view, requests } = explorer;
  const { parts, root } = dom;
  const shown = [data.sentence, Boolean(data.lens), Boolean(requests.lens), view.states, root.dataset.width].join();
  if (dom.words.strips === shown) return;
  dom.words.strips = shown;
  hideCard(explorer);
  parts["lens-fit"].hidden = data.lensOffer?.command === undefined;
  parts["lens-command"].textContent = data.lensOffer?.command ?? "";
  for (const { side, row, rows } of STRIPS) {
    const layers = layersShown(explorer, side);
    const host = parts[row];
    const isOpen = isUnfolded(explorer, side);
    host.parentElement.style.setProperty(rows, layers.length);
    host.classList.toggle("layered", layers.length > 1);
    let stop = 0;
    dom.words[row].forEach(({ button }, index) => {
      const token = data.sides[row][index];
      const cells = data.lens && hasCells(token, side, index) ? layers.map((layer) => cellOf(data, side, layer, index)) : [];
      if (cells.length && !stop++) cells.at(-1).tabIndex = 0;
      button.nextElementSibling.replaceChildren(...cells);
    });
    const toggle = parts[`${row}-strip`];
    toggle.hidden = !hasLens(explorer) || (side === "decoder" && view.states === "folded");
    toggle.setAttribute("aria-expanded", isOpen);
    const last = rowsOf(data, side) - (side === "encoder" ? 1 : isOpen ? 1 : 2);
    toggle.textContent = side === "encoder" && (!isOpen || root.dataset.width === "narrow") ? "already says" : nameOfLayer(Math.max(0, last));
    toggle.title = isOpen ? "Fold" : side === "encoder" ? "What the encoder\u2019s states already say, layer by layer" : "All layers of the decoder";
    parts[`${row}-table`].replaceChildren(...(data.lens && layers.length > 1 ? spokenTable(data, side, layers) : []));
  }
  parts["strip-note"].hidden = !hasLens(explorer) || view.states === "folded" || !(data.lens || requests.lens);
  parts["strip-note"].textContent = data.lens ? noteOf(data) : "Reading the states\u2026";
}

/** @param {Readonly<RecordData>} data */
function cellOf(data, side, layer, index) {
  const { words } = readingOf(data, side, layer, positionOf(side, index));
  const unread = isUnread(data, side, layer);
  const cell = buttonOf(`cell${unread ? " unread" : ""}`);
  cell.append(element("bdi", "", words[0].label));
  cell.tabIndex = -1;
  cell.style.setProperty("--p", `${unread ? 0 : 100 * words[0].probability ** 0.7}%`);
  Object.assign(cell.dataset, { side, layer, at: index });
  cell.setAttribute("aria-label", `${nameOfLayer(layer)} at ${tokenLabel(data, side, index)}: ${isolated(words[0].label)}, ${chance(words[0].probability)}`);
  return cell;
}

const tokenLabel = (data, side, index) => tokenName(data.sides[side === "encoder" ? "source" : "target"][index]);

/* For screen readers: a row per layer and a column per token. */
function spokenTable(data, side, layers) {
  const row = side === "encoder" ? "source" : "target";
  const places = data.sides[row].map((token, index) => index).filter((index) => hasCells(data.sides[row][index], side, index));
  const head = rowOf(element("td"), ...places.map((index) => headingCell(tokenLabel(data, side, index), "col")));
  const line = (layer) => {
    const said = places.map((index) => readingOf(data, side, layer, positionOf(side, index)).words[0]);
    return rowOf(headingCell(nameOfLayer(layer), "row"), ...said.map(({ label, probability }) => element("td", "", `${isolated(label)} ${chance(probability)}`)));
  };
  return [element("caption", "", `What the ${side}\u2019s states say`), head, ...layers.map(line)];
}

/** Name the layers at the start of each line of a sentence. Reads the layout. @param {Explorer} explorer */
export function placeStrips(explorer) {
  const { data, dom } = explorer;
  const isNarrow = dom.root.dataset.width === "narrow";
  for (const { side, row } of STRIPS) {
    const host = dom.parts[row];
    for (const old of host.querySelectorAll(".layer-names")) old.remove();
    const layers = data.lens ? layersShown(explorer, side) : [];
    if (layers.length < 2) continue;
    const zoom = host.getBoundingClientRect().width / host.offsetWidth;
    const topOf = (node) => node.getBoundingClientRect().top / zoom;
    const tops = dom.words[row].map(({ button }) => topOf(button.nextElementSibling) - topOf(host.parentElement));
    const lines = [...new Set(tops)].filter((top, place, all) => place === 0 || top - all[place - 1] > CELL_STEP);
    const made = lines.map((top, line) => {
      const names = element("span", "layer-names");
      names.setAttribute("aria-hidden", "true");
      names.style.top = `${top}px`;
      // The last name of the first line is the button that folds the strip.
      const named = isNarrow || line > 0 ? layers : layers.slice(0, -1);
      names.append(...named.map((layer) => element("span", isUnread(data, side, layer) ? "unread" : "", isNarrow ? String(layer || "e") : nameOfLayer(layer))));
      return names;
    });
    host.append(...made);
  }
}

/** @param {Explorer} explorer */
export function listenToStrips(explorer, update) {
  const { parts } = explorer.dom;
  for (const { side, row } of STRIPS) {
    parts[`${row}-strip`].addEventListener("click", () => {
      explorer.memory.readFor = ""; // a request that failed unasked may be tried again
      const folded = side === "encoder" ? "folded" : "encoder";
      update(explorer, { states: isUnfolded(explorer, side) ? folded : side === "encoder" ? side : "both" });
    });
    const host = parts[row];
    const cellAt = ({ target }) => target.closest(".cell");
    const look = (event) => {
      const cell = cellAt(event);
      if (cell) showCard(explorer, cell);
      else hideCard(explorer);
    };
    host.addEventListener("pointerover", look);
    host.addEventListener("pointerleave", ({ pointerType }) => pointerType !== "touch" && hideCard(explorer));
    host.addEventListener("click", (event) => cellAt(event)?.focus()); // Safari does not
    host.addEventListener("focusin", look);
    host.addEventListener("focusout", () => hideCard(explorer));
    host.addEventListener("keydown", (event) => cellAt(event) && onCellKey(explorer, row, event), true);
  }
}

/** Arrows move among the cells, Escape closes what one says. @param {Explorer} explorer */
function onCellKey(explorer, row, event) {
  const cell = event.target.closest(".cell");
  if (event.key === "Escape" && !explorer.dom.parts.card.hidden) {
    handled(event);
    hideCard(explorer);
  }
  if (!ARROWS[event.key]) return;
  handled(event);
  const columns = explorer.dom.words[row].map(({ button }) => [...button.nextElementSibling.children]).filter(({ length }) => length);
  const column = columns.findIndex((cells) => cells.includes(cell));
  const [down, right] = ARROWS[event.key];
  const step = explorer.dom.parts[row].dir === "rtl" ? -right : right;
  const next = columns[between(0, column + step, columns.length - 1)];
  const to = /** @type {HTMLElement} */ (next[between(0, columns[column].indexOf(cell) + down, next.length - 1)]);
  for (const one of columns.flat()) one.tabIndex = one === to ? 0 : -1;
  to.focus();
}

/** @param {Explorer} explorer */
function hideCard({ dom: { parts } }) {
  parts.card.hidden = true;
}

/** Show what one state says, below its cell. @param {Explorer} explorer */
function showCard(explorer, cell) {
  const { data, dom } = explorer;
  const { card } = dom.parts;
  const { side } = cell.dataset;
  const [layer, index] = [Number(cell.dataset.layer), Number(cell.dataset.at)];
  const { words, logit, ranks } = readingOf(data, side, layer, positionOf(side, index));
  const title = element("p", "card-title");
  title.append(element("b", "", tokenLabel(data, side, index)), side === "encoder" ? ` after ${nameOfLayer(layer)} of the encoder` : ` written from ${nameOfLayer(layer)} of the decoder`);
  if (!layer) title.lastChild.textContent = side === "encoder" ? " before the first layer" : " written from the decoder\u2019s embeddings";
  const table = element("table", "numbers");
  table.append(rowOf(headingCell("Jacobian lens", "col"), headingCell("", "col"), headingCell("logit lens", "col")));
  words.forEach(({ label, probability }, rank) => table.append(rowOf(wordCell(label), element("td", "chance", chance(probability)), wordCell(logit[rank]))));
  card.replaceChildren(title, table, element("p", "", ranksText(side, ranks, positionOf(side, index))), element("p", "rates", `On ${data.lens.tested} other sentences, ${ratesText(data, side, layer)}.`));
  card.hidden = false;
  cell.setAttribute("aria-describedby", card.id);
  placeCard(dom.root, cell, card);
}

const wordCell = (label) => {
  const cell = element("td");
  cell.append(element("bdi", "", label));
  return cell;
};

/* The ranks of the translation's words that rank best, or of the word that the decoder writes next. */
function ranksText(side, ranks, position) {
  const shown = ({ token, rank }) => `${isolated(token.label)} ${rank.toLocaleString("en")}`;
  if (side === "decoder") return `Rank of the word written here: ${shown(ranks[position])}.`;
  const best = new Map();
  for (const one of ranks.toSorted((a, b) => a.rank - b.rank)) if (!one.token.special && !best.has(one.token.label)) best.set(one.token.label, one);
  return `Ranks of the translation\u2019s words: ${[...best.values()].slice(0, OWN_WORDS).map(shown).join(", ")}.`;
}

/* Below the column's cells, inside the explorer. */
function placeCard(root, cell, card) {
  const [frame, box] = [root.getBoundingClientRect(), cell.parentElement.getBoundingClientRect()];
  const zoom = root.offsetWidth ? frame.width / root.offsetWidth : 1;
  const middle = (box.left + box.width / 2 - frame.left) / zoom - card.offsetWidth / 2;
  card.style.left = `${between(0, middle, root.offsetWidth - card.offsetWidth)}px`;
  card.style.top = `${(box.bottom - frame.top) / zoom + 4}px`;
}
