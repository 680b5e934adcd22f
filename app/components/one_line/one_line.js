// Makes a text area behave as a single line: Enter applies it, it grows with its text, and line breaks become spaces.
// On a phone, choosing an example closes the sidebar.

const BREAKS = /\s*[\r\n]+\s*/g;

/* Streamlit applies a text area on Ctrl+Enter; dispatch that. */
const apply = (area) =>
  area.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", ctrlKey: true, bubbles: true, cancelable: true }));

/* Not fired for an Enter that confirms an input-method composition. */
function beforeInput(event) {
  const area = event.target;
  if (event.inputType === "insertLineBreak" || event.inputType === "insertParagraph") {
    event.preventDefault();
    apply(area);
  }
}

/* Handles pasted or dropped text. Use the native setter: through React's, the new text would count as already known. */
function joinLines(event) {
  const area = event.target;
  if (!/[\r\n]/.test(area.value)) return;
  const caret = area.value.slice(0, area.selectionStart).replace(BREAKS, " ").length;
  const { set } = Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, "value");
  set.call(area, area.value.replace(BREAKS, " "));
  area.setSelectionRange(caret, caret);
}

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
  area.rows = 1; // for browsers without field-sizing
  area.addEventListener("beforeinput", beforeInput);
  area.addEventListener("input", joinLines);
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
