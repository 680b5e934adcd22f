// Mounts the lessons on masks and positions: a separate script, as names clash with the explorer's.

import { render } from "../map_row/main.js";
import { partsOf } from "../shared/dom.js";
import { readTheme } from "../shared/theme.js";
import { masksLesson } from "./masks_lesson.js";
import { readPass } from "./passes.js";
import { positionsLesson } from "./positions_lesson.js";

const BUILDERS = { masks: masksLesson, positions: positionsLesson };

const OTHER = { masks: "positions", positions: "masks" };

/**
 * Mount the lessons in an element, hidden until one is shown.
 * @param {object} page
 * @param {HTMLElement} page.place
 * @param {DocumentFragment} page.files  style, lesson and row of maps
 * @param {Record<string, LessonTable>} page.tables  of both lessons
 * @param {(edits: string) => Promise<{payload: Uint8Array, again: string | null}>} page.pass  translates the page's sentence,
 *   and runs a pass of that translation under edits; `again` is the translation under the edits, null without the causal
 *   mask. Rejects with one line.
 * @param {(name: string | null) => void} page.open  open another lesson, or none
 * @returns {(name: string | null) => Promise<void>} show a lesson on the page's sentence; null for none
 */
export function mountLessons({ place, files, tables, pass, open }) {
  const root = place.shadowRoot ?? place.attachShadow({ mode: "open" });
  root.replaceChildren(files.cloneNode(true));
  const lessons = /** @type {HTMLElement} */ (root.querySelector(".lessons"));
  const parts = partsOf(lessons);
  const mapRow = root.querySelector(".map-row");
  mapRow.remove();
  const tools = {
    mapRow,
    render,
    tables,
    edited: async (edits) => {
      const { payload, again } = await pass(edits);
      return { pass: readPass(payload), again };
    },
  };
  const built = {};
  let latest = 0;

  /* Of a network without a table of positions, there is nothing to show. */
  const tellWithout = (order) => {
    const { texts } = tables.positions, line = `${texts[`about${order}`]} ${texts["no-table-nothing"]}`;
    parts.more.textContent = "";
    parts.sections.replaceChildren(Object.assign(document.createElement("p"), { textContent: line }));
    lessons.setAttribute("aria-busy", "false");
  };
  const show = async (name) => {
    const turn = ++latest;
    place.hidden = !BUILDERS[name];
    if (place.hidden) {
      lessons.dataset.shown = "";
      return;
    }
    readTheme(lessons);
    built[name] ??= BUILDERS[name](tools);
    parts.title.textContent = tables[name].texts.title;
    parts.more.textContent = tables[name].texts.offline;
    parts.other.textContent = `Lesson: ${tables[OTHER[name]].texts.title}`;
    parts.sections.replaceChildren(...built[name].map(({ section }) => section));
    parts.problem.textContent = "";
    if (turn > 1 && lessons.dataset.shown !== name) parts.title.focus();
    lessons.dataset.shown = name;
    lessons.setAttribute("aria-busy", "true");
    try {
      const { pass: shown } = await tools.edited("");
      if (turn !== latest) return;
      parts.sentence.textContent = `${shown.text}\n\u2192 ${shown.translation}`;
      if (name === "positions" && shown.order) return tellWithout(shown.order);
      for (const section of built[name]) if (turn === latest) await section.show(shown);
    } catch (error) {
      if (turn === latest) parts.problem.textContent = error.message;
    }
    if (turn !== latest) return;
    lessons.setAttribute("aria-busy", "false");
  };
  parts.close.addEventListener("click", () => open(null));
  parts.other.addEventListener("click", () => open(OTHER[lessons.dataset.shown]));
  return show;
}
