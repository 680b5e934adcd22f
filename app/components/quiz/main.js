// Mounts the test: one question at a time, answered by pointing; at the end the score, hints to what was wrong, and explanations.

import { buttonOf, element, partsOf } from "../shared/dom.js";
import { mounts } from "../shared/mounts.js";
import { save } from "../shared/save.js";
import { readTheme } from "../shared/theme.js";
import { nextHint } from "../question/score.js";
import { answerOf, answersAsCsv, byTopic, emptySheet, isRight, keepAnswers, openItem, readAnswers, unanswered } from "./answers.js";
import { mapOf } from "./map.js";

const viewOf = mounts((parentElement, data) => {
  const root = parentElement.querySelector(".quiz");
  const { sheets, kept } = readAnswers(data.forms);
  const test = { root, parts: partsOf(root), data, sheets, kept, form: data.form, since: performance.now(), theme: null, destroy: () => {} };
  const listen = (name, act) => test.parts[name].addEventListener("click", act);
  listen("back", () => goTo(test, sheetOf(test).at - 1));
  listen("next", () => goTo(test, sheetOf(test).at + 1));
  listen("finish", () => finish(test, true));
  listen("again", () => startAgain(test));
  listen("save", () => save(`headlight-test-${test.form}.csv`, answersAsCsv(test.form, sheetOf(test), itemsOf(test))));
  const onUnload = () => countSeconds(test);
  window.addEventListener("pagehide", onUnload);
  test.destroy = () => {
    countSeconds(test);
    window.removeEventListener("pagehide", onUnload);
  };
  return test;
});

const itemsOf = ({ data, form }) => data.forms[form];
const sheetOf = ({ sheets, form }) => sheets[form];

/*
 * Add the time since the last call, or since the test was opened, to the seconds of the shown
 * question.
 */
function countSeconds(test) {
  const now = performance.now();
  const sheet = sheetOf(test);
  if (!sheet.done) {
    const item = itemsOf(test)[sheet.at];
    const answer = answerOf(sheet, item);
    sheet.answers[item.name] = { ...answer, seconds: answer.seconds + (now - test.since) / 1000 };
    keepAnswers(test.sheets);
  }
  test.since = now;
}

function goTo(test, at) {
  countSeconds(test);
  const sheet = sheetOf(test);
  sheet.at = Math.max(0, Math.min(itemsOf(test).length - 1, at));
  keepAnswers(test.sheets);
  paintTest(test);
  test.parts.prompt.focus();
}

function choose(test, letter) {
  countSeconds(test);
  const sheet = sheetOf(test);
  const { name } = itemsOf(test)[sheet.at];
  sheet.answers[name].answer = letter;
  keepAnswers(test.sheets);
  paintTest(test);
  /** @type {HTMLElement | null} */ (test.parts.options.querySelector("[aria-checked=true]"))?.focus();
}

function finish(test, done) {
  countSeconds(test);
  sheetOf(test).done = done;
  keepAnswers(test.sheets);
  paintTest(test);
  if (done) test.parts.score.focus();
}

/* The first click asks, the second deletes. */
function startAgain(test) {
  const { again } = test.parts;
  if (again.dataset.sure !== "1") {
    again.dataset.sure = "1";
    again.textContent = `Delete the answers to form ${test.form} and start again?`;
    return;
  }
  test.sheets[test.form] = emptySheet();
  test.since = performance.now();
  keepAnswers(test.sheets);
  paintTest(test);
  test.parts.prompt.focus();
}

function openForm(test, form) {
  countSeconds(test);
  test.form = form;
  paintTest(test);
}

function paintTest(test) {
  const { root, parts, data, kept } = test;
  const [items, sheet] = [itemsOf(test), sheetOf(test)];
  root.dataset.form = test.form;
  root.dataset.item = sheet.done ? "" : items[sheet.at].name;
  root.dataset.done = String(sheet.done);
  paintForms(test, Object.keys(data.forms));
  parts.note.textContent = kept ? "" : "This browser stores nothing for this page: your answers are lost when you close it.";
  parts.again.dataset.sure = "0";
  parts.again.textContent = "Start again";
  parts.question.hidden = sheet.done;
  parts.result.hidden = !sheet.done;
  parts.save.hidden = !sheet.done;
  if (sheet.done) paintResult(test);
  else paintQuestion(test, items[sheet.at]);
}

function paintForms(test, forms) {
  const buttons = forms.map((form) => {
    const button = buttonOf(form === test.form ? "chosen" : "", `Form ${form}`);
    button.setAttribute("aria-pressed", String(form === test.form));
    button.addEventListener("click", () => openForm(test, form));
    return button;
  });
  test.parts.forms.replaceChildren(...buttons);
}

