// The step strip: decoding steps, and the most probable tokens at each.

import { barOf, element } from "../shared/dom.js";
import { chance } from "../shared/numbers.js";
import { isolated } from "../shared/tokens.js";
import { focusOf, itemsOf } from "./focus.js";
import { forcedToken } from "./sentences.js";

const SHAPES = { play: "M2 1v10l9-5z", pause: "M2 1h3v10H2zM7 1h3v10H7z" };

export const lastStep = ({ data }) => data.sides.produced.length - 1;

/** @param {Explorer} explorer */
export function buildSteps(explorer) {
  const { parts } = explorer.dom;
  pause(explorer);
  parts.step.max = lastStep(explorer) + 1;
  parts.alternatives.replaceChildren(
    ...explorer.data.alternatives[0].map(() => {
      const item = element("li", "alternative");
      item.append(element("bdi", "form"), element("span", "chance numbers"), barOf("bar", 0));
      return item;
    }),
  );
  explorer.dom.stepShown = -1;
}

/** The step of the hovered row, else the last chosen step. @param {Explorer} explorer */
export function shownStep(explorer) {
  const { query, previewed } = focusOf(explorer);
  if (explorer.view.kind === "encoder" || query === null || !previewed) return explorer.now.step;
  return itemsOf(explorer, "produced")[query].members[0];
}

/** @param {Explorer} explorer */
export function paintSteps(explorer) {
  const { data } = explorer;
  const { parts } = explorer.dom;
  if (!parts["steps-fold"].open) return;
  const step = shownStep(explorer);
  parts.step.value = explorer.now.step + 1;
  parts["step-number"].textContent = explorer.now.step + 1;
  parts["step-count"].textContent = lastStep(explorer) + 1;
  if (explorer.dom.stepShown === step) return;
  explorer.dom.stepShown = step;
  parts.step.setAttribute("aria-valuetext", stepInWords(explorer, explorer.now.step));
  parts["step-looked-at"].textContent = `at step ${step + 1}${step === 0 && forcedToken(data) ? " (forced)" : ""}`;
  data.alternatives[step].forEach(({ label, probability, written, added }, index) => {
    const item = parts.alternatives.children[index];
    const [form, share, bar] = item.children;
    form.textContent = label;
    share.textContent = chance(probability);
    bar.firstChild.style.width = `${100 * probability}%`;
    item.classList.toggle("written", written);
    const unlikely = added ? ", though not among the most probable" : "";
    const how = step === 0 && forcedToken(data) ? "forced" : "written";
    item.title = written ? `${label}: ${how} at this step${unlikely}` : label;
  });
}

function stepInWords({ data }, step) {
  const { label, probability } = data.sides.produced[step];
  return `step ${step + 1} of ${data.sides.produced.length}: ${isolated(label)}, probability ${chance(probability)}`;
}

/** @param {Explorer} explorer */
export function pause(explorer) {
  clearInterval(explorer.now.playing);
  explorer.now.playing = 0;
  paintPlay(explorer);
}

export function paintPlay({ dom: { parts }, now: { playing } }) {
  parts["play-shape"].setAttribute("d", playing ? SHAPES.pause : SHAPES.play);
  parts.play.setAttribute("aria-label", playing ? "Pause" : "Play the steps");
}
