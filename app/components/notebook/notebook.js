// Saves a page's notebook or script with the choices that the page's link holds: only the browser knows an explorer's view.

import { save } from "../shared/save.js";

/** @type {Map<string, any>}  the data of the parts of the page, by key */
const parts = (/** @type {any} */ (window).headlightNotebook ??= new Map());

const CONSTANT = /^([A-Z_]+) = .*?( {2}#.*)?$/;

/* The literals of all constants whose value the page gives, the link's last. */
function valuesOf(query) {
  const values = Object.assign({}, ...[...parts.values()].map((part) => part.values));
  for (const { choices } of parts.values())
    for (const [name, [constant, limit]] of Object.entries(choices)) {
      const text = query.get(name) ?? "";
      if (name === "q" && query.has("words")) continue; // then it counts words, not tokens
      if (/^\d+$/.test(text) && Number(text) < limit) values[constant] = text;
      else if (/^[a-z]+$/.test(text)) values[constant] = JSON.stringify(text);
    }
  return values;
}

/* A script with these values for its constants. */
const filled = (script, values) =>
  script
    .split("\n")
    .map((line) => {
      const [, name, comment = ""] = CONSTANT.exec(line) ?? [];
      return name in values ? `${name} = ${values[name]}${comment}` : line;
    })
    .join("\n");

function filledNotebook(text, values) {
  const made = JSON.parse(text);
  for (const cell of made.cells) cell.source = filled(cell.source.join(""), values).split(/(?<=\n)/);
  return `${JSON.stringify(made, null, 1)}\n`;
}

/* Streamlit would save the file as Python made it: this listener comes first. */
function onClick(event) {
  const files = Object.assign({}, ...[...parts.values()].map((part) => part.files));
  for (const [key, [name, text]] of Object.entries(files)) {
    if (!event.target.closest?.(`.st-key-${key} button`)) continue;
    event.preventDefault();
    event.stopImmediatePropagation();
    const values = valuesOf(new URLSearchParams(window.location.search));
    const written = name.endsWith(".ipynb") ? filledNotebook(text, values) : filled(text, values);
    save(name, new Blob([written], { type: "text/plain" }));
  }
}

export default function render({ data, key }) {
  parts.set(key, data);
  document.addEventListener("click", onClick, true); // the same listener is added once
  return () => parts.delete(key);
}
