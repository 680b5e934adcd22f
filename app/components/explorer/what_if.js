// What if: the edits on offer, the active edits, and their effect on each token.

import { buttonOf, element } from "../shared/dom.js";
import { fixed, signed } from "../shared/numbers.js";
import { signedStep } from "../shared/theme.js";
import { tokenName } from "../shared/tokens.js";
import { currentMap } from "./focus.js";
import { isMasked, mapOf, ROLLOUT, valueAt, WEIGHTS } from "./maps.js";
import { paintNextStep, strongestHead } from "./next_step.js";
import { request } from "./requests.js";
import { allHeads, allLayers, headName } from "./words.js";

/* Change of log-probability that gets the full colour, in nats. */
const FULL_COLOUR = 2;

const STRENGTHENED = 4;
const SHARPER = 0.5;
const FLATTER = 2;

/**
 * Request the pass with one edit added ("+off.cross.2.0") or removed ("-…"), or without edits ("").
 * @param {Explorer} explorer
 */
export function requestEdit(explorer, command, repair = null) {
  explorer.memory.repair = repair;
  const paint = () => [paintWhatIf, paintNextStep].forEach((part) => part(explorer));
  request(explorer, "edit", { command }, { what: "The edited pass", giveUp: paint });
  paint();
}

/** @param {Explorer} explorer */
const canEdit = ({ host }) => host.answers.has("edit");

/** The shown head in the text form of an edit; null if several are combined. @param {Explorer} explorer */
function shownHead({ data, view }) {
  if (view.quantity === ROLLOUT || allLayers(data, view) || allHeads(data, view)) return null;
  return `${view.kind}.${view.layer}.${view.head}`;
}

/**
 * Tokens of the pinned cell; null if not pinned, or for a word of several tokens, since an edit applies to one token.
 * @param {Explorer} explorer
 */
function pinnedTokens(explorer) {
  const { pinned } = explorer.view;
  const map = currentMap(explorer);
  const only = (items, index) => (index === null || items[index].members.length > 1 ? null : items[index].members[0]);
  return { query: only(map.rows, pinned.query), key: only(map.columns, pinned.key) };
}

/** The edit (`text`) and label of each button. A button without `text` is disabled, except `row`. @param {Explorer} explorer */
function offers(explorer) {
  const { data, view } = explorer;
  const { parts } = explorer.dom;
  const head = shownHead(explorer);
  const map = currentMap(explorer);
  const { query, key } = pinnedTokens(explorer);
  const { pinned } = view;
  const cell = head && query !== null && key !== null && !isMasked(map, pinned.query, pinned.key);
  const edge = cell ? `${tokenName(map.columns[pinned.key])} \u2192 ${tokenName(map.rows[pinned.query])}` : "";
  const word = view.kind === "encoder" ? query : view.kind === "cross" ? key : null;
  const hidden = word !== null && !data.sides.source[word].special;
  const side = view.kind === "decoder" ? "target" : "source";
  const name = head ? headName(data, view) : "";
  const becomes = parts["head-becomes"].value;
  const most = strongestHead(explorer);
  return {
    most: most ? { text: most.text, label: most.label } : { label: "" },
    head: head ? { text: `${becomes}.${head}`, label: `Switch off ${name}` } : { label: "Switch off: choose one head" },
    cut: cell ? { text: `cut.${head}.${query}.${key}`, label: `Cut ${edge}` } : { label: "Cut an edge: pin a cell" },
    times: cell
      ? { text: `times.${head}.${query}.${key}.${STRENGTHENED}`, label: `Strengthen ${edge}` }
      : { label: "Strengthen an edge: pin a cell" },
    sharper: head ? { text: `temp.${head}.${SHARPER}`, label: "Sharpen this head" } : { label: "Sharpen this head" },
    flatter: head ? { text: `temp.${head}.${FLATTER}`, label: "Flatten this head" } : { label: "Flatten this head" },
    hide: hidden ? { text: `hide.${word}`, label: `Hide ${tokenName(data.sides.source[word])}` } : { label: "Hide a word: pin it" },
    causal: { text: "causal", label: "Remove the causal mask" },
    positions: { text: `positions.${side}.scale-0`, label: `Remove the positions of the ${side}` },
    row: head && query !== null ? { label: "Draw this row by hand" } : { label: "Draw a row: pin one" },
  };
}

/* Ways to ablate a head: the first word of the edit's text. */
const ABLATIONS = ["off", "mean", "uniform"];

/** The active edit that ablates this head, if any. @param {Explorer} explorer */
const ablationOf = (explorer, head) => ABLATIONS.map((becomes) => `${becomes}.${head}`).find((text) => isMade(explorer, text));

