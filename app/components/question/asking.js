// Asks one question on any page: builds it, takes an answer by pointer or keyboard, scores it and reveals the answer.

import { element, partsOf } from "../shared/dom.js";
import { renewTheme } from "../shared/theme.js";
import { buildOptions, makeCurrent, markAnswered, markChosen, shadeOptions } from "./options.js";
import { fillText, optionAfterKey, scoreAnswer } from "./score.js";

/**
 * Prepare a question's markup; `tell` receives {question, answer, right, skipped} once, when it is answered or skipped.
 * Returns a view for `showQuestion`.
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
  parts.skip.addEventListener("click", () => giveAnswer(view, [], true));
  return view;
}

/**
 * Show a question. A question already shown keeps its state. If it is still unanswered,
 * `data.given` answers it.
 */
export function showQuestion(view, data) {
  const themeChanged = renewTheme(view, view.root);
  const isNew = view.data?.question !== data.question;
  const changed = isNew || JSON.stringify(withoutAnswer(view.data)) !== JSON.stringify(withoutAnswer(data));
  view.data = data;
  if (isNew) Object.assign(view, { chosen: new Set(), answered: null });
  if (data.given && !view.answered) view.answered = data.given;
  if (changed) buildQuestion(view);
  else if (themeChanged && view.answered) shadeOptions(view.parts.options, view.buttons, data, view.theme);
  if (view.answered && (changed || view.root.dataset.answered === "")) revealAnswer(view);
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
  parts.skip.textContent = words.skip;
  parts.actions.hidden = false;
  parts.reveal.replaceChildren();
  view.buttons = buildOptions(parts.options, data);
  markChosen(view.buttons, view.chosen);
  Object.assign(root.dataset, { question: data.question, name: data.name, answered: "", chosen: "" });
}

/* Pointing at an option answers a question that asks for one; in a question that asks for several, it marks or unmarks it. */
function pointAt(view, index) {
  if (view.answered) return;
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
  if (view.answered) return;
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
  if (view.answered) return;
  const right = !skipped && scoreAnswer(view.data, answer).right;
  view.answered = { question: view.data.question, answer, right, skipped };
  const hadFocus = view.parts.actions.contains(view.root.getRootNode().activeElement);
  revealAnswer(view);
  if (hadFocus) view.buttons.find((button) => button.tabIndex === 0)?.focus(); // the pressed button is hidden now
  view.tell(view.answered);
}

function revealAnswer(view) {
  const { root, parts, data, answered } = view;
  const { words } = data;
  const { answer, right, skipped } = answered;
  const score = scoreAnswer(data, answer);
  view.chosen = new Set(answer);
  markChosen(view.buttons, view.chosen);
  markAnswered(view.buttons, data, view.chosen);
  shadeOptions(parts.options, view.buttons, data, view.theme);
  parts.actions.hidden = true;
  parts.hint.hidden = true;
  const answerLine = fillText(words.answer, { option: data.options[data.correct[0]].said });
  const verdict = skipped ? (data.every ? words.skipped : answerLine) : score.near ? words.near : right ? words.right : words.wrong;
  const lines = [element("p", "verdict", verdict)];
  if (data.every) {
    const cells = data.options.length;
    if (!skipped) lines.push(element("p", "said", fillText(words.cells, { right: cells - score.missed.length - score.extra.length, cells })));
  } else if (!skipped) {
    lines.push(element("p", "said", fillText(words.yours, { option: data.options[answer[0]].said })));
    if (!data.correct.includes(answer[0])) lines.push(element("p", "said", answerLine));
  }
  lines.push(element("p", "explanation", data.explanation.join(" ")), element("p", "uncertain", data.uncertain));
  if (data.paper) lines.push(element("p", "paper", data.paper));
  parts.reveal.replaceChildren(...lines);
  Object.assign(root.dataset, { answered: skipped ? "skipped" : right ? "right" : "wrong", chosen: answer.join(" ") });
}
