// Keeps the whole view in the page's address, beside what Python keeps there, and reads it from a link.

import { between } from "../shared/numbers.js";
import { HIDEABLE, MASSES, OPTIONS } from "./choices.js";
import { currentMap } from "./focus.js";
import { ROLLOUT, WEIGHTS } from "./maps.js";
import { allHeads, allLayers } from "./words.js";

const ADDRESS_DELAY = 80;

/* What a link holds beside kind, layer and head; what is as usual has no value and stays out of the address. */
function furtherView(explorer) {
  const { view, unit, hide, sort, combine, quantity, mass, kept } = explorer;
  return {
    view: view === "map" ? null : view,
    words: unit === "words" ? 1 : null,
    hide: hide.size ? [...hide].join(",") : null,
    sort: sort === "layer" ? null : sort,
    combine: combine === "mean" ? null : combine,
    quantity: quantity === WEIGHTS ? null : quantity,
    mass: mass === MASSES.usual ? null : mass,
    q: kept.query,
    k: kept.key,
  };
}

const FURTHER = ["view", "words", "hide", "sort", "combine", "quantity", "mass", "q", "k"];

export const viewOf = (explorer) => {
  const { kind, layer, head, data, combine } = explorer;
  return {
    kind,
    layer: layer < data.layers[kind] ? layer : combine,
    // Rollout has no heads: the one that it stands before is kept.
    head: explorer.behind ? (explorer.behind.head ?? combine) : head < data.heads ? head : combine,
    ...furtherView(explorer),
  };
};

/* Takes over what a link asks for, as far as it is known; what it asks wrongly stays as usual. */
export function takeFurtherView(explorer, asked) {
  const known = (name, value) => OPTIONS[name].includes(value);
  if (known("view", asked.view)) explorer.view = asked.view;
  if (asked.words === "1" || asked.words === 1) explorer.unit = "words";
  if (asked.hide) explorer.hide = new Set(String(asked.hide).split(",").filter((name) => HIDEABLE.includes(name)));
  if (known("sort", asked.sort)) explorer.sort = asked.sort;
  if (known("combine", asked.combine)) explorer.combine = asked.combine;
  if (known("quantity", asked.quantity)) explorer.wanted = asked.quantity;
  if (Number(asked.mass)) explorer.mass = between(MASSES.least, Math.round(Number(asked.mass)), MASSES.most);
}

/* The kept row and column of a link, where the map has them. */
export function takeKept(explorer, asked) {
  const map = currentMap(explorer);
  const place = (value, count) => (/^\d+$/.test(String(value ?? "")) && Number(value) < count ? Number(value) : null);
  explorer.kept = { query: place(asked.q, map.queries), key: place(asked.k, map.keys) };
  if (explorer.kept.query !== null && explorer.kind !== "encoder") {
    [explorer.step] = map.rows[explorer.kept.query].members;
  }
}

/* An explorer that does not own the address has nothing to read in it. */
export const askedByLink = ({ data }) => {
  if (!data.address) return {};
  const query = new URLSearchParams(window.location.search);
  return Object.fromEntries(FURTHER.filter((name) => query.has(name)).map((name) => [name, query.get(name)]));
};

const isWritten = (explorer, query) =>
  Object.entries(viewOf(explorer)).every(([name, value]) => query.get(name) === (value === null ? null : String(value)));

/* One explorer on a page owns the address, and only while that page is the one that is open. */
export function writeAddress(explorer) {
  clearTimeout(explorer.addressTimer);
  const address = new URL(window.location.href);
  const owns = explorer.data.address && address.pathname === explorer.pathname;
  if (owns && !isWritten(explorer, address.searchParams)) setAddress(explorer, address);
  paintInside(explorer);
}

/* The way from the shown head to its arithmetic; several heads together have none. */
function paintInside(explorer) {
  const { parts, data, quantity, unit } = explorer;
  parts.inside.hidden = !data.inside || allLayers(explorer) || allHeads(explorer) || quantity === ROLLOUT;
  if (!data.inside) return;
  const query = new URLSearchParams(window.location.search);
  // A head's arithmetic is of pieces: the places of words mean nothing there.
  if (unit === "words") for (const name of ["q", "k"]) query.delete(name);
  parts.inside.href = `${data.inside}?${query}`;
}

function setAddress(explorer, address) {
  for (const [name, value] of Object.entries(viewOf(explorer))) {
    if (value === null) address.searchParams.delete(name);
    else address.searchParams.set(name, value);
  }
  // The history entry is Streamlit's: its state and every other parameter stay as they are.
  window.history.replaceState(window.history.state, "", address);
}

/* Delayed, because browsers limit how often an address may change while an arrow key is held down. */
export function saveAddress(explorer) {
  clearTimeout(explorer.addressTimer);
  explorer.addressTimer = setTimeout(() => writeAddress(explorer), ADDRESS_DELAY);
}
