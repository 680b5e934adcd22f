// Presentation mode shows one screen of a page at a time, zoomed; its style sheet (present.css) names the screen.

/** The screen that a component is on: "sentences", "maps", or "" outside presentation mode. @param {HTMLElement} root */
export const screenOf = (root) => getComputedStyle(root).getPropertyValue("--screen").trim();

/** The zoom of presentation mode; 1 outside it. @param {HTMLElement} part */
const zoomOf = (part) => part.currentCSSZoom || 1;

/*
 * ms after which a presented component checks its position again: Streamlit may still remove
 * elements above it.
 */
const SETTLED = 400;

/** Call `layOut` again if the top of a presented root has moved since. @param {HTMLElement} root @param {() => void} layOut */
export function onceSettled(root, layOut) {
  const topOf = () => Math.round(root.getBoundingClientRect().top);
  const before = topOf();
  setTimeout(() => root.clientWidth && topOf() !== before && layOut(), SETTLED);
}

/** The height from the top of a part to the bottom of the window, in the part's own pixels. @param {HTMLElement} part */
export const heightBelow = (part) => (window.innerHeight - part.getBoundingClientRect().top) / zoomOf(part);
