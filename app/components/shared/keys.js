// Arrow-key directions as [down, right], and marking an event as handled.

export const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

export function handled(event) {
  event.preventDefault();
  event.stopPropagation();
}
