// Reads which attention an explorer shows from its root's attributes, and says when that changes.

const SHOWN = "section[data-kind]";

/* The root of the explorer with this widget key, in the page or in a shadow root inside its container. */
function rootOf(key) {
  for (const container of document.querySelectorAll(`.st-key-${CSS.escape(key)}`)) {
    const inside = [container, ...container.querySelectorAll("*")];
    for (const place of inside) {
      const root = place.shadowRoot?.querySelector(SHOWN) ?? place.querySelector(SHOWN);
      if (root) return root;
    }
  }
  return null;
}

export const kindShown = (key) => rootOf(key)?.dataset.kind ?? null;

/* Call `changed` whenever the explorer shows another kind, also once it is mounted again. Returns a function that stops. */
export function onKind(key, changed) {
  let watched = null;
  const attributes = new MutationObserver(changed);
  const watch = () => {
    if (watched?.isConnected) return;
    const root = rootOf(key);
    if (!root) return;
    watched = root;
    attributes.disconnect();
    attributes.observe(root, { attributes: true, attributeFilter: ["data-kind"] });
    changed();
  };
  watch();
  const mounted = new MutationObserver(watch);
  mounted.observe(document.body, { childList: true, subtree: true });
  return () => [attributes, mounted].forEach((observer) => observer.disconnect());
}
