// Fills the table: a column a place, a row a sentence, in each cell a token over its id.

import { readTheme } from "../shared/theme.js";

function cellOf([id, word]) {
  const cell = document.createElement("td");
  if (word !== null) {
    const form = document.createElement("bdi");
    form.textContent = form.title = word;
    cell.append(form);
  }
  const number = document.createElement("span");
  number.textContent = id;
  cell.append(number);
  if (id === 0) {
    cell.className = "padding";
    cell.title = "padding";
  }
  return cell;
}

function heading(words, scope) {
  const head = document.createElement("th");
  head.scope = scope;
  head.textContent = words;
  return head;
}

function rowOf(name, cells) {
  const row = document.createElement("tr");
  row.append(heading(name, "row"), ...cells);
  return row;
}

export default function render({ data, parentElement }) {
  const root = parentElement.querySelector(".token-table");
  const part = (name) => root.querySelector(`[data-part="${name}"]`);
  readTheme(root);
  part("title").textContent = data.title;
  part("note").textContent = data.note;
  part("box").setAttribute("aria-label", data.title);
  const positions = data.rows[0].map((_, position) => heading(position, "col"));
  const body = data.rows.map((cells, row) => rowOf(`sentence ${row + 1}`, cells.map(cellOf)));
  part("table").replaceChildren(rowOf("position", positions), ...body);
}
