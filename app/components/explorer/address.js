// Keeps the whole view in the page's address, beside what Python keeps there, and reads it from a link.

import { ROLLOUT } from "./maps.js";
import { FURTHER, linkOf } from "./view.js";
import { allHeads, allLayers } from "./words.js";

const ADDRESS_DELAY = 80;

/* An explorer that does not own the address has nothing to read in it. */
export const askedByLink = ({ data }) => {
  if (!data.address) return {};
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
  const owns = explorer.data.address && address.pathname === explorer.pathname;
  if (owns && !isWritten(explorer, address.searchParams)) setAddress(explorer, address);
  paintInside(explorer);
}

/**
 * The way from the shown head to its arithmetic; several heads together have none.
 *
 * @param {Explorer} explorer
 */
function paintInside(explorer) {
  const { data } = explorer;
  const { quantity, unit } = explorer.view;
  const { parts } = explorer.dom;
  parts.inside.hidden = !data.inside || allLayers(explorer.data, explorer.view) || allHeads(explorer.data, explorer.view) || quantity === ROLLOUT;
  if (!data.inside) return;
  const query = new URLSearchParams(window.location.search);
  // A head's arithmetic is of tokens: the places of words mean nothing there.
  if (unit === "words") for (const name of ["q", "k"]) query.delete(name);
  parts.inside.href = `${data.inside}?${query}`;
}

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
 * Delayed, because browsers limit how often an address may change while an arrow key is held down.
 *
 * @param {Explorer} explorer
 */
export function saveAddress(explorer) {
  clearTimeout(explorer.addressTimer);
  explorer.addressTimer = setTimeout(() => writeAddress(explorer), ADDRESS_DELAY);
}
