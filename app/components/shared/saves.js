// The save menu of a picture: its formats, and whether a picture carries a caption.

import { buttonOf, element } from "./dom.js";

/**
 * Fill a picture's menu.
 * @param {HTMLElement} menu  a `details` element
 * @param {string} what  names the picture, for screen readers
 * @param {(ending: string, captioned: boolean) => void} save
 * @param {string} [prefix]  of the buttons' names
 */
export function fillSaves(menu, what, save, prefix = "") {
  const summary = element("summary", "", "Save");
  summary.setAttribute("aria-label", `Save: ${what}`);
  const panel = element("div");
  const tick = Object.assign(element("input"), { type: "checkbox" });
  for (const ending of ["png", "svg", "pdf", "csv"]) {
    const button = buttonOf("", ending.toUpperCase());
    button.dataset.save = `${prefix}${ending}`;
    button.addEventListener("click", () => save(ending, tick.checked));
    panel.append(button);
  }
  const label = element("label", "");
  label.append(tick, " Caption");
  panel.append(label);
  menu.replaceChildren(summary, panel);
}
