// Asks one question on any page: builds it, takes an answer by pointer or keyboard, scores it and reveals the answer.

import { element, partsOf } from "../shared/dom.js";
import { renewTheme } from "../shared/theme.js";
import { buildOptions, makeCurrent, markAnswered, markChosen, markLeft, shadeOptions } from "./options.js";
import { fillText, hintsGiven, isOver, nextHint, optionAfterKey, scoreAnswer } from "./score.js";

/**
 * Prepare a question's markup; `tell` receives {question, answer, right, skipped, wrong, asked, settled} after each answer and
 * hint. A wrong answer leaves the question open: `wrong` are all wrong answers, and `asked` has how many of them came before
 * each hint. Returns a view for `showQuestion`.
 */
export function askingView(root, tell) {
  const parts = partsOf(root);
  const view = { root, parts, tell, data: null, theme: null, buttons: [], chosen: new Set(), answered: null };
  parts.options.addEventListener("click", (event) => {
    const button = event.target.closest(".option");
    if (button) pointAt(view, Number(button.dataset.option));
  });
  parts.options.addEventListener("keydown", (event) => moveByKey(view, event));
  parts.check.addEventListener("click", () => giveAnswer(view, inOrder(view.chosen), false));
  parts.ask.addEventListener("click", () => askForHint(view));
  parts.skip.addEventListener("click", () => giveAnswer(view, [], true));
  return view;
}

/**
 * Show a question. A question already shown keeps its state; otherwise `data.given` is its state.
 */
export function showQuestion(view, data) {
  const themeChanged = renewTheme(view, view.root);
  const isNew = view.data?.question !== data.question;
  const changed = isNew || JSON.stringify(withoutAnswer(view.data)) !== JSON.stringify(withoutAnswer(data));
  view.data = data;
  if (isNew) Object.assign(view, { chosen: new Set(), answered: null });
  const isGiven = data.given && !view.answered;
  if (isGiven) Object.assign(view, { answered: data.given, chosen: new Set(data.every ? data.given.answer : []) });
  if (changed) buildQuestion(view);
  else if (themeChanged && view.answered) shadeOptions(view.parts.options, view.buttons, data, view.theme);
  if (view.answered && (changed || isGiven)) showAnswer(view);
}

const inOrder = (chosen) => [...chosen].toSorted((a, b) => a - b);

const withoutAnswer = (data) => ({ ...data, given: null });

function buildQuestion(view) {
  const { root, parts, data } = view;
  const { words } = data;
  for (const name of ["prompt", "hint"]) parts[name].hidden = !data[name];
  parts.prompt.textContent = data.prompt;
  const [before, keys = "", after = ""] = data.hint.split("|");
  parts.hint.replaceChildren(before, element("span", "keys", keys), after);
  root.setAttribute("aria-label", data.prompt);
  parts.check.textContent = words.check;
  parts.check.hidden = !data.every;
  parts.ask.textContent = words.hint;
  parts.ask.hidden = true;
  parts.skip.textContent = words.skip;
  parts.actions.hidden = false;
  parts.reveal.replaceChildren();
  view.buttons = buildOptions(parts.options, data);
  markChosen(view.buttons, view.chosen);
  Object.assign(root.dataset, { question: data.question, name: data.name, answered: "", chosen: "", hints: 0 });
}

/* Pointing at an option answers a question that asks for one; in a question that asks for several, it marks or unmarks it. */
function pointAt(view, index) {
  if (view.answered?.settled || "state" in view.buttons[index].dataset) return;
  makeCurrent(view.buttons, index);
  if (!view.data.every) {
    view.chosen = new Set([index]);
    giveAnswer(view, [index], false);
    return;
  }
  if (!view.chosen.delete(index)) view.chosen.add(index);
  markChosen(view.buttons, view.chosen);
  view.root.dataset.chosen = inOrder(view.chosen).join(" ");
}

