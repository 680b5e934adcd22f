// Explorers of one page that are shown together: what is chosen and pinned in one, the others follow, on one scale.

import { level, levelMaps } from "./level.js";
import { forgetScales } from "./maps.js";

const CHOSEN = "headlight-chosen";
const ARRIVED = "headlight-arrived";
const LEFT = "headlight-left";

const tellGroup = (type, explorer, more = {}) => {
  const { together } = explorer.data ?? {};
  if (together) window.dispatchEvent(new CustomEvent(type, { detail: { explorer, together, ...more } }));
};

/**
 * Tells the others of this explorer's group what is shown here now, as a link holds it.
 *
 * @param {Explorer} explorer
 * @param {Link} link
 */
export function tellTogether(explorer, link) {
  tellGroup(CHOSEN, explorer, { link });
  if (explorer.data?.together) levelMaps(explorer);
}

/**
 * Tells the others that this explorer has new data, and hears from each of them which data it has: what is drawn of
 * all of them has one scale.
 *
 * @param {Explorer} explorer
 */
export const joinTogether = (explorer) => tellGroup(ARRIVED, explorer, { answer: false });

/**
 * `follow` is called with what another one of the group shows, and `rescale` after the scale may have changed; returns
 * what ends that.
 *
 * @param {Explorer} explorer
 */
export function listenTogether(explorer, follow, rescale) {
  const hears = {
    [CHOSEN]: ({ link }) => follow(explorer, link),
    [ARRIVED]: (detail) => {
      explorer.data.beside.set(detail.explorer, detail.explorer.data);
      forgetScales(explorer.data);
      if (detail.answer) return;
      tellGroup(ARRIVED, explorer, { answer: true });
      rescale(explorer);
    },
    [LEFT]: (detail) => {
      explorer.data.beside.delete(detail.explorer);
      forgetScales(explorer.data);
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
    tellGroup(LEFT, explorer);
  };
}
