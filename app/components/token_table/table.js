// Fills the table: one column per token, one row per sentence, each cell a token above its id.

import { element, headingCell, partsOf, rowOf } from "../shared/dom.js";
import { fadeEdges } from "../shared/edges.js";
import { readTheme } from "../shared/theme.js";

function cellOf([id, word]) {
  const cell = element("td", id === 0 ? "padding" : "");
  if (word !== null) {
    const form = element("bdi", "", word);
    form.title = word;
    cell.append(form);
  }
  cell.append(element("span", "", id));
  if (id === 0) cell.title = "padding";
  return cell;
}

export default function render({ data, parentElement }) {
  const root = parentElement.querySelector(".token-table");
  const parts = partsOf(root);
  readTheme(root);
  parts.title.textContent = data.title;
  parts.note.textContent = data.note;
  parts.box.setAttribute("aria-label", data.title);
  const numbers = data.rows[0].map((_, place) => headingCell(data.first + place, "col"));
  const body = data.rows.map((cells, row) => rowOf(headingCell(`sentence ${row + 1}`, "row"), ...cells.map(cellOf)));
  parts.table.replaceChildren(rowOf(headingCell("token", "row"), ...numbers), ...body);
  const observer = new ResizeObserver(fadeEdges(parts.box));
  observer.observe(parts.box);
  return () => observer.disconnect();
}
