// The life of a component's view: made once a place, fitted when its room or its font changes, forgotten when it goes.

/*
 * Streamlit calls again with the same parent for new data and new themes; the state outlives the calls. `create` makes
 * a view with a `destroy` of its own. Returns what finds the view of a parent, or makes it.
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

/* Calls `check` when the size of `root` or of the window changes, or the screen's pixels do; returns what ends that. */
export function onNewSize(root, check) {
  const observer = new ResizeObserver(check);
  const gone = new AbortController();
  observer.observe(root);
  window.addEventListener("resize", check, { signal: gone.signal });
  onOtherPixels(check, gone.signal);
  return () => {
    observer.disconnect();
    gone.abort();
  };
}

/* On a screen with finer pixels the width may stay; a query of the resolution answers once, for the one it names. */
function onOtherPixels(check, signal) {
  const again = () => {
    check();
    onOtherPixels(check, signal);
  };
  matchMedia(`(resolution: ${window.devicePixelRatio}dppx)`).addEventListener("change", again, { once: true, signal });
}

/* Labels are measured: if the page's font was still on its way, everything is fitted again once it is there. */
export function onceFontsCome(root, again) {
  if (document.fonts.status !== "loaded") document.fonts.ready.then(() => root.isConnected && again());
}
