// Synchronises explorers in a group: selection and pins follow each other, and all use one scale.

import { level, levelMaps } from "./level.js";
import { clearScaledMaps } from "./maps.js";

/* Event: a view was chosen for the whole group, in one of its explorers or in a control around them. */
export const CHOSEN = "headlight-chosen";
const ARRIVED = "headlight-arrived";
const LEFT = "headlight-left";

const broadcast = (type, explorer, more = {}) => {
  const { together } = explorer.data ?? {};
  if (together) window.dispatchEvent(new CustomEvent(type, { detail: { explorer, together, ...more } }));
};

/** Broadcast this explorer's view, as a link, to its group. @param {Explorer} explorer @param {Link} link */
export function broadcastView(explorer, link) {
  broadcast(CHOSEN, explorer, { link });
  if (explorer.data?.together) levelMaps(explorer);
}

/**
 * Broadcast new data. Every other explorer of the group answers with its data, so that all can use one scale.
 * @param {Explorer} explorer
 */
export const broadcastData = (explorer) => broadcast(ARRIVED, explorer, { answer: false });

/**
 * Call `follow` with the view of another explorer in the group, and `rescale` when the scale may have changed. Returns
 * a function that stops listening.
 * @param {Explorer} explorer
 */
export function listenToGroup(explorer, follow, rescale) {
  const hears = {
    [CHOSEN]: ({ link }) => follow(explorer, link),
    [ARRIVED]: (detail) => {
      explorer.data.peers.set(detail.explorer, detail.explorer.data);
      clearScaledMaps(explorer.data);
      if (detail.answer) return;
      broadcast(ARRIVED, explorer, { answer: true });
      rescale(explorer);
    },
    [LEFT]: (detail) => {
      explorer.data.peers.delete(detail.explorer);
      clearScaledMaps(explorer.data);
      level(explorer);
      rescale(explorer);
    },
  };
  /** @type {[string, (event: any) => void][]} */
  const listeners = Object.entries(hears).map(([type, hear]) => [
    type,
    (/** @type {any} */ { detail }) => {
      if (detail.explorer !== explorer && explorer.data?.together === detail.together) hear(detail);
    },
  ]);
  for (const [type, listener] of listeners) window.addEventListener(type, listener);
  return () => {
    for (const [type, listener] of listeners) window.removeEventListener(type, listener);
    broadcast(LEFT, explorer);
  };
}
