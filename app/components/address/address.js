// Writes parameters chosen by Python into the page's URL and leaves all others alone.

/** @type {Map<string, {arrival: number, value: string | null}>}  what was written last, by name */
const written = (/** @type {any} */ (window).headlightAddress ??= new Map());

const lastPart = (path) => path.split("/").pop();

/**
 * Ignore a stale render. After back/forward navigation the URL differs from the one Python last read (`seen`) and from
 * the one last written here. The rerun that knows the new URL is then already under way.
 */
export default function render({ data: { page, values, seen, arrival, entry } }) {
  const address = new URL(window.location.href);
  // A late response must not write the URL of the next page.
  if (lastPart(address.pathname) !== page) return;
  const query = address.searchParams;
  const names = Object.keys(values);
  const now = (name) => query.getAll(name).at(-1) ?? null;
  const expected = (name) => {
    const last = written.get(name);
    return last?.arrival === arrival ? last.value : (seen[name] ?? null);
  };
  if (names.some((name) => now(name) !== expected(name))) return;
  const isKnown = (name) => written.get(name)?.arrival === arrival;
  const known = new Set(names.filter(isKnown));
  for (const name of names) written.set(name, { arrival, value: values[name] });
  const changed = names.filter((name) => now(name) !== values[name]);
  if (!changed.length) return;
  // The first write after an arrival only completes the URL; it makes no history entry.
  const isEntry = entry && changed.some((name) => known.has(name));
  for (const name of changed) {
    if (values[name] === null) query.delete(name);
    else query.set(name, values[name]);
  }
  if (!isEntry) {
    window.history.replaceState(window.history.state, "", address);
    return;
  }
  for (const name of entry) {
    query.delete(name);
    if (isKnown(name)) written.set(name, { arrival, value: null }); // by another writer of this page
  }
  window.history.pushState({}, "", address);
}
