// Mounts *Copy a state* and *Push a state* in the offline page: a separate script, as names clash with the explorer's.

import { showPictures } from "../states/copying.js";
import { showStates, statesViewAt } from "../states/main.js";
import { buttonOf, partsOf } from "../shared/dom.js";
import { readTheme } from "../shared/theme.js";

const TITLES = { copy: "Copy a state", push: "Push a state" };
const OTHER = { copy: "push", push: "copy" };
const ABOUT = {
  copy: "A state goes from one sentence\u2019s pass into that of the other. What is translated then?",
  push: "A word\u2019s state moves away from one word of the translation and towards another.",
};

/**
 * Mount both in an element, hidden until one is shown.
 * @param {object} page
 * @param {HTMLElement} page.place
 * @param {DocumentFragment} page.files  style, page and grids
 * @param {() => Record<string, string>} page.link  the parameters of the page's link
 * @param {(changes: Record<string, string | null>) => void} page.write  change them
 * @param {(changes: Record<string, string | null>) => void} page.openLink  change them, and show what they say
 * @param {(what: string, question: object) => Promise<any>} page.ask  the worker, about the page's sentence; rejects with one line
 * @param {() => [string, string, string][]} page.pairs  titles and sentences that differ in a word
 * @param {() => string} page.source  the page's sentence
 * @param {(name: string | null) => void} page.open  open another lesson, or none
 * @returns {(name: string | null) => Promise<void>} show one of them; null for none
 */
export function mountStates({ place, files, link, write, openLink, ask, pairs, source, open }) {
  const root = place.shadowRoot ?? place.attachShadow({ mode: "open" });
  root.replaceChildren(files.cloneNode(true));
  const page = /** @type {HTMLElement} */ (root.querySelector(".state-page"));
  const parts = partsOf(page), view = statesViewAt(root, { key: "copied_states" });
  let latest = 0, shown = null, edits = "";

  /* The other sentence: that of the link, else the other one of a known pair. */
  const otherOf = () => {
    const { second_source: given } = link(), own = source();
    const [, ...pair] = pairs().find((one) => one.includes(own, 1)) ?? [];
    return given || pair.find((text) => text !== own) || "";
  };

  const show = async (name) => {
    const isOther = shown !== name;
    place.hidden = !TITLES[name];
    shown = place.hidden ? null : name;
    latest++;
    if (place.hidden) return undefined;
    readTheme(page);
    parts.title.textContent = TITLES[name];
    parts.about.textContent = ABOUT[name];
    parts.other.textContent = TITLES[OTHER[name]];
    parts.form.hidden = name === "push";
    parts.second.value = otherOf();
    parts.pairs.replaceChildren(...pairs().map(([title, first, second]) => {
      const button = buttonOf("", title);
      button.addEventListener("click", () => openLink({ source: first, second_source: second, copied: null }));
      return button;
    }));
    if (isOther) parts.title.focus();
    return fill(null);
  };

  /* Ask for the data, and then for the pictures. `asked` is the push that was chosen. */
  async function fill(asked) {
    const turn = ++latest, { copy_way: way = "restore", copied = "", pushed = "" } = link(), other = otherOf();
    const question = { mode: shown, other, way: way === "damage" ? way : "restore", copied, pushed, asked, turn };
    parts.problem.textContent = "";
    parts.onward.hidden = true;
    view.root.hidden = shown === "copy" && (!other || other === source());
    if (view.root.hidden) {
      parts.problem.textContent = "Type a second sentence that differs in a word, or choose a pair.";
      return;
    }
    page.setAttribute("aria-busy", "true");
    try {
      const { data } = await ask("states", question);
      if (turn !== latest) return;
      edits = data.edits ?? "";
      parts.onward.hidden = !edits;
      if (asked && !data.problem) write({ pushed: edits });
      showStates(view, data, choose);
      if (data.mode === "copy") {
        const { pictures } = await ask("pictures", { ...question, about: data.about });
        if (turn !== latest) return;
        view.pictures = pictures;
        showPictures(view);
      }
    } catch (error) {
      if (turn !== latest) return;
      view.root.hidden = true;
      parts.problem.textContent = error.message;
    }
    page.setAttribute("aria-busy", "false");
  }

  function choose({ mode, way, side, copy, ...push }) {
    if (mode === "push") return fill(push);
    write({ copy_way: way === "damage" ? way : null, copied: copy || (side === "decoder" ? "copy.decoder" : null) });
    return fill(null);
  }

  parts.form.addEventListener("submit", (event) => {
    event.preventDefault();
    write({ second_source: parts.second.value.trim() || null, copied: null });
    fill(null);
  });
  parts.second.addEventListener("change", () => parts.form.requestSubmit());
  parts.close.addEventListener("click", () => open(null));
  parts.other.addEventListener("click", () => open(OTHER[shown]));
  parts.onward.addEventListener("click", () => {
    const receiver = shown === "copy" && view.data.way === "restore" ? otherOf() : source();
    const left = Object.fromEntries(["lesson", "second_source", "copied", "copy_way", "pushed", "kind", "q", "k"].map((name) => [name, null]));
    openLink({ ...left, source: receiver, edits });
  });
  return show;
}
