// Mounts the answers of a class: reads dropped files in this browser, and shows a bar and numbers for each stop.

import { element, headingCell, partsOf, rowOf } from "../shared/dom.js";
import { mounts } from "../shared/mounts.js";
import { save } from "../shared/save.js";
import { readTheme } from "../shared/theme.js";
import { addFile, COLUMNS, ENDS, tallyAsCsv, tallyOf } from "./tally.js";

const viewOf = mounts((parentElement) => {
  const root = parentElement.querySelector(".class-answers");
  const view = { root, parts: partsOf(root), known: {}, answers: new Map(), files: 0, problems: [], reading: Promise.resolve(), destroy: () => {} };
  const { drop, files, save: saving, clear } = view.parts;
  files.addEventListener("change", () => {
    take(view, [...files.files]);
    files.value = ""; // the same file may be chosen again
  });
  drop.addEventListener("dragover", (event) => {
    event.preventDefault();
    drop.classList.add("over");
  });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    take(view, [...event.dataTransfer.files]);
  });
  saving.addEventListener("click", () => save("headlight-class.csv", tallyAsCsv(tallyOf(view.answers, view.known))));
  clear.addEventListener("click", () => {
    Object.assign(view, { answers: new Map(), files: 0, problems: [] });
    paint(view);
    files.focus();
  });
  view.parts.legend.replaceChildren(...Object.entries(ENDS).map(([name, words]) => legendItem(name, words)));
  return view;
});

function legendItem(name, words) {
  const item = element("li");
  item.append(element("i", name), words);
  return item;
}

/* Files are read one after the other, also those of several drops. */
function take(view, files) {
  view.reading = view.reading.then(async () => {
    for (const file of files) {
      const problem = await addFile(view.answers, file, view.known);
      view.files++;
      if (problem) view.problems.push(problem);
    }
    paint(view);
  });
}

function paint({ parts, answers, files, problems, known }) {
  const tallies = tallyOf(answers, known);
  parts.count.textContent = files ? `Files: ${files}. Answers: ${answers.size}.` : "";
  parts.problems.replaceChildren(...problems.map((line) => element("li", "", line)));
  parts.result.hidden = !tallies.length;
  const head = rowOf(headingCell("Stop", "col"), element("td"), ...Object.keys(COLUMNS).map((name) => headingCell(name, "col")));
  const rows = tallies.map((tally) => {
    const picture = element("td");
    picture.append(barOfStop(tally));
    const numbers = Object.values(COLUMNS).map((number) => element("td", "", String(number(tally))));
    return rowOf(headingCell(tally.title, "row"), picture, ...numbers);
  });
  parts.table.replaceChildren(head, ...rows);
}

/* A bar as long as all learners of the form; what is left did not answer. */
function barOfStop({ ends, learners }) {
  const bar = element("span", "bar");
  for (const [name, count] of Object.entries(ends)) {
    if (!count) continue;
    const part = element("i", name);
    part.style.width = `${(100 * count) / learners}%`;
    part.title = `${ENDS[name]}: ${count} of ${learners}`;
    bar.append(part);
  }
  return bar;
}

export default function render({ data, parentElement }) {
  const view = viewOf(parentElement);
  view.known = data.known;
  readTheme(view.root);
  return view.destroy;
}
