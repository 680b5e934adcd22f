// In presentation mode, keys press the buttons of the stops: arrows, Page Up and Page Down, and Escape.

const KEYS = { ArrowLeft: "back", PageUp: "back", ArrowRight: "onward", PageDown: "onward", Escape: "leave" };

/*
 * Elements that use arrow keys or Escape themselves: text boxes, lists, sliders and maps
 * (canvases).
 */
const OWN_KEYS = "input, textarea, select, canvas, [contenteditable=true], [role=slider], [role=listbox], [role=grid], [role=radiogroup]";

/* The element with the focus, even inside a component's shadow root. */
const focused = (event) => event.composedPath()[0];

/* Presenters' remotes send Page Up and Page Down, wherever the focus is. */
const isFree = (event) => event.key.startsWith("Page") || !(focused(event) instanceof Element && focused(event).closest(OWN_KEYS));

const buttonOf = (names) =>
  names.map((name) => document.querySelector(`.st-key-${name} button`)).find((button) => button !== null);

/** @type {WeakMap<object, {names: Record<string, string[]>, stop: () => void}>} */
const mounted = new WeakMap();

function press(names, event) {
  const part = KEYS[event.key];
  if (!part || event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey || event.shiftKey || !isFree(event)) return;
  const button = /** @type {HTMLButtonElement | undefined} */ (buttonOf(names[part]));
  if (!button) return;
  event.preventDefault();
  if (!button.disabled && !event.repeat) button.click();
}

export default function render({ data, parentElement }) {
  const known = mounted.get(parentElement);
  if (known) known.names = data;
  else {
    const view = { names: data, stop: () => document.removeEventListener("keydown", onKey) };
    const onKey = (event) => press(view.names, event);
    document.addEventListener("keydown", onKey);
    mounted.set(parentElement, view);
  }
  return () => {
    mounted.get(parentElement)?.stop();
    mounted.delete(parentElement);
  };
}
