// Copies tokens as plain text: by the Copy button, or by dragging over tokens and Ctrl+C.

import { copyText, flashText } from "../shared/clipboard.js";

/**
 * Text of the chosen tokens without <bos> and <eos>, with a space before each new word; `everything` if all are chosen.
 * @param {Token[]} tokens
 */
export function plainText(tokens, everything, chosen) {
  const own = tokens.flatMap((token, index) => (token.special ? [] : [index]));
  if (own.every((index) => chosen.has(index))) return everything;
  const shown = own.filter((index) => chosen.has(index)).map((index) => tokens[index]);
  return shown.map(({ label, startsWord, close }, place) => (place && startsWord && !close ? ` ${label}` : label)).join("");
}

/* Chrome keeps a separate selection for a shadow root. */
const selectionIn = (node) => node.getRootNode().getSelection?.() ?? document.getSelection();

/** @param {Explorer} explorer */
export function listenToCopying(explorer) {
  const { parts } = explorer.dom;
  parts.copy.addEventListener("click", async () => {
    flashText(parts.copy, (await copyText(explorer.data.translation)) ? "Copied" : "Copy failed: drag, Ctrl+C", "Copy");
  });
  for (const side of ["source", "target"]) {
    parts[side].addEventListener("copy", (event) => {
      const chosen = selectedTokens(explorer, side);
      if (!chosen.size) return;
      const { sides, sourceText, translation } = explorer.data;
      event.clipboardData.setData("text/plain", plainText(sides[side], side === "source" ? sourceText : translation, chosen));
      event.preventDefault();
    });
    listenToSelecting(explorer, side);
  }
}

/** @param {Explorer} explorer */
function selectedTokens(explorer, side) {
  const selection = selectionIn(explorer.dom.parts[side]);
  const words = explorer.dom.words[side];
  return new Set(words.flatMap(({ button }, index) => (!selection.isCollapsed && selection.containsNode(button, true) ? [index] : [])));
}

/**
 * Most browsers start no text selection inside a button: select tokens by dragging from one to another.
 * @param {Explorer} explorer
 */
function listenToSelecting(explorer, side) {
  const host = explorer.dom.parts[side];
  let from = null;
  let drawn = null;
  host.addEventListener("pointerdown", (event) => {
    from = event.pointerType === "mouse" && event.button === 0 ? event.target.closest("button") : null;
    drawn = null;
    selectionIn(host).removeAllRanges();
  });
  const select = () => drawn && selectionIn(host).setBaseAndExtent(...drawn);
  host.addEventListener("pointermove", (event) => {
    const to = event.target.closest("button");
    if (!from || !to || !event.buttons || (to === from && !drawn)) return;
    const forwards = Number(from.dataset.index) <= Number(to.dataset.index);
    const [first, last] = forwards ? [from, to] : [to, from];
    drawn = [first, 0, last, last.childNodes.length];
    select();
  });
  // Some browsers do select inside buttons and replace this selection on mouseup: set it again.
  host.addEventListener("mouseup", select);
}
