// The translation under the edits, below the one before them: changed words bold, and each token's change between both.

import { bold, element } from "../shared/dom.js";
import { fixed, signed } from "../shared/numbers.js";
import { directionOf, displayTokens, isolated, wordItems } from "../shared/tokens.js";
import { groupWords } from "../shared/labels.js";
import { editsOf, hiddenWords } from "./edited.js";

/* nats: smaller changes are left out between the sentences; What if lists all. */
const LEAST_CHANGE = 0.05;

/**
 * Align the words of two texts by a longest common subsequence. Each block of words that differ pairs them in order; words
 * that are left over belong to the last pair.
 * @param {string[]} old @param {string[]} now
 * @returns {{fates: {words: string[], isSame: boolean, block: {old: string[], now: string[]} | null}[], before: string[]}} by
 *   old word, what became of it, and of its block if that has no pairs; before: new words in front of all old ones
 */
export function alignWords(old, now) {
  // common[i][j]: length of the longest common subsequence of old.slice(i) and now.slice(j)
  const common = Array.from({ length: old.length + 1 }, () => new Uint16Array(now.length + 1));
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = now.length - 1; j >= 0; j--) {
      common[i][j] = old[i] === now[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  const fates = old.map(() => ({ words: [], isSame: false, block: null }));
  const before = [];
  for (let i = 0, j = 0; i < old.length || j < now.length; ) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      fates[i] = { words: [now[j]], isSame: true, block: null };
      [i, j] = [i + 1, j + 1];
      continue;
    }
    const start = i;
    const added = [];
    while ((i < old.length || j < now.length) && !(i < old.length && j < now.length && old[i] === now[j])) {
      if (j < now.length && (i === old.length || common[i][j + 1] >= common[i + 1][j])) added.push(now[j++]);
      else i++;
    }
    // Pairs are certain only for one word, or for as many words as before.
    const block = i - start > 1 && added.length && added.length !== i - start ? { old: old.slice(start, i), now: added } : null;
    for (let at = start; block && at < i; at++) fates[at].block = block;
    added.forEach((word, place) => {
      const last = i > start ? Math.min(start + place, i - 1) : start - 1;
      (last < 0 ? before : fates[last].words).push(word);
    });
  }
  return { fates, before };
}

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
    return element("small", change < 0 ? "less" : "", Math.abs(change) < LEAST_CHANGE ? "" : signed(change, 1));
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
  const { fates, before } = alignWords(own.split(" "), translation.split(" "));
  for (const word of before) line.append(bold(word), " ");
  for (const { words, isSame } of fates) words.forEach((word, place) => line.append(isSame && !place ? word : bold(word), " "));
  return line;
}

/**
 * Place each word below the one that it came from: at its position on a line of its own, else in the order of the text.
 * Wider new words widen the old ones.
 * @param {Explorer} explorer
 */
export function placeEditedTarget({ data, dom }) {
  if (!dom.columns.length) return;
  const row = dom.columns[0].parentElement;
  const words = data.items.words.produced.filter(({ special }) => !special);
  const above = /** @type {HTMLElement[]} */ (words.map(({ members: [first] }) => dom.words.target[first + 1].button.closest(".word")));
  row.classList.remove("aligned");
  for (const word of above) word.style.minWidth = "";
  const widths = dom.columns.map((column) => column.offsetWidth);
  above.forEach((word, at) => widths[at] > word.offsetWidth && (word.style.minWidth = `${widths[at]}px`));
  const places = above.map((word) => ({ left: word.offsetLeft - row.offsetLeft, top: word.offsetTop, width: word.offsetWidth }));
  const onOneLine = places.every(({ top }) => Math.abs(top - places[0].top) < 8);
  row.classList.toggle("aligned", onOneLine);
  dom.columns.forEach(({ style }, at) => Object.assign(style, { left: onOneLine ? `${places[at].left}px` : "", minWidth: `${places[at].width}px` }));
}

/** The line for screen readers. @param {Again} again */
export function spokenTranslation({ translation, own, problem }) {
  if (problem) return problem;
  return `Translating again under the edits, the model ${translation === own ? "still" : "now"} writes: ${translation}`;
}