/** Button beside the map's title: ablate the shown head, or undo that. @param {Explorer} explorer */
function switchHead(explorer) {
  const head = shownHead(explorer);
  const made = ablationOf(explorer, head);
  requestEdit(explorer, made ? `-${made}` : `+off.${head}`);
}

/** @param {Explorer} explorer */
function paintSwitch(explorer, busy) {
  const { data, view } = explorer;
  const button = explorer.dom.parts["switch-head"];
  const head = shownHead(explorer);
  button.hidden = head === null || !canEdit(explorer);
  if (button.hidden) return;
  const made = Boolean(ablationOf(explorer, head));
  button.textContent = made ? "Switch this head back on" : "Switch this head off";
  button.disabled = busy;
  button.setAttribute("aria-pressed", made);
  const name = headName(data, view);
  button.title = made
    ? `Undo the ablation of ${name}. More under What if, below.`
    : `Set the output of ${name} to 0 and see what changes. More under What if, below.`;
}

/** Whether an edit is active; its button then removes it. @param {Explorer} explorer */
const isMade = (explorer, text) => explorer.data.whatIf.edits.some((edit) => edit.text === text);

/** @param {Explorer} explorer */
export function listenToWhatIf(explorer) {
  const { parts } = explorer.dom;
  for (const button of editButtons(explorer)) {
    button.addEventListener("click", () => {
      if (button.dataset.edit === "row") return openRow(explorer, parts["drawn-row"].hidden);
      const { text } = offers(explorer)[button.dataset.edit];
      return requestEdit(explorer, `${isMade(explorer, text) ? "-" : "+"}${text}`);
    });
  }
  parts["head-becomes"].addEventListener("change", () => paintWhatIf(explorer));
  parts["switch-head"].addEventListener("click", () => switchHead(explorer));
  parts["apply-row"].addEventListener("click", () => applyRow(explorer));
}

/** @param {Explorer} explorer */
const editButtons = (explorer) =>
  /** @type {HTMLButtonElement[]} */ ([...explorer.dom.parts["edit-buttons"].querySelectorAll("[data-edit]")]);

/** Update the buttons to the shown head and pinned cell. @param {Explorer} explorer */
export function paintWhatIf(explorer) {
  const { data } = explorer;
  const { parts } = explorer.dom;
  if (!data.whatIf) return;
  const offered = offers(explorer);
  const busy = Boolean(explorer.requests.edit);
  parts["what-if"].setAttribute("aria-busy", busy);
  paintSwitch(explorer, busy);
  for (const button of editButtons(explorer)) {
    const { text, label } = offered[button.dataset.edit];
    const made = text !== undefined && isMade(explorer, text);
    const shown = made ? UNDO_LABELS[button.dataset.edit] ?? label : label;
    if (button.textContent !== shown) button.textContent = shown;
    if (button.dataset.edit === "most") button.hidden = !text;
    button.disabled = busy || (button.dataset.edit === "row" ? !canDraw(explorer) : text === undefined && !button.hidden);
    if (button.dataset.edit !== "row") button.setAttribute("aria-pressed", String(made));
  }
  if (!canDraw(explorer) || parts["drawn-row"].dataset.of !== drawnRow(explorer)) openRow(explorer, false);
}

const UNDO_LABELS = {
  head: "Switch it back on",
  sharper: "Reset the sharpness",
  flatter: "Reset the sharpness",
  causal: "Restore the causal mask",
  positions: "Restore the positions",
};

/** Rebuild the list of edits and their effect for a new payload. @param {Explorer} explorer */
export function buildWhatIf(explorer) {
  const { data } = explorer;
  const { parts } = explorer.dom;
  const { whatIf } = data;
  parts["what-if"].hidden = !whatIf;
  parts["switch-head"].hidden = !whatIf;
  if (!whatIf) return;
  if (whatIf.edits.length) parts["what-if"].open = true;
  parts["edit-buttons"].hidden = !canEdit(explorer);
  const none = !whatIf.edits.length;
  parts["edit-note"].textContent = [
    ...whatIf.problems,
    ...(whatIf.means ? [`Averages are over ${whatIf.means.sentences.toLocaleString("en-US")} sentences: ${whatIf.means.corpus}.`] : []),
    ...(none ? ["Edit the pass: the maps, the token probabilities and the translation are updated."] : []),
  ].join(" ");
  parts.edits.replaceChildren(...whatIf.edits.map((edit) => editItem(explorer, edit)));
  if (whatIf.edits.length > 1 && canEdit(explorer)) {
    const all = element("li", "command");
    const button = buttonOf("all", "Remove all");
    button.addEventListener("click", () => requestEdit(explorer, ""));
    all.append(button);
    parts.edits.append(all);
  }
  parts["edit-effect"].hidden = none || !whatIf.change;
  if (none || !whatIf.change) return;
  const sum = whatIf.change.reduce((total, change) => total + change, 0);
  const { again } = data;
  const found = again && !again.problem ? ` The new translation has ${fixed(again.log_prob, 3)} (${again.search}).` : "";
  parts["edit-sum"].textContent =
    `The log-probability of \u201c${data.translation}\u201d changes by ${signed(sum, 3)} nats, ` +
    `from ${fixed(whatIf.before, 3)} to ${fixed(whatIf.before + sum, 3)}.${found}`;
  parts["edit-legend"].textContent =
    `Below each token: the change in its log-probability, in nats; orange is less likely, blue more, full colour at \u00b1${FULL_COLOUR}. ` +
    "The maps above show the changed pass: choose \u201cchange\u201d under Options to see where they differ.";
}

