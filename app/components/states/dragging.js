// Drags a cell of one grid onto another with a mouse or pen; a finger taps both instead, because dragging scrolls.

import { placeOf } from "./grid.js";

const LEAST = 5; // px: a shorter way is a click

/**
 * Let the cells of the grid `from` be dragged onto the grid `to`.
 * @param {{from: HTMLElement, to: HTMLElement, pick: (row: number, column: number) => void, put: (row: number, column: number) => void,
 *   cancel: () => void}} drag
 */
export function listenToDragging({ from, to, pick, put, cancel }) {
  /** @type {{place: [number, number], x: number, y: number} | null} */
  let start = null;
  let moves = false;
  const below = (event) => {
    const root = /** @type {ShadowRoot} */ (to.getRootNode());
    const cell = root.elementFromPoint(event.clientX, event.clientY);
    return to.contains(cell) ? placeOf(cell) : null;
  };
  const mark = (place) => {
    for (const cell of to.querySelectorAll(".over")) cell.classList.remove("over");
    // The state goes into the row that it came from, wherever in the column it is dropped.
    if (place) to.querySelector(`[data-row="${start.place[0]}"][data-column="${place[1]}"]`).classList.add("over");
  };
  from.addEventListener("pointerdown", (event) => {
    const place = placeOf(event.target);
    if (!place || event.pointerType === "touch" || event.button !== 0) return;
    start = { place, x: event.clientX, y: event.clientY };
    moves = false;
  });
  from.addEventListener("pointermove", (event) => {
    if (!start) return;
    if (!moves && Math.hypot(event.clientX - start.x, event.clientY - start.y) >= LEAST) {
      moves = true;
      from.setPointerCapture(event.pointerId); // a click without a drag still reaches its cell
      pick(...start.place);
    }
    if (moves) mark(below(event));
  });
  const end = (event) => {
    const place = start && moves && event.type === "pointerup" ? below(event) : null;
    if (start) mark(null);
    if (place) put(...place);
    else if (moves && start) cancel();
    start = null;
  };
  from.addEventListener("pointerup", end);
  from.addEventListener("pointercancel", end);
}
