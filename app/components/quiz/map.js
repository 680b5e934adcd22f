// Draws an item's small map as a table; cells that are options can be pointed at.

import { buttonOf, element, headingCell } from "../shared/dom.js";
import { rampStep } from "../shared/theme.js";

const WORDS = { "?": "?", _: "", "#": "" }; // the text of cells to find, empty cells, masked cells

const inMark = (marks, row, column) => Object.keys(marks).find((letter) => marks[letter][0] === row && marks[letter][1] === column);

/** @param {Theme} theme */
function cellOf(value, theme) {
  const cell = element("td", value === "#" ? "masked" : "", typeof value === "number" ? value.toFixed(2) : WORDS[value]);
  if (typeof value === "number") {
    const step = rampStep(value);
    cell.style.background = theme.ramp.css[step];
    cell.style.color = theme.ramp.ink[step];
  }
  if (value === "#") cell.title = "masked";
  return cell;
}

/**
 * Return the picture of an item.
 * @param {{rows: string[], columns: string[], cells: (number | string)[][], marks: Record<string, number[]>}} picture
 * @param {string | null} chosen  the letter of the chosen option
 * @param {((letter: string) => void) | null} choose  null where nothing can be chosen
 */
export function mapOf(picture, theme, chosen, choose) {
  const table = element("table", "picture");
  const head = element("tr");
  head.append(element("td", "corner", "query \u2193  key \u2192"), ...picture.columns.map((word) => headingCell(word, "col")));
  table.append(head);
  picture.cells.forEach((values, row) => {
    const line = element("tr");
    line.append(headingCell(picture.rows[row], "row"));
    values.forEach((value, column) => {
      const cell = cellOf(value, theme);
      const letter = inMark(picture.marks, row, column);
      if (letter) cell.append(markOf(letter, letter === chosen, choose, `row ${picture.rows[row]}, column ${picture.columns[column]}`));
      line.append(cell);
    });
    table.append(line);
  });
  return table;
}

function markOf(letter, isChosen, choose, place) {
  const className = isChosen ? "mark chosen" : "mark";
  if (!choose) return element("span", className, letter);
  const mark = buttonOf(className, letter);
  mark.setAttribute("aria-pressed", String(isChosen));
  mark.setAttribute("aria-label", `${letter}: ${place}`);
  mark.addEventListener("click", () => choose(letter));
  return mark;
}
