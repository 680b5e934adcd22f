// Makes a text area behave as a single line: Enter applies it, it grows with its text, and line breaks become spaces.

import { keepOnOneLine } from "../shared/single_line.js";

/* Dispatch Ctrl+Enter, on which Streamlit applies a text area. */
const apply = (area) =>
  area.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", ctrlKey: true, bubbles: true, cancelable: true }));

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
  }
  return () => {
    watchers.get(parentElement)?.disconnect();
    watchers.delete(parentElement);
  };
}
