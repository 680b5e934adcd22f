// What an arrow key means, and an event that was answered.

export const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

export function handled(event) {
  event.preventDefault();
  event.stopPropagation();
}
