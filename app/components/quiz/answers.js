// Answers to the test: kept in the browser's storage, scored, and written as CSV; nothing is sent.

import { hintsGiven, isOver } from "../question/score.js";
import { csvOf, quoted } from "../shared/csv.js";

const STORED = "headlight-test";

/**
 * @typedef {{answer: string | null, seconds: number, later?: string[], asked?: number[], gaveUp?: boolean}} Answer  `later` are
 *   the answers after the end of the test to an item that was wrong; `asked` has how many wrong answers came before each hint
 * @typedef {{at: number, done: boolean, visit: string, answers: Record<string, Answer>}} Sheet  a form's answers by item; `at`
 *   is the shown item, counted from 0, and `visit` a random name for the sheet, which names nobody
 */

/** @returns {Sheet} */
export const emptySheet = () => ({ at: 0, done: false, visit: randomName(), answers: {} });

const randomName = () => [...crypto.getRandomValues(new Uint8Array(4))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

const isList = (values, form) => values === undefined || (Array.isArray(values) && form.test(values.join()));

const isAnswer = (value) =>
  (value?.answer === null || /^[A-D]$/.test(value?.answer)) &&
  value?.seconds >= 0 &&
  isList(value.later, /^[A-D,]*$/) &&
  isList(value.asked, /^[1-9,]*$/);

/*
 * Read a stored sheet. It may be from another version or edited by hand: drop what cannot be read.
 */
function sheetFrom(stored, items) {
  const known = items.filter(({ name }) => isAnswer(stored?.answers?.[name])).map(({ name }) => [name, stored.answers[name]]);
  const at = Number.isInteger(stored?.at) && stored.at >= 0 && stored.at < items.length ? stored.at : 0;
  const visit = /^[0-9a-f]{8}$/.test(stored?.visit) ? stored.visit : randomName();
  return { at, done: stored?.done === true, visit, answers: Object.fromEntries(known) };
}

/**
 * Read the answers of each form.
 * @returns {{sheets: Record<string, Sheet>, kept: boolean}} `kept` says whether this browser keeps them
 */
export function readAnswers(forms) {
  let [stored, kept] = [{}, true];
  try {
    stored = JSON.parse(window.localStorage.getItem(STORED) ?? "{}");
  } catch (error) {
    kept = error instanceof SyntaxError; // others: storage is turned off
  }
  const sheets = Object.entries(forms).map(([form, items]) => [form, sheetFrom(stored?.[form], items)]);
  return { sheets: Object.fromEntries(sheets), kept };
}

export function keepAnswers(sheets) {
  try {
    window.localStorage.setItem(STORED, JSON.stringify(sheets));
  } catch {
    // Storage is turned off or full: the answers last as long as the page.
  }
}

/** @returns {Answer} */
export const answerOf = (sheet, item) => sheet.answers[item.name] ?? { answer: null, seconds: 0 };

export const isRight = (sheet, item) => answerOf(sheet, item).answer === item.right;

/* How many of the items have no answer, as words after a count of right ones; "" if all have one. */
export function unanswered(sheet, items) {
  const blank = items.filter((item) => answerOf(sheet, item).answer === null).length;
  return blank ? `, ${blank} not answered` : "";
}

/* Per topic, in order, how many of its items are right: [topic, right, all, words about those without an answer]. */
export function byTopic(sheet, items) {
  const topics = [...new Set(items.map(({ topic }) => topic))];
  return topics.map((topic) => {
    const own = items.filter((item) => item.topic === topic);
    return [topic, own.filter((item) => isRight(sheet, item)).length, own.length, unanswered(sheet, own)];
  });
}

/**
 * An item after a wrong answer, as a question that gives hints: `wrong` are the wrong answers as indices. The first hint says
 * what is wrong with the first answer.
 */
export function openItem(sheet, item) {
  const { answer, later = [], asked = [], gaveUp = false } = answerOf(sheet, item);
  const at = (letter) => item.options.findIndex((option) => option.letter === letter);
  const right = at(item.right);
  const rivals = item.options.map((_, index) => index).filter((index) => index !== right);
  const hints = [{ text: item.options[at(answer)]?.why ?? "", among: [] }];
  const options = item.options.map(({ letter }) => ({ name: letter }));
  const question = { every: false, correct: [right], rivals, hints, options, words: { pair: "It is {one} or {other}." } };
  const wrong = [answer, ...later].map((letter) => [at(letter)]).filter(([index]) => index !== right);
  const given = hintsGiven(question, wrong, asked);
  const settled = answer === null || gaveUp || [answer, ...later].includes(item.right) || isOver(question, wrong, given);
  return { question, wrong, given, settled };
}

/* One line per item, without the learner's name or the time of day: form, item, answer, right, seconds, hints. */
export function answersAsCsv(form, sheet, items) {
  const lines = items.map((item) => {
    const { answer, seconds, later = [], asked = [], gaveUp = false } = answerOf(sheet, item);
    const after = [asked.length, later.includes(item.right), gaveUp].map(Number);
    return [form, quoted(item.name), answer ?? "", Number(isRight(sheet, item)), Math.round(seconds), ...after, sheet.visit];
  });
  return csvOf(["form item answer right seconds hints right_later gave_up visit".split(" "), ...lines]);
}
