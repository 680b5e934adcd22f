// Copies a text, also on pages without TLS, and confirms it on the button.

import { element } from "./dom.js";

/* Copy a text; return whether it worked. Pages without TLS have no clipboard API: copy from a hidden text area. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const box = element("textarea");
    Object.assign(box.style, { position: "fixed", top: "0", opacity: "0" });
    box.value = text;
    document.body.append(box);
    box.select();
    const copied = document.execCommand("copy");
    box.remove();
    return copied;
  }
}

/* Show a message on a button for a moment. */
export function flashText(button, words, usual) {
  button.textContent = words;
  setTimeout(() => (button.textContent = usual), 1500);
}
