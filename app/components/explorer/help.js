// Explanations of terms: the entries of the help panel double as tooltips.

/** Text of a help-panel entry, such as "scores" or "entropy". @param {Explorer} explorer */
export const meaningOf = ({ dom: { parts } }, name) =>
  parts.help.querySelector(`[data-about="${name}"]`).textContent.replaceAll(/\s+/g, " ").trim();

/** Attach help-panel entries to an element, as tooltip and for screen readers. @param {Explorer} explorer */
export function explain(explorer, element, ...names) {
  const words = names.map((name) => meaningOf(explorer, name)).join(" ");
  if (element.title === words) return;
  element.title = words;
  element.setAttribute("aria-description", words);
}

/** Attach explanations to all elements with `data-explained="mean"` and the like. @param {Explorer} explorer */
export function explainControls(explorer) {
  /** @type {NodeListOf<HTMLElement>} */
  const parts = explorer.dom.root.querySelectorAll("[data-explained]");
  for (const part of parts) {
    explain(explorer, part, ...part.dataset.explained.split(" "));
  }
}
