// The translation under the edits, below the one before them: changed words bold, and each token's change between both.

import { bold, element } from "../shared/dom.js";
import { fixed, signed } from "../shared/numbers.js";
import { directionOf, displayTokens, isolated, wordItems } from "../shared/tokens.js";
import { alignWords } from "../shared/alignment.js";
import { changedText } from "../shared/changed_text.js";
import { groupWords } from "../shared/labels.js";
import { editsOf, hiddenWords } from "./edited.js";

/* nats: smaller changes are left out between the sentences; What if lists all. */
const LEAST_CHANGE = 0.05;

/** Whether a token's change is shown below it. @param {Token} token @param {number} nats */
export const showsChange = ({ special }, nats) => !special && Math.abs(nats) >= LEAST_CHANGE;

const ordinary = (items) => items.filter(({ special }) => !special).map(({ label }) => label);

/* Whether the network itself wrote the target, so that the new translation is another version of it. */
const isOwn = ({ again, translation }) => again.own === translation;

/**
 * What becomes of each word of the translation; null before the new one arrives, and for a target that the network did not write.
 * @param {Readonly<RecordData>} data
 */
export function fatesOf(data) {
  if (!data.again || data.again.problem || !isOwn(data)) return null;
  const { target } = data.again;
  const now = wordItems(displayTokens(target, 1, groupWords(target)));
  return alignWords(ordinary(data.items.words.produced), ordinary(now));
}

/** Name of the row: the head that is off, or how many edits there are. @param {Readonly<RecordData>} data */
function editedName(data) {
  const edits = editsOf(data);
  const [{ what, layer, head }] = edits;
  if (edits.length > 1) return `with ${edits.length} edits`;
  return what === "off" ? `head ${layer + 1}.${head + 1} off` : "with the edit";
}

/** Build both rows for new data: the changes are known with the edited pass, the translation comes later. @param {Explorer} explorer */
export function buildEditedTarget(explorer) {
  const { data, dom } = explorer;
  const place = dom.parts["edited-target"];
  place.hidden = !editsOf(data).length || !data.whatIf.change;
  place.replaceChildren();
  dom.columns = [];
  if (place.hidden) return;
  const { again } = data;
  const row = element("div", "edited-row");
  row.dir = directionOf(data.sides.produced);
  const label = element("span", "gutter");
  const name = element("b", "", editedName(data));
  label.append(element("span", "", "change, nats"), name);
  place.append(label, row);
  if (again) name.title = again.problem ?? `Log-probability ${fixed(again.log_prob, 2)}, ${again.search}`;
  const aligned = fatesOf(data);
  const words = data.items.words.produced.filter(({ special }) => !special);
  dom.columns = words.map(({ members }, at) => editedColumn(data, members, aligned?.fates[at], at === 0 ? aligned?.before : []));
  row.append(...dom.columns);
  words.forEach(({ members }, at) => {
    const isGone = Boolean(aligned) && !aligned.fates[at].isSame;
    for (const token of members) dom.words.target[token + 1].button.classList.toggle("gone", isGone);
  });
  for (const token of hiddenWords(data)) dom.words.source[token]?.button.classList.add("gone");
  if (again?.problem) row.append(element("p", "", again.problem));
  else if (again && !isOwn(data)) row.append(ownTranslation(again));
  else if (!again && explorer.host.answers.has("edit")) name.append(" \u2026");
}

function editedColumn(data, members, fate, before = []) {
  const column = element("span", "edited-word");
  const changes = element("span", "numbers");
  changes.append(...members.map((token) => {
    const change = data.whatIf.change[token];
    return element("small", change < 0 ? "less" : "", showsChange(data.sides.produced[token], change) ? signed(change, 1) : "");
  }));
  column.append(changes);
  if (!fate) return column;
  const now = element("span", "form");
  const added = (words) => words.flatMap((word) => [bold(isolated(word)), " "]);
  if (fate.isSame) now.append(...added(before), isolated(fate.words[0]), " ", ...added(fate.words.slice(1)));
  else now.append(...(before.length + fate.words.length ? added([...before, ...fate.words]) : [bold("\u2013")]));
  column.append(now);
  return column;
}

/* For a given target: what the network itself writes under the edits, and how that differs from what it writes without them. */
function ownTranslation({ translation, own }) {
  const line = element("p", "", "The model itself now writes: ");
  line.append(changedText(own, translation));
  return line;
}

/* px: a line of changes with the words below it, as in explorer.css. */
const LINE = 44;

/**
 * Place each word below the one that it came from, in as many lines as the old translation has. Wider new words widen the old
 * ones.
 * @param {Explorer} explorer
 */
export function placeEditedTarget({ data, dom }) {
  if (!dom.columns.length) return;
  const row = dom.columns[0].parentElement;
  const words = data.items.words.produced.filter(({ special }) => !special);
  const above = /** @type {HTMLElement[]} */ (words.map(({ members: [first] }) => dom.words.target[first + 1].button.closest(".word")));
  for (const word of above) word.style.minWidth = "";
  // Read all sizes before writing any style: reading forces a reflow.
  const widths = dom.columns.map((column, at) => ({ now: column.offsetWidth, old: above[at].offsetWidth }));
  above.forEach((word, at) => widths[at].now > widths[at].old && (word.style.minWidth = `${widths[at].now}px`));
  const places = above.map((word) => ({ left: word.offsetLeft - row.offsetLeft, top: word.offsetTop, width: word.offsetWidth }));
  let line = 0;
  dom.columns.forEach(({ style }, at) => {
    if (at > 0 && places[at].top > places[at - 1].top + LINE / 2) line++;
    Object.assign(style, { left: `${places[at].left}px`, top: `${line * LINE}px`, minWidth: `${places[at].width}px` });
  });
  row.style.paddingTop = `${line * LINE}px`;
}

/** The line for screen readers. @param {Again} again */
export function spokenTranslation({ translation, own, problem }) {
  if (problem) return problem;
  return `Translating again under the edits, the model ${translation === own ? "still" : "now"} writes: ${translation}`;
}
