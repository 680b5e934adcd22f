// Event handlers for buttons, lists and sliders.

import { HIDEABLE } from "./choices.js";
import { layOut } from "./layout.js";
import { paint } from "./paint.js";
import { paintStatistics } from "./statistics.js";
import { lastStep, paintPlay, paintSteps, pause } from "./steps.js";
import { askEffects, chooseQuantity, goToStep, hideColumns, update } from "./update.js";

const PLAY_EVERY = 750; // ms

/** @param {Explorer} explorer */
export function play(explorer) {
  if (explorer.now.playing) return pause(explorer);
  if (explorer.now.step >= lastStep(explorer)) goToStep(explorer, 0);
  explorer.now.playing = setInterval(() => {
    if (explorer.now.step < lastStep(explorer)) goToStep(explorer, explorer.now.step + 1);
    if (explorer.now.step >= lastStep(explorer)) pause(explorer);
  }, PLAY_EVERY);
  return paintPlay(explorer);
}

/** @param {Explorer} explorer */
export function listenToOptions(explorer) {
  const { parts } = explorer.dom;
  const onClick = (group, attribute, field) => {
    for (const button of parts[group].children) {
      button.addEventListener("click", () => update(explorer, { [field]: button.dataset[attribute] }));
    }
  };
  onClick("kinds", "kindOption", "kind");
  onClick("views", "viewOption", "picture");
  onClick("units", "unitOption", "unit");
  onClick("combines", "combineOption", "combine");
  parts.combines.addEventListener("click", () => layOut(explorer));
  parts.sort.addEventListener("change", () => {
    update(explorer, { sort: parts.sort.value });
    askEffects(explorer);
    paint(explorer, ["wanted"]);
  });
  parts.quantity.addEventListener("change", () => chooseQuantity(explorer, parts.quantity.value));
  parts.mass.addEventListener("input", () => update(explorer, { mass: Number(parts.mass.value) }));
  for (const name of ["bars", "means"]) {
    parts[name].addEventListener("change", () => {
      explorer.layout[name] = parts[name].checked;
      layOut(explorer);
    });
  }
  for (const name of HIDEABLE) {
    const box = parts[`hide-${name}`];
    box.addEventListener("change", () => hideColumns(explorer, name, box.checked));
  }
}

/** @param {Explorer} explorer */
export function listenToSteps(explorer) {
  const { parts } = explorer.dom;
  const walk = (step) => {
    pause(explorer);
    goToStep(explorer, step);
  };
  parts.step.addEventListener("input", () => walk(Number(parts.step.value) - 1));
  parts["step-back"].addEventListener("click", () => walk(explorer.now.step - 1));
  parts["step-on"].addEventListener("click", () => walk(explorer.now.step + 1));
  parts.play.addEventListener("click", () => play(explorer));
}

/** A closed fold is not painted. @param {Explorer} explorer */
export function listenToFolds(explorer) {
  const { parts } = explorer.dom;
  parts["steps-fold"].addEventListener("toggle", () => explorer.data && paintSteps(explorer));
  parts["numbers-fold"].addEventListener("toggle", () => explorer.data && paintStatistics(explorer));
}
