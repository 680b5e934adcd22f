// Explains the words on the page: the list in the help panel is also what each of them says under the pointer.

/**
 * The sentence of the help panel about something, such as "scores" or "entropy".
 *
 * @param {Explorer} explorer
 */
export const meaningOf = ({ dom: { parts } }, name) =>
  parts.help.querySelector(`[data-about="${name}"]`).textContent.replaceAll(/\s+/g, " ").trim();

/**
 * Gives an element the sentences about some words, for the pointer and for screen readers.
 *
 * @param {Explorer} explorer
 */
export function explain(explorer, element, ...names) {
  const words = names.map((name) => meaningOf(explorer, name)).join(" ");
  if (element.title === words) return;
  element.title = words;
  element.setAttribute("aria-description", words);
}

/**
 * The elements whose markup names what they are about: `data-explained="mean"`.
 *
 * @param {Explorer} explorer
 */
export function explainControls(explorer) {
  /** @type {NodeListOf<HTMLElement>} */
  const parts = explorer.dom.root.querySelectorAll("[data-explained]");
  for (const part of parts) {
    explain(explorer, part, ...part.dataset.explained.split(" "));
  }
}
