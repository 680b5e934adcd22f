// The form around the explorer: direction, search, text, target and examples; reports each new choice.

import { buttonOf, element } from "../shared/dom.js";
import { keepOnOneLine } from "../shared/single_line.js";
import { BEAMS, languagesOf, modelOf, searchName, turned } from "./choice.js";

/**
 * @typedef {import("./choice.js").Choice} Choice
 * @typedef {import("./choice.js").OfflineModel} OfflineModel
 */

/**
 * Fill the form's lists and report what is chosen in it.
 * @param {Record<string, any>} parts  the page's named elements
 * @param {OfflineModel[]} models
 * @param {{choice: () => Choice, shown: () => {source: string, translation: string} | null,
 *   change: (change: Partial<Choice>) => void}} page
 */
export function listenToForm(parts, models, { choice, shown, change }) {
  parts.directions.addEventListener("change", ({ target: { value } }) => change(turned(choice(), models, value, shown())));
  for (let beam = BEAMS.fewest; beam <= BEAMS.most; beam++) {
    const option = element("option", "", searchName(beam));
    option.value = beam;
    parts.beam.append(option);
  }
  for (const side of ["from", "to"]) parts[side].addEventListener("change", () => change({ [side]: parts[side].value, target: "" }));
  parts.beam.addEventListener("change", () => change({ beam: Number(parts.beam.value) }));
  const entered = () => targetOf(choice(), parts.source.value.trim(), parts.target.value.trim());
  keepOnOneLine(parts.source, () => change(entered()));
  parts.form.addEventListener("submit", (event) => {
    event.preventDefault();
    change(entered());
  });
  // Fires on Enter, on the cross that clears the box, and when the box is left.
  parts.target.addEventListener("change", () => change(entered()));
  parts["use-target"].addEventListener("click", () => {
    const { source, target } = entered();
    change({ source, target: target || referenceOf(modelOf(models, choice().direction), source) });
  });
}

/**
 * Return the text and its target as they were entered; a target that was entered for another text is dropped.
 * @param {Choice} choice
 * @param {string} source
 * @param {string} target
 */
const targetOf = (choice, source, target) => ({ source, target: source === choice.source || target !== choice.target ? target : "" });

const referenceOf = ({ examples }, source) => examples.find(({ text }) => text === source)?.reference ?? "";

/**
 * Show a choice in the form.
 * @param {Record<string, any>} parts
 * @param {OfflineModel[]} models
 * @param {Choice} choice
 * @param {(change: Partial<Choice>, view?: object | null) => void} change
 */
export function paintForm(parts, models, choice, change) {
  const model = modelOf(models, choice.direction);
  const [source, target] = languagesOf(model, choice), [from, to] = model.spoken ? [choice.from, choice.to].map((code) => code.split("_")[0]) : model.direction.split("-");
  if (parts.directions.children.length !== models.length) paintDirections(parts, models);
  for (const button of parts.directions.querySelectorAll("input")) button.checked = button.value === choice.direction;
  parts["direction-choice"].hidden = models.length < 2;
  paintLanguages(parts, model, choice);
  parts.beam.value = choice.beam;
  setField(parts.source, choice.source, from, `Type a sentence in ${source}`, `${source} sentence`);
  setField(parts.target, choice.target, to, `Another ${target} translation (optional)`, `${target} translation to look at`);
  if (choice.target) parts.another.open = true;
  const reference = referenceOf(model, choice.source);
  parts["use-target"].textContent = reference && !choice.target ? "Use the reference" : "Look at it";
  paintExamples(parts, model, choice, change);
}

/* The lists of a network with language codes. */
function paintLanguages(parts, { languages = {}, direction }, choice) {
  for (const side of ["from", "to"]) {
    parts[side].parentElement.hidden = !choice[side];
    if (parts[side].dataset.direction !== direction) parts[side].replaceChildren(...Object.entries(languages).map(([code, name]) => Object.assign(element("option", "", name === code ? code : `${name} (${code})`), { value: code })));
    Object.assign(parts[side], { value: choice[side] }).dataset.direction = direction;
  }
}

function paintDirections(parts, models) {
  parts.directions.replaceChildren(
    ...models.map(({ direction, source, target, note }) => {
      const label = element("label"), button = element("input");
      Object.assign(button, { type: "radio", name: "direction", value: direction });
      label.append(button, element("span", "", `${source} \u2192 ${target}${note ? `, trained here (${direction.split("-")[2]})` : ""}`));
      return label;
    }),
  );
}

/*
 * Rebuild the buttons only when the direction changes: a rebuilt button would lose the keyboard
 * focus.
 */
function paintExamples(parts, { direction, examples }, { source }, change) {
  parts["examples-section"].hidden = !examples.length;
  parts.hint.textContent = examples.find(({ text }) => text === source)?.hint ?? "";
  if (parts.examples.dataset.direction !== direction) {
    parts.examples.dataset.direction = direction;
    parts.examples.replaceChildren(
      ...examples.map(({ title, text, hint, view }) => {
        const item = element("li");
        const button = buttonOf("", title);
        button.addEventListener("click", () => change({ source: text, target: "", edits: "" }, view));
        item.append(button, element("p", "", hint));
        return item;
      }),
    );
  }
  for (const [place, button] of parts.examples.querySelectorAll("button").entries()) {
    button.setAttribute("aria-pressed", examples[place].text === source);
  }
}

function setField(field, value, language, placeholder, label) {
  // Keep what is being typed while only something else changes.
  if (field.dataset.shown !== value) field.value = value;
  field.dataset.shown = value;
  Object.assign(field, { lang: language, placeholder });
  field.setAttribute("aria-label", label);
}
