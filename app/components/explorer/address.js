// Writes the chosen kind, layer and head into the page's address, so that a link opens the same view.

const ADDRESS_DELAY = 80;

/* Delayed, because browsers limit how often an address may change while an arrow key is held down. */
function saveAddress(explorer) {
  clearTimeout(explorer.addressTimer);
  explorer.addressTimer = setTimeout(() => {
    const address = new URL(window.location.href);
    const head = explorer.head < explorer.data.heads ? explorer.head : "mean";
    for (const [name, value] of Object.entries({ kind: explorer.kind, layer: explorer.layer, head })) {
      address.searchParams.set(name, value);
    }
    // The history entry is Streamlit's: its state and every other parameter stay as they are.
    if (address.href !== window.location.href) window.history.replaceState(window.history.state, "", address);
  }, ADDRESS_DELAY);
}