/* After an answer the arrow keys are free: in presentation mode they move between the stops. */
function moveByKey(view, event) {
  if (view.answered?.settled) return;
  if (event.ctrlKey || event.metaKey || event.altKey || !event.target.closest(".option")) return;
  const from = Number(event.target.closest(".option").dataset.option);
  const columns = view.data.layout === "grid" ? view.data.columns.length : 0;
  const place = { count: view.buttons.length, columns, rtl: view.parts.options.dir === "rtl" };
  const to = optionAfterKey(event.key, from, place);
  if (to === null) return; // Enter and Space click the button
  event.preventDefault();
  event.stopPropagation();
  makeCurrent(view.buttons, to);
  view.buttons[to].focus();
}

function giveAnswer(view, answer, skipped) {
  const { data, answered } = view;
  if (answered?.settled) return;
  const right = !skipped && scoreAnswer(data, answer).right;
  const asked = answered?.asked ?? [];
  const wrong = [...(answered?.wrong ?? []), ...(right || skipped ? [] : [answer])];
  const settled = right || skipped || isOver(data, wrong, hintsGiven(data, wrong, asked));
  update(view, { question: data.question, answer, right, skipped, wrong, asked, settled });
}

const askForHint = (view) => update(view, { ...view.answered, asked: [...view.answered.asked, view.answered.wrong.length] });

function update(view, answered) {
  view.answered = answered;
  const pressed = view.root.getRootNode().activeElement;
  const hadFocus = view.parts.actions.contains(pressed);
  showAnswer(view);
  if (hadFocus && (pressed.disabled || !pressed.offsetParent)) view.buttons.find((button) => button.tabIndex === 0)?.focus();
  view.tell(answered);
}

function showAnswer(view) {
  const { root, parts, data, answered } = view;
  const { answer, wrong, asked, settled } = answered;
  if (settled) view.chosen = new Set(answer);
  markChosen(view.buttons, view.chosen);
  if (settled || !data.every) markAnswered(view.buttons, data, new Set(data.every ? answer : [answer, ...wrong].flat()), settled);
  shadeOptions(parts.options, view.buttons, data, view.theme);
  parts.actions.hidden = settled;
  const given = hintsGiven(data, wrong, asked);
  root.dataset.hints = given.length;
  if (settled) revealAnswer(view);
  else inviteAgain(view, given);
}

/* After a wrong answer: another try, a hint, or the answer. */
function inviteAgain({ parts, data, answered, buttons }, given) {
  const { words } = data;
  parts.ask.hidden = false;
  parts.ask.disabled = !nextHint(data, answered.wrong, given); // shown, so that no other button moves under the pointer
  parts.skip.textContent = words.give_up;
  markLeft(buttons, given.findLast(({ among }) => among.length)?.among ?? []);
  const clues = given.map(({ text }) => element("p", "clue", text));
  parts.reveal.replaceChildren(element("p", "verdict", words.wrong), ownAnswer(data, answered.answer), element("p", "said", words.again), ...clues);
}

/* The learner's answer with its number, or how many cells are right. */
function ownAnswer(data, answer) {
  const { words, options, correct } = data;
  if (!data.every) return element("p", "said", fillText(words.yours, { option: options[answer[0]].said }));
  const { missed, extra } = scoreAnswer(data, answer);
  return element("p", "said", fillText(words.cells, { found: correct.length - missed.length, masked: correct.length, extra: extra.length }));
}

function revealAnswer(view) {
  const { root, parts, data, answered } = view;
  const { words } = data;
  const { answer, right, skipped } = answered;
  markLeft(view.buttons, []);
  const answerLine = fillText(words.answer, { option: data.options[data.correct[0]].said });
  const verdict = skipped ? (data.every ? words.skipped : answerLine) : scoreAnswer(data, answer).near ? words.near : right ? words.right : words.wrong;
  const lines = [element("p", "verdict", verdict)];
  if (!skipped) lines.push(ownAnswer(data, answer));
  if (!skipped && !data.every && !data.correct.includes(answer[0])) lines.push(element("p", "said", answerLine));
  lines.push(element("p", "explanation", data.explanation.join(" ")), element("p", "uncertain", data.uncertain));
  if (data.paper) lines.push(element("p", "paper", data.paper));
  parts.reveal.replaceChildren(...lines);
  Object.assign(root.dataset, { answered: skipped ? "skipped" : right ? "right" : "wrong", chosen: answer.join(" ") });
}
