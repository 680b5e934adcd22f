// Keeps the whole view in the page's address, beside what Python keeps there, and reads it from a link.

import { ROLLOUT } from "./maps.js";
import { FURTHER, linkOf } from "./view.js";
import { allHeads, allLayers } from "./words.js";

const ADDRESS_DELAY = 80;

/* An explorer that does not own the address has nothing to read in it, unless it stands beside the one that does. */
export const askedByLink = ({ data }) => {
  if (!data.address && !data.together) return {};
  const query = new URLSearchParams(window.location.search);
  return Object.fromEntries(FURTHER.filter((name) => query.has(name)).map((name) => [name, query.get(name)]));
};

/** @param {Explorer} explorer */
const isWritten = (explorer, query) =>
  Object.entries(linkOf(explorer.data, explorer.view)).every(([name, value]) => query.get(name) === (value === null ? null : String(value)));

/**
 * One explorer on a page owns the address, and only while that page is the one that is open.
 *
 * @param {Explorer} explorer
 */
export function writeAddress(explorer) {
  clearTimeout(explorer.addressTimer);
  const address = new URL(window.location.href);
  const owns = explorer.data.address && address.pathname === explorer.pathname && !explorer.memory.returning;
  if (owns && !isWritten(explorer, address.searchParams)) setAddress(explorer, address);
  paintInside(explorer);
}

/** @param {Explorer} explorer - whether its view is one head, whose arithmetic a page shows */
const leadsInside = ({ data, view }) =>
  Boolean(data?.inside) && !allLayers(data, view) && !allHeads(data, view) && view.quantity !== ROLLOUT;

/**
 * Shows the link to the head's arithmetic, or hides it.
 *
 * @param {Explorer} explorer
 */
function paintInside(explorer) {
  const { data } = explorer;
  const { parts } = explorer.dom;
  parts.inside.hidden = !leadsInside(explorer);
  if (data.inside) parts.inside.href = `${data.inside}?${new URLSearchParams(window.location.search)}`;
}

/**
 * A plain click on the way inside is left to Python, which keeps what the visit has made; a click with a key held down,
 * or on a page without Python, is the browser's. The sidebar's link to the same page leads to the same cell. Returns
 * what ends that.
 *
 * @param {Explorer} explorer
 */
export function listenToInside(explorer) {
  const { inside } = explorer.dom.parts;
  // Asks the view, not the painted link, which follows the view with a delay.
  const isInside = (link) => link && leadsInside(explorer) && link.pathname === pathOf(explorer.data.inside);
  const go = (/** @type {any} */ event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey || explorer.data.alone) return;
    event.preventDefault();
    event.stopPropagation();
    writeAddress(explorer);
    const query = asPythonWrites(new URLSearchParams(window.location.search));
    // Streamlit makes a history entry of a query that is written in another way, and Back would lead to it first.
    window.history.replaceState(window.history.state, "", `?${query}`);
    explorer.tell("inside", query);
  };
  const goByMenu = (/** @type {any} */ event) => isInside(event.target.closest?.("a[href]")) && go(event);
  inside.addEventListener("click", go);
  document.addEventListener("click", goByMenu, true);
  return () => document.removeEventListener("click", goByMenu, true);
}

/** @param {string} address */
const pathOf = (address) => new URL(address, window.location.href).pathname;

/* Two characters are escaped by a browser or by Python's urlencode, and not by both. */
const asPythonWrites = (query) => `${query}`.replaceAll("*", "%2A").replaceAll("%7E", "~");

/** @param {Explorer} explorer */
function setAddress(explorer, address) {
  for (const [name, value] of Object.entries(linkOf(explorer.data, explorer.view))) {
    if (value === null) address.searchParams.delete(name);
    else address.searchParams.set(name, value);
  }
  // The history entry is Streamlit's: its state and every other parameter stay as they are.
  window.history.replaceState(window.history.state, "", address);
}

/**
 * Back and forth: the address is now that of another view, which is shown when its data comes; returns what ends that.
 *
 * @param {Explorer} explorer
 */
export function listenToHistory(explorer) {
  const gone = new AbortController();
  const listener = () => {
    clearTimeout(explorer.addressTimer);
    explorer.memory.returning = Boolean(explorer.data?.address);
  };
  window.addEventListener("popstate", listener, { signal: gone.signal });
  return () => gone.abort();
}

/**
 * Delayed, because browsers limit how often an address may change while an arrow key is held down.
 *
 * @param {Explorer} explorer
 */
export function saveAddress(explorer) {
  clearTimeout(explorer.addressTimer);
  explorer.addressTimer = setTimeout(() => writeAddress(explorer), ADDRESS_DELAY);
}
