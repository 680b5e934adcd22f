// The page's state in the `#` fragment of its URL, which works without a server: read, write, and follow the history.

/* What is left in front of a name where & was written as HTML, as `_ESCAPED` in app/state/address.py. */
const ESCAPED = /^(?:amp;|#0*38;|#x0*26;)+/i;

/* The parameters of the fragment. One with an escaped name gives way to one that has the name itself. */
function parametersOfFragment() {
  /** @type {[string, string][]} */
  const all = [...new URLSearchParams(window.location.hash.slice(1))];
  const isEscaped = (/** @type {[string, string]} */ [name]) => ESCAPED.test(name);
  const meant = all.filter(isEscaped).map(([name, value]) => [name.replace(ESCAPED, ""), value]);
  return new URLSearchParams(Object.fromEntries([...meant, ...all.filter((one) => !isEscaped(one))]));
}

/** All parameters by name. @returns {Record<string, string>} */
export const readFragment = () => Object.fromEntries(parametersOfFragment());

/** Whether & had become &amp; in this link. The first change of the fragment writes it as meant. */
export const isFragmentEscaped = () => [...new URLSearchParams(window.location.hash.slice(1)).keys()].some((name) => ESCAPED.test(name));

/**
 * Change parameters; null removes one, all others stay. With `entry`, Back returns to the state before.
 * @param {Record<string, string | number | null>} changes
 */
export function writeFragment(changes, entry = false) {
  const parameters = parametersOfFragment();
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