/** @param {Explorer} explorer */
function editItem(explorer, { text, label }) {
  const item = element("li", "", label);
  item.dataset.edit = text;
  if (!canEdit(explorer)) return item;
  const button = buttonOf("take-back", "\u00d7");
  button.setAttribute("aria-label", `Remove: ${label}`);
  button.addEventListener("click", () => requestEdit(explorer, `-${text}`));
  item.append(button);
  return item;
}

/** The change of each token, in the theme's colours. @param {Explorer} explorer */
export function paintEditTokens(explorer) {
  const { data, theme } = explorer;
  if (!data.whatIf?.change) return;
  const { css, ink } = theme.signed;
  explorer.dom.parts["edit-tokens"].replaceChildren(
    ...data.sides.produced.map((token, place) => {
      const change = data.whatIf.change[place];
      const item = element("li", "", tokenName(token));
      const step = signedStep(change / FULL_COLOUR);
      Object.assign(item.style, { background: css[step], color: ink[step] });
      item.append(element("small", "", signed(change)));
      return item;
    }),
  );
}

/** A row can be set by hand for a single head and a pinned token. @param {Explorer} explorer */
const canDraw = (explorer) =>
  shownHead(explorer) !== null && explorer.view.unit === "pieces" && explorer.view.pinned.query !== null;

/** Identifies the row that the sliders edit. @param {Explorer} explorer */
const drawnRow = (explorer) => [explorer.data.sentence, shownHead(explorer), explorer.view.pinned.query].join();

/** Open or close sliders for the pinned row, starting at the head's own weights. @param {Explorer} explorer */
function openRow(explorer, open) {
  const { parts } = explorer.dom;
  const button = editButtons(explorer).find(({ dataset }) => dataset.edit === "row");
  if (parts["drawn-row"].hidden === !open) return;
  parts["drawn-row"].hidden = !open;
  button.setAttribute("aria-expanded", open);
  if (!open) return;
  parts["drawn-row"].dataset.of = drawnRow(explorer);
  const map = mapOf(explorer.data, { ...explorer.view, quantity: WEIGHTS });
  const { query } = explorer.view.pinned;
  parts["drawn-row-note"].textContent =
    `Where ${headName(explorer.data, explorer.view)} looks while ${map.kind === "encoder" ? "reading" : "producing"} ` +
    `${tokenName(map.rows[query])}: drag the sliders; the row is normalised to sum to 1.`;
  parts["drawn-keys"].replaceChildren(
    ...map.columns.flatMap((column, key) => {
      if (isMasked(map, query, key)) return [];
      const label = element("label");
      const slider = element("input");
      Object.assign(slider, { type: "range", min: 0, max: 100, value: Math.round(100 * valueAt(map, query, key)) });
      slider.dataset.key = key;
      const name = element("span", "form", tokenName(column));
      const number = element("span", "numbers", fixed(slider.value / 100, 2));
      slider.addEventListener("input", () => (number.textContent = fixed(Number(slider.value) / 100, 2)));
      label.append(slider, number, name);
      return [label];
    }),
  );
}

/** @param {Explorer} explorer */
function applyRow(explorer) {
  const { parts } = explorer.dom;
  const map = currentMap(explorer);
  const weights = Array.from({ length: map.keys }, () => 0);
  for (const slider of parts["drawn-keys"].querySelectorAll("input")) weights[slider.dataset.key] = Number(slider.value);
  const sum = weights.reduce((total, weight) => total + weight, 0);
  if (!sum) return;
  while (weights.at(-1) === 0) weights.pop();
  const shares = weights.map((weight) => Number((weight / sum).toFixed(4)));
  requestEdit(explorer, `+row.${shownHead(explorer)}.${explorer.view.pinned.query}.${shares.join("-")}`);
}
