// Writes what Python chose into the page's address; every other parameter stays as it is.

const lastPart = (path) => path.split("/").pop();

export default function render({ data: { page, values, entry } }) {
  const address = new URL(window.location.href);
  // An answer may come when the next page is already called: its address is not this one's to write.
  if (lastPart(address.pathname) !== page) return;
  const query = address.searchParams;
  const changed = Object.entries(values).filter(([name, value]) => query.get(name) !== value);
  if (!changed.length) return;
  const isEntry = entry && changed.some(([name]) => query.has(name));
  for (const [name, value] of changed) {
    if (value === null) query.delete(name);
    else query.set(name, value);
  }
  if (!isEntry) {
    window.history.replaceState(window.history.state, "", address);
    return;
  }
  for (const name of entry) query.delete(name);
  window.history.pushState({}, "", address);
}
