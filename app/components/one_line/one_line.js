// Makes a text area behave as a single line: Enter applies it, it grows with its text, and line breaks become spaces.
// On a phone, choosing an example closes the sidebar.

import { keepOnOneLine } from "../shared/single_line.js";

/* Dispatch Ctrl+Enter, on which Streamlit applies a text area. */
const apply = (area) =>
  area.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", ctrlKey: true, bubbles: true, cancelable: true }));

const NARROW = "(max-width: 768px)"; // below this width Streamlit's sidebar covers the page

function makeRoom(event) {
  if (!event.target.closest?.("[class*=st-key-example_] button") || !window.matchMedia(NARROW).matches) return;
  const button = document.querySelector("[data-testid=stSidebarCollapseButton] button");
  /** @type {HTMLElement | null} */ (button)?.click();
}

const prepared = new WeakSet();

function prepare(box) {
  const area = /** @type {HTMLTextAreaElement | null} */ (document.querySelector(`.st-key-${box} textarea`));
  if (!area || prepared.has(area)) return;
  prepared.add(area);
  keepOnOneLine(area, apply);
}

const watchers = new WeakMap();

/* The text area may mount later than this component, and remounts when its label changes. */
export default function render({ data: box, parentElement }) {
  prepare(box);
  if (!watchers.has(parentElement)) {
    const watcher = new MutationObserver(() => prepare(box));
    watcher.observe(document.querySelector("[data-testid=stMain]") ?? document.body, { childList: true, subtree: true });
    watchers.set(parentElement, watcher);
    document.addEventListener("click", makeRoom);
  }
  return () => {
    watchers.get(parentElement)?.disconnect();
    watchers.delete(parentElement);
    document.removeEventListener("click", makeRoom);
  };
}
