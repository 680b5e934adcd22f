// Shows the units of a text and how the chosen one is split: merges in order, a lookup, or a scored segmentation.

import { element, partsOf } from "../shared/dom.js";
import { mounts } from "../shared/mounts.js";
import { between } from "../shared/numbers.js";
import { readTheme } from "../shared/theme.js";
import { writeParameters } from "../shared/url.js";
import { leftText, placeText, statesOf } from "./replay.js";

const BOUNDARY = "\u2581";

function symbolOf([text, id], { className = "", withId = false, score = "" } = {}) {
  const made = element("span", `symbol ${id === null ? "unknown" : ""} ${className}`);
  const form = element("bdi");
  for (const part of text.split(/(\u2581)/)) if (part) form.append(element("span", part === BOUNDARY ? "mark" : "", part));
  made.append(form);
  if (withId) made.append(element("i", "", id === null ? "<unk>" : String(id)));
  if (score) made.append(element("i", "", score));
  return made;
}

/** @param {any[]} symbols  [text, id, score?] @param {(at: number) => object} [options] */
function symbolsOf(symbols, options = () => ({})) {
  const row = element("span", "symbols");
  row.append(...symbols.map((symbol, at) => symbolOf(symbol, options(at))));
  return row;
}

/* The words of the sentence as the network reads them; one is chosen. */
function paintUnits(parts, view, name, choose) {
  const choices = view.data.units.map(({ symbols }, unit) => {
    const label = element("label");
    const input = element("input");
    Object.assign(input, { type: "radio", name, value: unit, checked: unit === view.unit });
    input.setAttribute("aria-label", symbols.map(([text]) => text).join(" | "));
    input.addEventListener("change", () => choose(unit));
    label.append(input, symbolsOf(symbols));
    return label;
  });
  parts.units.replaceChildren(...choices);
}

function paintMerges(parts, { data, unit, step }) {
  const chosen = data.units[unit];
  const states = statesOf(chosen);
  const last = states.length - 1;
  const rows = states.map((symbols, n) => {
    const row = element("li", `${n > step ? "later" : ""} ${n === step ? "now" : ""}`);
    const [made] = n ? chosen.merges[n - 1] : [-1];
    const [next] = n < last ? chosen.merges[n] : [-9];
    const classOf = (at) => (at === made ? "made" : n === step && (at === next || at === next + 1) ? "next" : "");
    row.append(symbolsOf(symbols, (at) => ({ className: classOf(at), withId: n === last })));
    const said = element("span", "said");
    if (n) {
      const [at, rank] = chosen.merges[n - 1];
      const [left, right] = states[n - 1].slice(at, at + 2);
      const of = n > 1 ? "" : ` of ${data.rules.toLocaleString("en")}`;
      said.append(element("b", "", `${left[0]} + ${right[0]}`), ` merge ${(rank + 1).toLocaleString("en")}${of}`);
    } else said.append(symbols.length > 1 ? "single characters" : "one character");
    row.append(said);
    if (n > step) row.setAttribute("aria-hidden", "true");
    return row;
  });
  parts.ladder.replaceChildren(...rows);
  parts.steps.hidden = last === 0;
  Object.assign(parts.step, { max: last, value: step });
  parts.step.setAttribute("aria-valuetext", placeText(step, last));
  parts.back.disabled = step === 0;
  parts.on.disabled = step === last;
  parts.place.textContent = placeText(step, last);
  parts.left.textContent = step === last ? leftText(chosen, data.entries) : "";
}

/* Tokenizers without merges: a row for the chosen segmentation, and one for each of the next best. */
function paintLookup(parts, { data, unit }) {
  const { symbols, sum, others } = data.units[unit];
  parts.steps.hidden = true;
  const row = element("li", "now");
  row.append(symbolsOf(symbols, (at) => ({ withId: true, score: symbols[at][2] })));
  if (data.kind === "pieces") row.append(element("span", "said", sum ? `log-probability ${sum}, the largest sum` : "the largest sum"));
  const rest = others.map(({ pieces, sum: other }) => {
    const line = element("li");
    line.append(symbolsOf(pieces.map((text) => [text, -1])), element("span", "said", `log-probability ${other}`));
    return line;
  });
  parts.ladder.replaceChildren(row, ...rest);
  parts.left.textContent = "";
}

function paint(view) {
  const { data, root, parts } = view;
  parts.unit.hidden = !data.units.length;
  if (!data.units.length) return;
  if (data.kind === "subwords") paintMerges(parts, view);
  else paintLookup(parts, view);
  Object.assign(root.dataset, { unit: view.unit, step: view.step });
  if (!data.inUrl) return;
  const isLast = view.step === data.units[view.unit].merges.length;
  writeParameters(view.pathname, { unit: view.unit === data.opened ? null : view.unit, step: isLast ? null : view.step });
}

function createView(parent) {
  const root = parent.querySelector(".merges");
  const parts = partsOf(root);
  const view = { root, parts, data: null, sent: "", unit: 0, step: 0, pathname: "", destroy: () => {} };
  const go = (step) => paint(Object.assign(view, { step }));
  parts.back.addEventListener("click", () => go(view.step - 1));
  parts.on.addEventListener("click", () => go(view.step + 1));
  parts.step.addEventListener("input", () => go(Number(parts.step.value)));
  parts.units.setAttribute("aria-label", "Words of the sentence");
  return view;
}

const viewAt = mounts(createView);

export default function render({ data, parentElement, key }) {
  const view = viewAt(parentElement);
  readTheme(view.root);
  const sent = JSON.stringify(data);
  if (view.sent === sent) return;
  const at = (value, most, otherwise) => between(0, value ?? otherwise, most);
  const unit = at(data.view.unit, data.units.length - 1, data.opened);
  const most = data.units[unit]?.merges.length ?? 0;
  Object.assign(view, { data, sent, unit, step: at(data.view.step, most, most), pathname: window.location.pathname });
  paintUnits(view.parts, view, `unit-${key}`, (chosen) => paint(Object.assign(view, { unit: chosen, step: data.units[chosen].merges.length })));
  paint(view);
}
