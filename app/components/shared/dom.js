// Creates elements and finds a component's named parts.

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";

export function element(tag, className, words) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (words !== undefined) made.textContent = words;
  return made;
}

/* A button that submits no form. */
export function buttonOf(className, words) {
  const button = element("button", className, words);
  button.type = "button";
  return button;
}

/* A native radio button as a segment of its group, which is one tab stop and has arrow keys. */
export function segmentOf(text, radio) {
  const label = element("label", "segment");
  label.append(Object.assign(document.createElement("input"), { type: "radio", ...radio }), element("span", "", text));
  return label;
}

/** Offer options, each a value and its text, in a select list. @param {[string | number, string][]} options */
export function fillSelect(select, options) {
  select.replaceChildren(...options.map(([value, text]) => Object.assign(element("option", "", text), { value })));
}

/* The heading of a row ("row") or a column ("col") of a table. */
export const headingCell = (words, scope) => Object.assign(element("th", "", words), { scope });

export function rowOf(...cells) {
  const row = element("tr");
  row.append(...cells);
  return row;
}

export function svgElement(tag, attributes = {}) {
  const made = document.createElementNS(SVG_NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

/* A bar filled to a share of its length. */
export function barOf(className, share) {
  const bar = element("span", className);
  const filled = element("i");
  filled.style.width = `${100 * Math.min(1, share)}%`;
  bar.append(filled);
  return bar;
}

export const bold = (words) => element("b", "", words);

/* Map each `data-part` name to its element. */
export const partsOf = (root) =>
  Object.fromEntries([...root.querySelectorAll("[data-part]")].map((part) => [part.dataset.part, part]));

/**
 * Return an event's position in an element, in the element's own pixels: presentation mode zooms
 * the page.
 * @returns {[number, number]} x and y
 */
export function pointIn(target, { clientX, clientY }) {
  const box = target.getBoundingClientRect();
  const zoom = target.offsetWidth ? box.width / target.offsetWidth : 1;
  return [(clientX - box.left) / zoom, (clientY - box.top) / zoom];
}
