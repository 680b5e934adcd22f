// Writes what Python chose into the page's address; every other parameter stays as it is.

/** @type {Map<string, {arrival: number, value: string | null}>}  what was written last, by name */
const written = (/** @type {any} */ (window).headlightAddress ??= new Map());

const lastPart = (path) => path.split("/").pop();

/**
 * Data may be drawn late, or drawn again, when the visitor has gone back or forth in history: then
 * the address is no longer the one that Python knew (`seen`, when it last read one) or that was
 * written here since, and the run that knows it is under way.
 */
export default function render({ data: { page, values, seen, arrival, entry } }) {
  const address = new URL(window.location.href);
  // An answer may come when the next page is already called: its address is not this one's to write.
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
  // What is written first after an arrival only completes the address that was arrived at.
  const isEntry = entry && changed.some((name) => known.has(name));
  for (const name of changed) {
    if (values[name] === null) query.delete(name);
    else query.set(name, values[name]);
  }
  if (!isEntry) {
    window.history.replaceState(window.history.state, "", address);
    return;
  }
  for (const name of entry) query.delete(name);
  window.history.pushState({}, "", address);
}
