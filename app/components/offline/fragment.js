// The page's state in the `#` fragment of its URL, which works without a server: read, write, and follow the history.

/** All parameters by name. @returns {Record<string, string>} */
export const readFragment = () => Object.fromEntries(new URLSearchParams(window.location.hash.slice(1)));

/**
 * Change parameters; null removes one, all others stay. With `entry`, Back returns to the state before.
 * @param {Record<string, string | number | null>} changes
 */
export function writeFragment(changes, entry = false) {
  const parameters = new URLSearchParams(window.location.hash.slice(1));
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) parameters.delete(name);
    else parameters.set(name, String(value));
  }
  const hash = `#${parameters}`;
  if (hash === window.location.hash) return;
  try {
    window.history[entry ? "pushState" : "replaceState"](null, "", hash);
  } catch {
    // Too many changes within seconds, or a frame without a URL: the state then lives only in the page.
  }
}

/**
 * Call `follow` after Back, Forward, and a fragment typed into the address bar.
 * @param {() => void} follow
 */
export function onFragment(follow) {
  window.addEventListener("popstate", follow);
}
