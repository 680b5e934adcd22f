// Writes the chosen kind, layer and head, and what the page shares beside them, into the page's address.

const ADDRESS_DELAY = 80;

const viewOf = ({ kind, layer, head, data }) => ({
  kind,
  layer,
  head: head < data.heads ? head : "mean",
});

/* What a link needs: the view, and what the page asked to have beside it. */
const addressOf = (explorer) => ({ ...explorer.data.link, ...viewOf(explorer) });

const isWritten = (explorer, query) =>
  Object.entries(addressOf(explorer)).every(([name, value]) => query.get(name) === String(value));

/* Delayed, because browsers limit how often an address may change while an arrow key is held down. */
function saveAddress(explorer) {
  clearTimeout(explorer.addressTimer);
  explorer.addressTimer = setTimeout(() => {
    const address = new URL(window.location.href);
    if (isWritten(explorer, address.searchParams)) return;
    for (const [name, value] of Object.entries(addressOf(explorer))) address.searchParams.set(name, value);
    // The history entry is Streamlit's: its state and every other parameter stay as they are.
    window.history.replaceState(window.history.state, "", address);
  }, ADDRESS_DELAY);
}

/*
 * A script that writes st.query_params makes Streamlit replace the whole query by what the server knows, which is
 * not what was chosen here since. Where the browser tells of such changes, the view is written again; a change of
 * the path means that another page is coming, whose address is none of ours.
 */
function watchAddress(explorer) {
  const { navigation } = window;
  if (!navigation) return () => {};
  const { pathname } = window.location;
  const restore = () => {
    if (!explorer.data || window.location.pathname !== pathname) return;
    if (!isWritten(explorer, new URLSearchParams(window.location.search))) saveAddress(explorer);
  };
  navigation.addEventListener("currententrychange", restore);
  return () => navigation.removeEventListener("currententrychange", restore);
}
