// Pointer events on sentences, thumbnails and the picture.

import { pointIn } from "../shared/dom.js";
import { currentMap, focusOfToken } from "./focus.js";
import { meaningOf } from "./help.js";
import { paintCaptionLine } from "./overview_picture.js";
import { shownGeometry, VIEWS } from "./picture.js";
import { announce } from "./readout.js";
import { endPreview, pin, showPreview, unpin, update } from "./update.js";

/** Roving tabindex: the token that last had focus is the sentence's tab stop. @param {Explorer} explorer */
function chooseStop(explorer, side, chosen) {
  for (const { button } of explorer.dom.words[side]) button.tabIndex = button === chosen ? 0 : -1;
}

/** @param {Explorer} explorer */
export function listenToSentences(explorer) {
  for (const side of ["source", "target"]) {
    const host = explorer.dom.parts[side];
    const indexOf = (event) => {
      const button = event.target.closest(".token");
      return button ? Number(button.dataset.index) : null;
    };
    const preview = (index) => {
      if (index === null) return endPreview(explorer);
      const { query = null, key = null, note = null } = focusOfToken(explorer, side, index);
      return showPreview(explorer, query, key, note);
    };
    host.addEventListener("pointerover", (event) => event.pointerType !== "touch" && preview(indexOf(event)));
    host.addEventListener("pointerleave", () => endPreview(explorer));
    host.addEventListener("focusin", (event) => {
      if (!event.target.matches(".token:focus-visible")) return;
      preview(indexOf(event));
      announce(explorer);
    });
    host.addEventListener("focusin", ({ target }) => target.matches(".token") && chooseStop(explorer, side, target));
    host.addEventListener("focusout", () => endPreview(explorer));
    host.addEventListener("click", (event) => {
      const index = indexOf(event);
      if (index === null) return;
      const { query = null, key = null, note } = focusOfToken(explorer, side, index);
      if (note) showPreview(explorer, null, null, note);
      else pin(explorer, query, key);
    });
  }
}

/** @param {Explorer} explorer */
export function listenToOverview(explorer) {
  explorer.dom.parts.overview.addEventListener("click", (event) => {
    const effect = event.target.closest(".effect-of");
    if (effect) update(explorer, { wholeTranslation: effect.dataset.whole === "true" });
    const button = event.target.closest(".thumbnail");
    if (button) update(explorer, { layer: Number(button.dataset.l), head: Number(button.dataset.h) });
  });
  explorer.dom.parts.overview.addEventListener("pointerover", (event) => {
    const button = event.target.closest(".thumbnail");
    if (!button) return;
    button.title = button.getAttribute("aria-label");
    if (event.pointerType !== "touch") paintCaptionLine(explorer, { layer: Number(button.dataset.l), head: Number(button.dataset.h) });
  });
  explorer.dom.parts.overview.addEventListener("pointerleave", () => paintCaptionLine(explorer));
}

/* Tooltip for the strips below and beside the map. */
function explainStrip(explorer, event) {
  const { map } = explorer.dom.parts;
  const { top, left, gridWidth, gridHeight, lines } = shownGeometry(explorer);
  const [x, y] = pointIn(map, event);
  const shares = !lines && currentMap(explorer).sumsToOne;
  const beside = x > left + gridWidth && y > top;
  const strip = !shares ? null : beside ? "entropy" : y > top + gridHeight ? "received" : null;
  const words = strip ? meaningOf(explorer, strip) : "";
  if (map.title !== words) map.title = words;
}

/** @param {Explorer} explorer */
export function listenToPicture(explorer) {
  const { map } = explorer.dom.parts;
  const placeOf = (event) => VIEWS[explorer.view.picture].at(shownGeometry(explorer), ...pointIn(map, event));
  map.addEventListener("pointermove", (event) => {
    if (event.pointerType === "touch") return;
    const place = placeOf(event);
    if (place) showPreview(explorer, place.query, place.key);
    else endPreview(explorer);
    explainStrip(explorer, event);
  });
  map.addEventListener("pointerleave", () => endPreview(explorer));
  map.addEventListener("click", (event) => {
    const place = placeOf(event);
    if (place) pin(explorer, place.query, place.key);
    else unpin(explorer);
  });
}
