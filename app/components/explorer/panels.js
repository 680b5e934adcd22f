// Panels over the page, one at a time: checks, options, files to save, keyboard shortcuts, explanations.

/* Panel name to the button that toggles it. */
const PANELS = { checks: "badge", options: "options-button", exports: "save-button", keys: "keys-button", help: "help-button" };

/** Name of the open panel, or null. @param {Explorer} explorer */
export const openPanel = ({ dom: { parts } }) => Object.keys(PANELS).find((name) => !parts[name].hidden) ?? null;

/** Open one panel and close the others; null closes all. @param {Explorer} explorer */
export function showPanel({ dom: { parts } }, shown) {
  for (const [name, button] of Object.entries(PANELS)) {
    parts[name].hidden = name !== shown;
    parts[button].setAttribute("aria-expanded", name === shown);
  }
}

/** @param {Explorer} explorer */
export const togglePanel = (explorer, name) => showPanel(explorer, openPanel(explorer) === name ? null : name);

/** @param {Explorer} explorer */
export function listenToPanels(explorer) {
  for (const [name, button] of Object.entries(PANELS)) {
    explorer.dom.parts[button].addEventListener("click", () => {
      togglePanel(explorer, name);
      explorer.dom.parts[name].scrollIntoView({ block: "nearest" }); // explanations open below the map
    });
  }
}
