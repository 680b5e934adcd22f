// The lesson on positions: the encodings of this sentence, their dot products, and their edits.

import { scientific } from "../shared/numbers.js";
import { displayTokens, tokenName } from "../shared/tokens.js";
import { editSection } from "./edit_section.js";
import { choiceBox, formulaOf, lineOf, mapRowOf, numberBox, sectionOf } from "./lesson_parts.js";
import { mapName, positionEdits, textsOf, verdictIn } from "./lesson_table.js";
import { rowOfMatrix } from "./passes.js";
import { positionTable } from "./position_table.js";

/**
 * Build the lesson: its sections, each with a function that shows a pass.
 * @param {LessonTools} tools
 */
export function positionsLesson(tools) {
  const say = textsOf(tools.tables.positions);
  return [encodings(tools, say), alikeness(tools, say), otherPositions(tools, say)];
}

/** @param {LessonTools} tools @param {Say} say */
function encodings({ tables }, say) {
  const { figure, paint } = positionTable();
  const look = lineOf();
  const formula = formulaOf(say("table.formula"));
  const section = sectionOf(say("heading.table"), say("about"), figure, look, formula);
  /** @param {Pass} pass */
  const show = ({ source, positions }) => {
    const sinusoidal = isSinusoidal(positions, source.length, tables.positions.rules.sinusoidal);
    paint(displayTokens(source, 1).map(tokenName), positions, sinusoidal);
    formula.hidden = !sinusoidal;
    look.textContent = sinusoidal ? `${say("table.look")} ${say("table.waves")}` : say("table.learned");
  };
  return { section, show };
}

/** @param {LessonTools} tools @param {Say} say */
function alikeness(tools, say) {
  const row = mapRowOf(tools, "products");
  const said = lineOf();
  const section = sectionOf(say("products.heading"), say("products.about"), row.place, said);
  /** @param {Pass} pass */
  const show = ({ source, positions, languages }) => {
    const count = source.length;
    const values = dotProducts(positions, count);
    const limit = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    const axis = (name) => say(`products.${name}.name`, { source: languages.source });
    const titles = { query: axis("row"), key: axis("column") };
    row.show(rowOfMatrix(source, values, { ...mapName(say, "products.map"), site: say("title"), word: "product", titles }, limit));
    const spread = spreadByDistance(values, count);
    const verdict = verdictIn(tools.tables.positions.rules.products, spread / limit);
    said.textContent = say(`products.${verdict}`, { spread: scientific(spread) });
  };
  return { section, show };
}

/** @param {LessonTools} tools @param {Say} say */
function otherPositions(tools, say) {
  const { changes, sides, change: usualChange, side: usualSide } = tools.tables.positions.rules;
  const formula = formulaOf("");
  const look = lineOf();
  /** @type {Pass} */
  let asked = null;
  const again = () => show(asked);
  const change = choiceBox(say("change.choice"), Object.keys(changes).map((one) => [one, say(`changes.${one}.name`)]), again, usualChange);
  const side = choiceBox(say("change.side"), sides.map((one) => [one, say(`sides.${one}`)]), again, usualSide);
  const numbers = Object.entries(changes).flatMap(([name, rule]) =>
    rule.number ? [{ name, ...numberBox(say(`changes.${name}.number.name`), rule, again) }] : [],
  );
  const above = [change.box, side.box, ...numbers.map(({ box }) => box), formula];
  const parts = { heading: "heading.what-if", above, below: [say("change.look")], end: [look] };
  const { section, show: showEdited } = editSection(tools, say, "change", "encoder", parts);
  /** @param {Pass} pass */
  const show = async (pass) => {
    asked = pass;
    const chosen = change.list.value;
    for (const { name, box } of numbers) box.hidden = name !== chosen;
    const number = numbers.find(({ name }) => name === chosen)?.value() ?? 0;
    const lengths = { source: pass.source.length, target: pass.targetIn.length };
    const edited = side.list.value in lengths ? { [side.list.value]: lengths[side.list.value] } : lengths;
    if (!(await showEdited(pass, positionEdits(changes[chosen].edit, number, edited)))) return;
    formula.textContent = say(`changes.${chosen}.formula`);
    look.textContent = say("source" in edited ? "change.maps" : "change.unseen");
  };
  return { section, show };
}

/**
 * Dot products of all pairs of rows, [count, count], summed in 64 bits.
 * @param {Float32Array} rows  [count, width]
 */
function dotProducts(rows, count) {
  const width = rows.length / count;
  return Float32Array.from({ length: count * count }, (_, pair) => {
    const [one, other] = [Math.floor(pair / count) * width, (pair % count) * width];
    let sum = 0;
    for (let at = 0; at < width; at++) sum += rows[one + at] * rows[other + at];
    return sum;
  });
}

/** The largest difference between products of pairs at the same distance. @param {Float32Array} products */
function spreadByDistance(products, count) {
  let most = 0;
  for (let distance = 0; distance < count; distance++) {
    const same = [];
    for (let place = 0; place + distance < count; place++) same.push(products[place * count + place + distance]);
    most = Math.max(most, Math.max(...same) - Math.min(...same));
  }
  return most;
}

/** Whether rows are those of the paper's formula (Vaswani et al. 2017, §3.5). @param {Float32Array} rows @param {number} most  difference */
function isSinusoidal(rows, count, most) {
  const width = rows.length / count;
  return rows.every((value, cell) => {
    const [place, dimension] = [Math.floor(cell / width), cell % width];
    const angle = place / 10_000 ** ((dimension - (dimension % 2)) / width);
    return Math.abs(value - (dimension % 2 ? Math.cos(angle) : Math.sin(angle))) < most;
  });
}