function paintQuestion(test, item) {
  const { parts } = test;
  const [items, sheet] = [itemsOf(test), sheetOf(test)];
  const chosen = answerOf(sheet, item).answer;
  const answered = items.filter((one) => answerOf(sheet, one).answer !== null).length;
  parts.place.textContent = `Question ${sheet.at + 1} of ${items.length}, ${answered} answered`;
  parts.prompt.textContent = item.prompt;
  parts.picture.replaceChildren(...(item.picture ? [mapOf(item.picture, test.theme, chosen, (letter) => choose(test, letter))] : []));
  const options = item.options.map((option, place) => optionOf(test, option, chosen, place));
  parts.options.replaceChildren(...options);
  parts.back.disabled = sheet.at === 0;
  parts.next.hidden = sheet.at === items.length - 1;
  parts.finish.textContent = answered < items.length ? `Finish with ${answered} of ${items.length} answered` : "Finish";
  parts.finish.classList.toggle("main", answered === items.length);
}

/* A radio button. Arrows choose among the options; Tab reaches only one of them. */
function optionOf(test, { letter, text }, chosen, place) {
  const button = buttonOf(letter === chosen ? "option chosen" : "option");
  button.setAttribute("role", "radio");
  button.setAttribute("aria-checked", String(letter === chosen));
  button.tabIndex = letter === chosen || (chosen === null && place === 0) ? 0 : -1;
  button.append(element("b", "letter", letter), element("span", "", text));
  button.addEventListener("click", () => choose(test, letter));
  button.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const { options } = itemsOf(test)[sheetOf(test).at];
    choose(test, options[(place + step + options.length) % options.length].letter);
  });
  return button;
}

function paintResult(test) {
  const { parts } = test;
  const [items, sheet] = [itemsOf(test), sheetOf(test)];
  const right = items.filter((item) => isRight(sheet, item)).length;
  parts.score.textContent = `Form ${test.form}: ${right} of ${items.length} right${unanswered(sheet, items)}`;
  parts.topics.replaceChildren(
    ...byTopic(sheet, items).map(([topic, good, all, blank]) => element("li", "", `${topic}: ${good} of ${all}${blank}`)),
  );
  parts.answers.replaceChildren(...items.map((item, place) => explained(test, item, place)));
}

/* A question with its answer, the right one, and one sentence about each option. */
function explained(test, item, place) {
  const { answer, later = [] } = answerOf(sheetOf(test), item);
  const { settled } = openItem(sheetOf(test), item);
  const entry = element("li", "entry");
  const verdict = answer === null ? "not answered" : answer === item.right ? "right" : "wrong";
  entry.dataset.verdict = verdict;
  entry.append(element("p", "verdict", `${place + 1}. ${item.topic}: ${verdict}${settled ? "" : ", try again"}`), element("p", "", item.prompt));
  if (item.picture) entry.append(mapOf(item.picture, test.theme, settled ? item.right : null, null));
  if (!settled) {
    entry.append(...triedAgain(test, item));
    return entry;
  }
  const options = element("ul", "whys");
  for (const { letter, text, why } of item.options) {
    const line = element("li", letter === item.right ? "right" : "");
    const marks = [letter === item.right ? "right" : "", letter === answer ? "your answer" : "", later.includes(letter) ? "tried later" : ""].filter(Boolean);
    line.append(element("b", "", `${letter}  ${text}`), element("span", "said", marks.length ? ` (${marks.join(", ")})` : ""), element("p", "", why));
    options.append(line);
  }
  entry.append(options, element("p", "paper", item.paper));
  return entry;
}

/* An item that was wrong: its options again, the hints so far, and buttons for the next one and for the answer. */
function triedAgain(test, item) {
  const sheet = sheetOf(test);
  const { question, wrong, given } = openItem(sheet, item);
  const { answer, later = [], asked = [] } = answerOf(sheet, item);
  const change = (more) => {
    Object.assign(sheet.answers[item.name], more);
    keepAnswers(test.sheets);
    paintTest(test);
    const entry = test.parts.answers.children[itemsOf(test).indexOf(item)];
    (entry.querySelector("button:enabled") ?? test.parts.score).focus();
  };
  const button = (className, words, more) => {
    const made = buttonOf(className, words);
    made.addEventListener("click", () => change(more));
    return made;
  };
  const options = item.options.map(({ letter, text }, index) => {
    const option = button("option", "", { later: [...later, letter] });
    option.disabled = wrong.flat().includes(index);
    option.append(element("b", "letter", letter), element("span", "", `${text}${letter === answer ? " (your answer)" : ""}`));
    return option;
  });
  const box = element("div", "options");
  box.append(...options);
  const steps = element("div", "steps");
  const hint = button("hint", "Hint", { asked: [...asked, wrong.length] });
  hint.disabled = !nextHint(question, wrong, given);
  steps.append(hint, button("quiet", "Show the answer", { gaveUp: true }));
  return [box, steps, ...given.map(({ text }) => element("p", "clue", text))];
}

export default function render({ data, parentElement }) {
  const test = viewOf(parentElement, data);
  test.data = data;
  test.theme = readTheme(test.root);
  paintTest(test);
  return test.destroy;
}
