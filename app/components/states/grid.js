// A grid of buttons with one tab stop: arrow keys walk, and the caller's `press` gets the cell of a click or Enter.

import { buttonOf, element } from "../shared/dom.js";
import { ARROWS, handled } from "../shared/keys.js";
import { between } from "../shared/numbers.js";

/** Build a grid. @param {StateGrid} grid */
export function stateGrid({ id, name, dir, corner = "", rows, columns, cells, press, rest = [0, 0] }) {
  const grid = element("div", "grid");
  Object.assign(grid, { dir, role: "grid", ariaLabel: name });
  grid.style.setProperty("--columns", String(columns.length));
  const buttons = cells.map((row, r) => row.map((cell, c) => cellButton(id, cell, r, c)));
  const rowOfCells = (...parts) => {
    const row = element("div", "cells");
    row.role = "row";
    row.append(...parts);
    return row;
  };
  const heading = (role, className, words) => Object.assign(element("span", className, words), { role });
  grid.append(
    rowOfCells(heading("columnheader", "corner", corner), ...columns.map(({ text, strong }) => heading("columnheader", strong ? "column strong" : "column", text))),
    ...buttons.map((row, r) => rowOfCells(heading("rowheader", "row-name", rows[r]), ...row)),
  );
  const placed = buttons[rest[0]]?.[rest[1]] ?? buttons[0]?.[0];
  if (placed) placed.tabIndex = 0;
  grid.addEventListener("click", (event) => {
    const [r, c] = placeOf(event.target) ?? [];
    if (r !== undefined) press(r, c, event.detail === 0);
  });
  grid.addEventListener("keydown", (event) => {
    const place = placeOf(event.target);
    const step = ARROWS[event.key];
    if (!place || !step || event.ctrlKey || event.metaKey || event.altKey) return;
    handled(event);
    const across = dir === "rtl" ? -step[1] : step[1];
    focusCell(grid, between(0, place[0] + step[0], rows.length - 1), between(0, place[1] + across, columns.length - 1));
  });
  const scroll = Object.assign(element("div", "scroll"), { dir });
  scroll.append(grid);
  scroll.addEventListener("scroll", () => showCut(scroll));
  new ResizeObserver(() => showCut(scroll)).observe(scroll);
  return scroll;
}

/** @param {string} id @param {StateGrid["cells"][0][0]} cell @param {number} row @param {number} column */
function cellButton(id, { text, label, ground, opacity = 1, ink, looks }, row, column) {
  const button = buttonOf(`cell ${looks}`, text);
  Object.assign(button, { role: "gridcell", ariaLabel: label, title: label, tabIndex: -1 });
  Object.assign(button.dataset, { at: `${id} ${row} ${column}`, row, column });
  if (ground) button.style.background = opacity < 1 ? `color-mix(in srgb, ${ground} ${Math.round(100 * opacity)}%, var(--page))` : ground;
  if (ink) button.style.color = ink;
  return button;
}

/* A side beyond which there are more columns fades. In a text from right to left, `scrollLeft` is negative. */
function showCut(scroll) {
  const { scrollLeft, scrollWidth, clientWidth, dir } = scroll, gone = Math.abs(scrollLeft), left = scrollWidth - clientWidth - gone;
  const [before, after] = dir === "rtl" ? [left, gone] : [gone, left];
  scroll.classList.toggle("cut-left", before > 1);
  scroll.classList.toggle("cut-right", after > 1);
}

const FADED = 36; // px, as in states.css

/** Scroll a grid, not the page, until a cell is in view. */
export function bringIntoView(cell) {
  const scroll = cell.closest(".scroll"), [box, own, name] = [scroll, cell, scroll.querySelector(".corner")].map((part) => part.getBoundingClientRect());
  const [from, to] = scroll.dir === "rtl" ? [box.left + FADED, name.left] : [name.right, box.right - FADED];
  if (own.left < from || own.right > to) scroll.scrollLeft += (own.left + own.right - from - to) / 2;
}

/** The row and column of a cell, or null elsewhere. @returns {[number, number] | null} */
export function placeOf(target) {
  const cell = target?.closest?.(".cell");
  return cell ? [Number(cell.dataset.row), Number(cell.dataset.column)] : null;
}

export function focusCell(grid, row, column) {
  const cell = grid.querySelector(`[data-row="${row}"][data-column="${column}"]`);
  for (const other of grid.querySelectorAll('[tabindex="0"]')) other.tabIndex = -1;
  cell.tabIndex = 0;
  cell.focus();
}
