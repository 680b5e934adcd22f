// The explorer in a saved page, which holds one record and answers no request.

import { render } from "./main.js";

/** @type {Host} */
const SAVED_PAGE = { answers: new Set(), ask: () => {}, listen: () => () => {}, link: null, headPage: null };

/* Show the packed payload that an element holds in base64, in the theme that the reader prefers. */
export function showSaved(parentElement, { textContent }) {
  const data = Uint8Array.from(atob(textContent.trim()), (character) => character.charCodeAt(0));
  const show = () => render({ data, parentElement, key: "explorer", host: SAVED_PAGE });
  show();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
}
