// Writes the complete view to the page's URL, beside the parameters that Python owns, and reads it from a link.

import { ROLLOUT } from "./maps.js";
import { FURTHER, linkOf } from "./view.js";
import { allHeads, allLayers } from "./words.js";

const ADDRESS_DELAY = 80;

/* Only the explorer that owns the URL, or one shown together with it, reads the URL. */
export const linkParameters = ({ data }) => {
  if (!data.address && !data.together) return {};
  const query = new URLSearchParams(window.location.search);
  return Object.fromEntries(FURTHER.filter((name) => query.has(name)).map((name) => [name, query.get(name)]));
};

/** @param {Explorer} explorer */
const isWritten = (explorer, query) =>
  Object.entries(linkOf(explorer.data, explorer.view)).every(([name, value]) => query.get(name) === (value === null ? null : String(value)));

/** Write the URL if this explorer owns it and its page is still the open one. @param {Explorer} explorer */
export function writeAddress(explorer) {
  clearTimeout(explorer.addressTimer);
  const address = new URL(window.location.href);
  const owns = explorer.data.address && address.pathname === explorer.pathname && !explorer.memory.returning;
  if (owns && !isWritten(explorer, address.searchParams)) setAddress(explorer, address);
  paintInside(explorer);
}

/** Whether the view is a single head, whose arithmetic another page shows. @param {Explorer} explorer */
const leadsInside = ({ data, view }) =>
  Boolean(data?.inside) && !allLayers(data, view) && !allHeads(data, view) && view.quantity !== ROLLOUT;

/** Show or hide the link to the head's arithmetic. @param {Explorer} explorer */
function paintInside(explorer) {
  const { data } = explorer;
  const { parts } = explorer.dom;
  parts.inside.hidden = !leadsInside(explorer);
  if (data.inside) parts.inside.href = `${data.inside}?${new URLSearchParams(window.location.search)}`;
}

/**
 * Follow the link into a head, from here or from the sidebar. Python handles a plain click, so that the session
 * survives; the browser handles modified clicks and pages without Python. Returns a function that stops listening.
 * @param {Explorer} explorer
 */
export function listenToInside(explorer) {
  const { inside } = explorer.dom.parts;
  // Check the view, not the painted link: its href lags behind.
  const isInside = (link) => link && leadsInside(explorer) && link.pathname === pathOf(explorer.data.inside);
  const go = (/** @type {any} */ event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey || explorer.data.alone) return;
    event.preventDefault();
    event.stopPropagation();
    writeAddress(explorer);
    const query = asPythonWrites(new URLSearchParams(window.location.search));
    // Match Python's escaping: otherwise Streamlit adds a history entry and Back needs two clicks.
    window.history.replaceState(window.history.state, "", `?${query}`);
    explorer.trigger("inside", query);
  };
  const goByMenu = (/** @type {any} */ event) => isInside(event.target.closest?.("a[href]")) && go(event);
  inside.addEventListener("click", go);
  document.addEventListener("click", goByMenu, true);
  return () => document.removeEventListener("click", goByMenu, true);
}

/** @param {string} address */
const pathOf = (address) => new URL(address, window.location.href).pathname;

/* `*` and `~` are escaped by either URLSearchParams or Python's urlencode, not both. */
const asPythonWrites = (query) => `${query}`.replaceAll("*", "%2A").replaceAll("%7E", "~");

/** @param {Explorer} explorer */
function setAddress(explorer, address) {
  for (const [name, value] of Object.entries(linkOf(explorer.data, explorer.view))) {
    if (value === null) address.searchParams.delete(name);
    else address.searchParams.set(name, value);
  }
  // Keep Streamlit's history state and all other parameters.
  window.history.replaceState(window.history.state, "", address);
}

/**
 * On back/forward navigation, wait for the data of the new URL. Returns a function that stops listening.
 * @param {Explorer} explorer
 */
export function listenToHistory(explorer) {
  const listening = new AbortController();
  const listener = () => {
    clearTimeout(explorer.addressTimer);
    explorer.memory.returning = Boolean(explorer.data?.address);
  };
  window.addEventListener("popstate", listener, { signal: listening.signal });
  return () => listening.abort();
}

/**
 * Write the URL after a delay: browsers throttle URL changes while an arrow key is held down.
 * @param {Explorer} explorer
 */
export function saveAddress(explorer) {
  clearTimeout(explorer.addressTimer);
  explorer.addressTimer = setTimeout(() => writeAddress(explorer), ADDRESS_DELAY);
}
