// Aligns explorers shown side by side: one shared row of controls, and equal heights for matching parts.

import { element } from "../shared/dom.js";
import { geometryOf } from "./geometry.js";

/* Parts whose heights are equalised; the map's reserved height is handled by `levelMaps`. */
const LEVELLED = [".claim-line", ".gutter", ".sentence", ".says", ".left", ".right h2", ".map-choices", ".foot"];

/* Controls that the group shares; zoom stays individual. */
const SHARED = ["kinds", "views"];

/** Align an explorer with the rest of its group. @param {Explorer} explorer */
export function level(explorer) {
  const roots = groupOf(explorer).map(({ dom }) => dom.root);
  roots.sort((one, other) => one.getBoundingClientRect().left - other.getBoundingClientRect().left);
  const [first, ...followers] = roots;
  const isBeside = followers.length > 0 && followers.every((root) => root.getBoundingClientRect().left >= first.getBoundingClientRect().right);
  for (const root of roots) {
    root.classList.toggle("level", isBeside);
    root.classList.toggle("follower", isBeside && root !== first);
    if (!isBeside || root !== first) returnControls(root);
    root.style.paddingTop = "";
  }
  levelParts(roots, isBeside);
  if (isBeside) shareControls(first, roots);
  levelMaps(explorer);
}

const groupOf = (explorer) => [explorer, ...(explorer.data?.peers.keys() ?? [])].filter(({ dom }) => dom.root.isConnected);

/** Align the first rows of all maps: their column labels may differ in height. @param {Explorer} explorer */
export function levelMaps(explorer) {
  const group = groupOf(explorer);
  const isLevel = ({ dom }) => dom.root.classList.contains("level");
  const topOf = (one) => (isLevel(one) && one.view.picture === "map" ? geometryOf(one, one.view.kind).top : 0);
  const top = Math.max(...group.map(topOf));
  const tallest = Math.max(...group.map((one) => one.layout.reserved + top - topOf(one)));
  for (const one of group) {
    const { parts } = one.dom;
    parts["map-box"].style.marginTop = isLevel(one) ? `${top - topOf(one)}px` : "";
    parts["map-place"].style.minHeight = `${isLevel(one) ? tallest : one.layout.reserved}px`;
  }
}

function levelParts(roots, isBeside) {
  for (const selector of LEVELLED) {
    const columns = roots.map((root) => [...root.querySelectorAll(selector)]);
    for (const part of columns.flat()) part.style.minHeight = "";
    if (!isBeside) continue;
    columns[0].forEach((_, place) => {
      const parts = columns.map((column) => column[place]).filter(Boolean);
      const height = Math.max(...parts.map((part) => part.getBoundingClientRect().height));
      for (const part of parts) part.style.minHeight = `${height}px`;
    });
  }
}

/* The placeholder at each shared control's original position. */
const placeholders = new WeakMap();

/* Move the first explorer's controls into a row above all explorers. */
function shareControls(first, roots) {
  let bar = first.querySelector(":scope > .shared-choices");
  if (!bar) {
    bar = element("div", "shared-choices choices");
    first.prepend(bar);
    for (const name of SHARED) {
      const choices = first.querySelector(`[data-part=${name}]`).closest(".choices");
      for (const choice of [...choices.children].filter((one) => !one.matches(".zoom"))) {
        const place = document.createComment("");
        choice.replaceWith(place);
        placeholders.set(choice, place);
        bar.append(choice);
      }
    }
  }
  const right = Math.max(...roots.map((root) => root.getBoundingClientRect().right));
  bar.style.width = `${right - first.getBoundingClientRect().left}px`;
  for (const root of roots) root.style.paddingTop = `${bar.offsetHeight + 8}px`;
}

function returnControls(root) {
  const bar = root.querySelector(":scope > .shared-choices");
  if (!bar) return;
  while (bar.firstElementChild) placeholders.get(bar.firstElementChild).replaceWith(bar.firstElementChild);
  bar.remove();
}
