// Writes parameters into the page's URL.

/*
 * Replace parameters of the current URL if its path is still `pathname`; null removes one. Streamlit's history state
 * and all other parameters stay. With `isEntry`, the change is a history entry, which the Back button undoes.
 */
export function writeParameters(pathname, parameters, isEntry = false) {
  const url = new URL(window.location.href);
  if (url.pathname !== pathname) return;
  const texts = Object.entries(parameters).map(([name, value]) => [name, value === null ? null : String(value)]);
  const changed = texts.filter(([name, text]) => url.searchParams.get(name) !== text);
  if (!changed.length) return;
  for (const [name, text] of changed) {
    if (text === null) url.searchParams.delete(name);
    else url.searchParams.set(name, text);
  }
  if (isEntry) window.history.pushState({}, "", url);
  else window.history.replaceState(window.history.state, "", url);
}

/* URLSearchParams escapes `~` but not `*`; Python's urlencode escapes `*` but not `~`. */
export const asPythonWrites = (query) => `${query}`.replaceAll("*", "%2A").replaceAll("%7E", "~");

/*
 * Call before Python opens another page with this query. Otherwise Streamlit adds a history entry,
 * and Back needs two clicks.
 */
export const prepareSwitch = (query) => window.history.replaceState(window.history.state, "", `?${query}`);
