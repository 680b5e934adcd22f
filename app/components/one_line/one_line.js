// Makes a text area a single line that grows with its text: Enter applies it, and line breaks become spaces.
// On a phone the sidebar makes room for the box once an example was chosen.

const BREAKS = /\s*[\r\n]+\s*/g;

/* Streamlit applies a text area at Ctrl+Enter, and knows of a text only by the event that typing makes. */
const apply = (area) =>
  area.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", ctrlKey: true, bubbles: true, cancelable: true }));

/* An Enter that ends the choice among an input method's words makes no line break, so it does not come here. */
function beforeInput(event) {
  const area = event.target;
  if (event.inputType === "insertLineBreak" || event.inputType === "insertParagraph") {
    event.preventDefault();
    apply(area);
  }
}

/* Pasted, dropped or filled in from outside. React must not be asked: it would take the text for one it knows. */
function joinLines(event) {
  const area = event.target;
  if (!/[\r\n]/.test(area.value)) return;
  const caret = area.value.slice(0, area.selectionStart).replace(BREAKS, " ").length;
  const { set } = Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, "value");
  set.call(area, area.value.replace(BREAKS, " "));
  area.setSelectionRange(caret, caret);
}

const NARROW = "(max-width: 768px)"; // where Streamlit lays the sidebar over the page

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
  area.rows = 1; // of three, for browsers that do not size a field by its content
  area.addEventListener("beforeinput", beforeInput);
  area.addEventListener("input", joinLines);
}

const watchers = new WeakMap();

/* The text area may come after this, and anew after a change of its label. */
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
