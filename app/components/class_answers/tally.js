// Reads the answer files of a class, and counts for each stop who answered it and how. No DOM.

import { crc32 } from "../shared/checksum.js";
import { csvOf, quoted } from "../shared/csv.js";
import { isolated } from "../shared/tokens.js";

/* An answer file is far smaller and shorter. */
const MOST_BYTES = 200_000;
const MOST_ANSWERS = 200;
const LONGEST = 300; // letters of an item
const NEEDED = ["form", "item", "answer", "right"];

/** How the answers to a stop ended, in the order of its bar, each with its name. */
export const ENDS = { first: "Right at first", later: "Right later", wrong: "Not right", "gave-up": "Gave up or skipped" };

/**
 * @typedef {{form: string, item: string, answered: boolean, end: string, hints: number}} Row  the state of an answer; `end` is a key of
 *   `ENDS`, or "" without an answer
 * @typedef {Record<string, Record<string, string>>} Known  titles by form and item; in a form with the item "", any item is known
 * @typedef {Map<string, Row & {visit: string, file: string}>} Answers  by visit, form and item; `file` is the file's name
 */

/* The cells of each line; some spreadsheets part them with semicolons. */
function linesOf(text) {
  const part = text.split("\n", 1)[0].includes(";") ? ";" : ",";
  const cell = new RegExp(`("(?:[^"]|"")*"|[^${part}\r\n]*)(${part}|\r?\n|\r|$)`, "gy");
  const lines = [[]];
  while (cell.lastIndex < text.length) {
    const [, words, end] = cell.exec(text);
    lines.at(-1).push(words.startsWith('"') && words.length > 1 ? words.slice(1, -1).replaceAll('""', '"') : words);
    if (end !== part) lines.push([]);
  }
  return lines;
}

/** @returns {Row | null} null if a line cannot be read @param {Known} known */
function readRow(cells, header, known) {
  const at = (name) => cells[header.indexOf(name)]?.trim() ?? "";
  const [form, item] = [at("form"), at("item")];
  const numbers = ["right", "right_later", "gave_up", "hints"].map((name) => (/^[0-3]?$/.test(at(name)) ? Number(at(name)) : NaN));
  const [right, later, gaveUp, hints] = numbers;
  const answered = at("answer") !== "";
  const titles = Object.hasOwn(known, form) ? known[form] : {};
  const isKnown = Object.hasOwn(titles, item) || (Object.hasOwn(titles, "") && item.length <= LONGEST);
  if (!item || !isKnown || !(right + later + gaveUp <= 1) || Number.isNaN(hints) || (right + later && !answered)) return null;
  const end = right ? "first" : later ? "later" : gaveUp ? "gave-up" : answered ? "wrong" : "";
  return { form, item, answered, end, hints };
}

/* How far an answer has got: a file that was saved later says more. */
const progress = (row) => (row ? Number(row.answered) + row.hints + Number(row.end !== "wrong" && row.end !== "") : -1);

/**
 * Add a file's answers; one line says what cannot be used, "" if all is well. The answers of other files always stay.
 * @param {Answers} answers @param {{name: string, size: number, text: () => Promise<string>}} file @param {Known} known
 */
export async function addFile(answers, file, known) {
  const name = `\u201c${isolated(file.name.slice(0, 60))}\u201d`;
  if (file.size > MOST_BYTES) return `${name} is left out: ${Math.ceil(file.size / 1000)} kB are too many for an answer file.`;
  let text = "";
  try {
    text = (await file.text()).replace(/^\ufeff/, "");
  } catch {
    return `${name} could not be read.`;
  }
  const [header, ...lines] = linesOf(text);
  if (!NEEDED.every((one) => header.includes(one))) return `${name} is no answer file: use those that the test or the tour saved.`;
  const filled = lines.map((cells, place) => ({ cells, number: place + 2 })).filter(({ cells }) => cells.join("") !== "");
  const read = filled.map(({ cells, number }) => ({ row: readRow(cells, header, known), cells, number }));
  const good = read.filter(({ row }) => row).slice(0, MOST_ANSWERS);
  if (!good.length) return `${name} has no answer to a stop that is known here.`;
  const visit = good[0].cells[header.indexOf("visit")] || crc32(new TextEncoder().encode(text));
  let [added, twin] = [0, ""];
  for (const { row } of good) {
    const key = JSON.stringify([visit, row.form, row.item]);
    const before = answers.get(key);
    if (before) twin = before.file;
    if (progress(row) <= progress(before)) continue;
    answers.set(key, { ...row, visit, file: name });
    added++;
  }
  if (!added) return `${name} has the same answers as ${twin}: they count once.`;
  const bad = read.find(({ row }) => !row);
  const left = read.length - good.length;
  return left ? `${name}: ${left} of ${read.length} lines are left out, ${bad ? `first line ${bad.number}` : "they are too many"}.` : "";
}

/**
 * Count the answers to each stop, in the order of the known forms and items; `learners` have answers of that form.
 * @param {Answers} answers @param {Known} known
 */
export function tallyOf(answers, known) {
  const all = [...answers.values()];
  const stops = Map.groupBy(all, ({ form, item }) => JSON.stringify([form, item]));
  const learners = Map.groupBy(all, ({ form }) => form);
  const count = (rows, test) => rows.filter(test).length;
  const tallies = [...stops.values()].map((rows) => {
    const { form, item } = rows[0];
    const titles = known[form];
    const ends = Object.keys(ENDS).map((name) => [name, count(rows, ({ end }) => end === name)]);
    return {
      order: [Object.keys(known).indexOf(form), Object.keys(titles).indexOf(item)],
      title: titles[item] ?? `${titles[""]}: ${item}`,
      learners: new Set(learners.get(form).map(({ visit }) => visit)).size,
      answered: count(rows, ({ answered }) => answered),
      hints: count(rows, ({ hints }) => hints > 0),
      ends: Object.fromEntries(ends),
    };
  });
  return tallies.toSorted((a, b) => a.order[0] - b.order[0] || a.order[1] - b.order[1]);
}

/** The columns of the table: a name and each stop's number. */
export const COLUMNS = {
  Learners: ({ learners }) => learners,
  Answered: ({ answered }) => answered,
  [ENDS.first]: ({ ends }) => ends.first,
  [ENDS.later]: ({ ends }) => ends.later,
  "Asked for hints": ({ hints }) => hints,
  [ENDS["gave-up"]]: ({ ends }) => ends["gave-up"],
};

export function tallyAsCsv(tallies) {
  const numbers = Object.values(COLUMNS);
  const lines = tallies.map((tally) => [quoted(tally.title), ...numbers.map((number) => number(tally))]);
  return csvOf([["Stop", ...Object.keys(COLUMNS)].map(quoted), ...lines]);
}
