// Mounts the states of two sentences: copy one from a pass into another, or push one towards another word.

import { unpack } from "../shared/bytes.js";
import { partsOf } from "../shared/dom.js";
import { handled } from "../shared/keys.js";
import { mailboxOf } from "../shared/mailbox.js";
import { mounts } from "../shared/mounts.js";
import { renewTheme } from "../shared/theme.js";
import { cancel, showCopying, showPictures } from "./copying.js";
import { showPushing } from "./pushing.js";

export const statesViewAt = mounts((parent, { key }) => {
  const root = parent.querySelector(".states");
  /** @type {StatesView} */
  const view = { root, parts: partsOf(root), data: null, theme: null, ask: () => {}, tokens: null, grids: null, status: null, picked: null, pictures: null, drop: () => {} };
  root.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && cancel(view)) handled(event);
  });
  view.destroy = mailboxOf(key).listen((answer) => {
    view.pictures = unpack(answer);
    if (view.data?.mode === "copy") keepingFocus(view, () => showPictures(view));
  });
  return view;
});

/** Show the data, which says the mode; `ask` gets what the visitor chooses. @param {StatesView} view */
export function showStates(view, data, ask) {
  const isNewTheme = renewTheme(view, view.root);
  view.ask = (chosen) => {
    view.root.dataset.busy = "true"; // until the answer comes
    ask({ ...chosen, mode: data.mode, turn: (data.turn ?? 0) + 1 });
  };
  if (!isNewTheme && JSON.stringify(view.data) === JSON.stringify(data)) return;
  view.data = data;
  Object.assign(view.root.dataset, { mode: data.mode, busy: "false" });
  view.root.classList.toggle("refused", data.mode === "push" && data.typed !== null); // what is shown is the push before
  keepingFocus(view, () => (data.mode === "copy" ? showCopying : showPushing)(view));
}

/* All parts are built again for new data: the focus goes to the part that is in the place of the old one. */
function keepingFocus({ root }, build) {
  const { at } = root.getRootNode().activeElement?.dataset ?? {};
  build();
  if (at) root.querySelector(`[data-at="${CSS.escape(at)}"]`)?.focus();
}

export default function render({ data, parentElement, setStateValue }) {
  const view = statesViewAt(parentElement, data);
  showStates(view, data, (chosen) => setStateValue("chosen", chosen));
  return view.destroy;
}
