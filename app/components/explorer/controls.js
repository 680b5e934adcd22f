// Hears the buttons, lists and sliders beside the pictures.

import { checksAreOpen, openChecks } from "./badge.js";
import { HIDEABLE } from "./choices.js";
import { lastStep, paintPlay, pause } from "./steps.js";
import { chooseCombine, chooseHidden, chooseKind, chooseMass, chooseOrder, chooseQuantity, chooseUnit, chooseView, goToStep } from "./update.js";

const PLAY_EVERY = 750;

export function play(explorer) {
  if (explorer.playing) return pause(explorer);
  if (explorer.step >= lastStep(explorer)) goToStep(explorer, 0);
  explorer.playing = setInterval(() => {
    if (explorer.step < lastStep(explorer)) goToStep(explorer, explorer.step + 1);
    if (explorer.step >= lastStep(explorer)) pause(explorer);
  }, PLAY_EVERY);
  return paintPlay(explorer);
}

export function listenToOptions(explorer) {
  const { parts } = explorer;
  const onClick = (group, name, choose) => {
    for (const button of parts[group].children) {
      button.addEventListener("click", () => choose(explorer, button.dataset[name]));
    }
  };
  onClick("kinds", "kindOption", chooseKind);
  onClick("views", "viewOption", chooseView);
  onClick("units", "unitOption", chooseUnit);
  onClick("combines", "combineOption", chooseCombine);
  parts.sort.addEventListener("change", () => chooseOrder(explorer, parts.sort.value));
  parts.quantity.addEventListener("change", () => chooseQuantity(explorer, parts.quantity.value));
  parts.mass.addEventListener("input", () => chooseMass(explorer, Number(parts.mass.value)));
  for (const name of HIDEABLE) {
    const box = parts[`hide-${name}`];
    box.addEventListener("change", () => chooseHidden(explorer, name, box.checked));
  }
}

export function listenToSteps(explorer) {
  const { parts } = explorer;
  const walk = (step) => {
    pause(explorer);
    goToStep(explorer, step);
  };
  parts.step.addEventListener("input", () => walk(Number(parts.step.value) - 1));
  parts["step-back"].addEventListener("click", () => walk(explorer.step - 1));
  parts["step-on"].addEventListener("click", () => walk(explorer.step + 1));
  parts.play.addEventListener("click", () => play(explorer));
}

export function listenToBadge(explorer) {
  explorer.parts.badge.addEventListener("click", () => openChecks(explorer, !checksAreOpen(explorer)));
}
