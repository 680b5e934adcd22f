// Stores the view in the page's link, reads it from there, and links to the page of the shown head.

import { ROLLOUT } from "./maps.js";
import { FURTHER, linkOf } from "./view.js";
import { allHeads, allLayers } from "./words.js";

const WRITE_DELAY = 80; // ms

/** Parameters of the page's link that the payload does not always set. @param {Explorer} explorer */
export function linkParameters({ host }) {
  const parameters = host.link?.read() ?? {};
  return Object.fromEntries(FURTHER.filter((name) => name in parameters).map((name) => [name, parameters[name]]));
}

/** Write the link, except while waiting for data after back/forward navigation. @param {Explorer} explorer */
export function writeLink(explorer) {
  clearTimeout(explorer.linkTimer);
  if (!explorer.memory.returning) explorer.host.link?.write(linkOf(explorer.data, explorer.view));
  paintHeadLink(explorer);
}

/** Write the link after a delay: browsers throttle URL changes while an arrow key is held down. @param {Explorer} explorer */
export function scheduleLink(explorer) {
  clearTimeout(explorer.linkTimer);
  explorer.linkTimer = setTimeout(() => writeLink(explorer), WRITE_DELAY);
}

/**
 * On back/forward navigation, wait for the data of the new link. Returns a function that stops listening.
 * @param {Explorer} explorer
 */
export function listenToNavigation(explorer) {
  const stop = explorer.host.link?.listen(() => {
    clearTimeout(explorer.linkTimer);
    explorer.memory.returning = true;
  });
  return stop ?? (() => {});
}

/** Whether the view is a single head, whose arithmetic another page shows. @param {Explorer} explorer */
export const hasHeadPage = ({ host, data, view }) =>
  host.headPage !== null && data !== null && !allLayers(data, view) && !allHeads(data, view) && view.quantity !== ROLLOUT;

/** Show or hide the link to the head's arithmetic. @param {Explorer} explorer */
function paintHeadLink(explorer) {
  const { inside } = explorer.dom.parts;
  inside.hidden = !hasHeadPage(explorer);
  if (explorer.host.headPage) inside.href = explorer.host.headPage.url();
}

/**
 * Open the head's page from here or from another link to it. The host opens it on a plain click, the browser on a
 * click with a modifier key. Returns a function that stops listening.
 * @param {Explorer} explorer
 */
export function listenToHeadLink(explorer) {
  const open = (/** @type {any} */ event) => {
    // Check the view, not the painted link, which lags behind.
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey || !hasHeadPage(explorer)) return;
    event.preventDefault();
    event.stopPropagation();
    writeLink(explorer);
    explorer.host.headPage.open();
  };
  explorer.dom.parts.inside.addEventListener("click", open);
  return explorer.host.headPage?.listen(open) ?? (() => {});
}
