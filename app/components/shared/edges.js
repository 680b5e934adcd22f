// Says at which edges of a scrolling box there is more to see.

/**
 * Keep `data-more` of a box up to date: "left", "right", "both" or "". The style sheet fades these edges.
 * @param {HTMLElement} box  scrolls sideways
 * @returns {() => void} to be called when its content or size has changed
 */
export function fadeEdges(box) {
  const update = () => {
    const before = Math.abs(box.scrollLeft) > 1;
    const after = box.scrollWidth - box.clientWidth - Math.abs(box.scrollLeft) > 1;
    box.dataset.more = before && after ? "both" : before ? "left" : after ? "right" : "";
  };
  box.addEventListener("scroll", update, { passive: true });
  return update;
}
