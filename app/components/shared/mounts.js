// Lifecycle of a mounted view: created once per element, re-laid out on size and font changes, destroyed on unmount.

/*
 * Return a function that finds the view of a parent element or creates it with `create`. Streamlit calls `render` with
 * the same parent for every data and theme change; the view keeps state between calls. `create` must set
 * `view.destroy`.
 */
export function mounts(create) {
  const views = new WeakMap();
  return (parent, ...rest) => {
    if (!views.has(parent)) {
      const view = create(parent, ...rest);
      const { destroy } = view;
      view.destroy = () => {
        destroy();
        views.delete(parent);
      };
      views.set(parent, view);
    }
    return views.get(parent);
  };
}

/* Last state per component key, restored when the visitor returns to the page. */
export const lastStates = new Map();

/*
 * Call `check` when the size of `root` or of the window changes, or the pixel ratio. Return a
 * function that stops this.
 */
export function onNewSize(root, check) {
  const observer = new ResizeObserver(check);
  const listening = new AbortController();
  observer.observe(root);
  window.addEventListener("resize", check, { signal: listening.signal });
  onOtherPixels(check, listening.signal);
  return () => {
    observer.disconnect();
    listening.abort();
  };
}

/*
 * Moving to a screen with another pixel ratio may keep the width. A resolution query covers one
 * ratio: renew it after each change.
 */
function onOtherPixels(check, signal) {
  const again = () => {
    check();
    onOtherPixels(check, signal);
  };
  matchMedia(`(resolution: ${window.devicePixelRatio}dppx)`).addEventListener("change", again, { once: true, signal });
}

/* Labels are measured, so lay out again once the page's font has loaded. */
export function onceFontsCome(root, again) {
  if (document.fonts.status !== "loaded") document.fonts.ready.then(() => root.isConnected && again());
}
