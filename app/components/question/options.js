// Builds the options of a question: words of a sentence, cells of a grid, or a list of texts. One option is a tab stop.

import { buttonOf, element } from "../shared/dom.js";
import { scaleRaster } from "../shared/plot.js";
import { rampStep, signedStep } from "../shared/theme.js";
import { directionOf, isolated } from "../shared/tokens.js";

/** Fill the box with the options and return their buttons, in order. */
export function buildOptions(box, data) {
  const buttons = data.options.map((option, index) => optionButton(option, index, data));
  box.className = `options ${data.layout}`;
  box.setAttribute("aria-label", data.prompt);
  box.dir = data.layout === "words" ? directionOf(data.options) : "ltr";
  box.replaceChildren(...(data.layout === "grid" ? gridOf(data, buttons) : buttons));
  return buttons;
}

function optionButton(option, index, { every, layout }) {
  const button = buttonOf("option");
  button.dataset.option = index;
  button.tabIndex = index ? -1 : 0;
  button.setAttribute("aria-label", option.name);
  if (every) button.setAttribute("aria-pressed", "false");
  for (const name of ["special", "unknown", "close"]) if (option[name]) button.classList.add(name);
  if (layout !== "grid") button.append(Object.assign(element("span", "label", option.label), { dir: "auto" }));
  button.append(element("span", "value"), element("span", "mark"));
  return button;
}

/* A grid: the columns' labels, then a row's label and its cells; titles above and to the left. */
function gridOf({ rows, columns, row_title, column_title }, buttons) {
  const grid = element("div", `cells ${columns.some((label) => label.length > 2) ? "upright" : ""}`);
  grid.style.gridTemplateColumns = `minmax(0, max-content) repeat(${columns.length}, var(--cell))`;
  const labelled = (className, label) => Object.assign(element("span", className, isolated(label)), { title: label });
  grid.append(element("span", ""), ...columns.map((label) => labelled("column", label)));
  rows.forEach((label, row) => {
    grid.append(labelled("row", label), ...buttons.slice(row * columns.length, (row + 1) * columns.length));
  });
  const [down, right] = [`${row_title} ↓`, `${column_title} →`].map((title) => title.replaceAll(" ", "\u00a0"));
  return [element("p", "axis", `${down} · ${right}`), grid];
}

/** Make one option the only one in the tab order. */
export function makeCurrent(buttons, index) {
  buttons.forEach((button, place) => (button.tabIndex = place === index ? 0 : -1));
}

/** Show which options are pointed at before the answer is given. */
export function markChosen(buttons, chosen) {
  buttons.forEach((button, index) => {
    button.classList.toggle("chosen", chosen.has(index));
    if (button.hasAttribute("aria-pressed")) button.setAttribute("aria-pressed", String(chosen.has(index)));
  });
}

/* The mark of an option by its state once the question is answered. */
const MARKS = { right: "✓", near: "✓", wrong: "✗", missed: "✓" };

/** Show each option's number, and mark the right options and the learner's; until `settled`, only wrong answers. */
export function markAnswered(buttons, data, chosen, settled) {
  buttons.forEach((button, index) => {
    if (!settled && !chosen.has(index)) return;
    const { value, name } = data.options[index];
    const isRight = data.correct.includes(index);
    const state = chosen.has(index)
      ? isRight ? "right" : data.near.includes(index) ? "near" : "wrong"
      : isRight ? "missed" : data.near.includes(index) ? "also" : "";
    button.dataset.state = state;
    button.setAttribute("aria-disabled", "true");
    button.removeAttribute("aria-pressed");
    button.classList.toggle("masked", Boolean(data.filled) && isRight);
    button.querySelector(".value").textContent = value;
    button.querySelector(".mark").textContent = MARKS[state] ?? "";
    const { right, near, wrong } = data.words;
    const verdict = { right, near, wrong, missed: data.words.this }[state];
    button.setAttribute("aria-label", [value ? `${name}, ${value}` : name, verdict].filter(Boolean).join(". "));
  });
}

/** Frame the options that a hint leaves. */
export const markLeft = (buttons, among) => buttons.forEach((button, index) => button.classList.toggle("left", among.includes(index)));

/** Colour marked options by their weight or change, as in the maps. Add the scale if the cells show no numbers. */
export function shadeOptions(parent, buttons, data, theme) {
  const shaded = buttons.filter((button, index) => "state" in button.dataset && shadeOption(button, data.options[index].shade, data.scale, theme));
  if (!data.filled || !shaded.length) return;
  if (!parent.querySelector(".scale")) {
    const line = element("p", "scale", data.shaded_by);
    line.append(Object.assign(element("canvas"), { width: 256, height: 1 }), "1");
    parent.append(line);
  }
  scaleRaster(theme.ramp, parent.querySelector(".scale canvas"));
}

function shadeOption(button, shade, scale, theme) {
  if (typeof shade !== "number") return false;
  const [table, step] = scale === "change" ? [theme.signed, signedStep(shade)] : [theme.ramp, rampStep(shade)];
  button.style.setProperty("--shade", table.css[step]);
  button.style.setProperty("--on-shade", table.ink[step]);
  button.classList.add("shaded");
  return true;
}
