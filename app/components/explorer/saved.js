// The explorer in a saved page, which holds one record and answers no request.

import { confirmComplete, damagedTexts } from "../shared/checksum.js";
import { render } from "./main.js";

/** @type {Host} */
const SAVED_PAGE = { answers: new Set(), ask: () => {}, listen: () => () => {}, link: null, headPage: null };

/* Show the packed payload that an element holds in base64, in the theme that the reader prefers, if it has its checksum. */
export function showSaved(parentElement, { textContent }, checksum) {
  const damaged = damagedTexts([{ name: "data", text: textContent, checksum }]);
  if (damaged.length) return confirmComplete(damaged);
  const data = Uint8Array.from(atob(textContent.trim()), (character) => character.charCodeAt(0));
  const show = () => render({ data, parentElement, key: "explorer", host: SAVED_PAGE });
  show();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  return confirmComplete(damaged);
}
