// A section that shows what an edit changes: both translations, the probabilities of the first one's tokens, and maps.

import { element } from "../shared/dom.js";
import { lineOf, mapRowOf, paintTexts, paragraphs, probabilityTable, sectionOf } from "./lesson_parts.js";
import { passNames } from "./lesson_table.js";
import { rowOfPasses } from "./passes.js";

/**
 * @param {LessonTools} tools
 * @param {Say} say
 * @param {string} change  names the texts: what it is about, and the names of both passes
 * @param {Kind} kind  of the maps
 * @param {{heading?: string, above?: Node[], below?: (string | Node)[], end?: Node[]}} parts  above both
 *   translations, below the probabilities, and at the end
 * @returns show: a pass and the same pass under edits; returns the latter, or null if it was asked for another meanwhile
 */
export function editSection(tools, say, change, kind, { heading = `${change}.heading`, above = [], below = [], end = [] }) {
  const names = passNames(say, change);
  const texts = lineOf("texts");
  const { table, paint } = probabilityTable(names.states);
  const row = mapRowOf(tools, change);
  const shown = element("div");
  shown.append(texts, table, ...paragraphs(below), row.place);
  let latest = 0;
  /** @param {Pass} before @param {string} edits */
  const show = async (before, edits) => {
    const turn = ++latest;
    const { pass: after, again } = await tools.edited(edits);
    if (turn !== latest) return null;
    texts.hidden = again === null;
    paintTexts(texts, names.states, [before.translation, again]);
    paint(before, after);
    row.show(rowOfPasses(kind, [before, after], names.maps));
    return after;
  };
  return { section: sectionOf(say(heading), say(`${change}.about`), ...above, shown, ...end), shown, show };
}
