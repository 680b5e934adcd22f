// Explorers of one page that are shown together: what is chosen and pinned in one, the others follow.

const CHOSEN = "headlight-chosen";

/**
 * Tells the others of this explorer's group what is shown here now, as a link holds it.
 *
 * @param {Explorer} explorer
 * @param {Link} link
 */
export function tellTogether(explorer, link) {
  const { together } = explorer.data;
  if (together) window.dispatchEvent(new CustomEvent(CHOSEN, { detail: { explorer, together, link } }));
}

/**
 * `follow` is called with what another one of the group shows; returns what ends that.
 *
 * @param {Explorer} explorer
 */
export function listenTogether(explorer, follow) {
  const listener = (/** @type {any} */ { detail }) => {
    const { data } = explorer;
    if (detail.explorer !== explorer && data?.together === detail.together) follow(explorer, detail.link);
  };
  window.addEventListener(CHOSEN, listener);
  return () => window.removeEventListener(CHOSEN, listener);
}
