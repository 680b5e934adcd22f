// Answers to the test: kept in the browser's storage, scored, and written as CSV; nothing is sent.

import { csvOf, quoted } from "../shared/csv.js";

const STORED = "headlight-test";

/**
 * @typedef {{answer: string | null, seconds: number}} Answer
 * @typedef {{at: number, done: boolean, answers: Record<string, Answer>}} Sheet  a form's answers by item; `at` is the
 *   shown item, counted from 0
 */

/** @returns {Sheet} */
export const emptySheet = () => ({ at: 0, done: false, answers: {} });

const isAnswer = (value) => (value?.answer === null || /^[A-D]$/.test(value?.answer)) && value?.seconds >= 0;

/*
 * Read a stored sheet. It may be from another version or edited by hand: drop what cannot be read.
 */
function sheetFrom(stored, items) {
  const known = items.filter(({ name }) => isAnswer(stored?.answers?.[name])).map(({ name }) => [name, stored.answers[name]]);
  const at = Number.isInteger(stored?.at) && stored.at >= 0 && stored.at < items.length ? stored.at : 0;
  return { at, done: stored?.done === true, answers: Object.fromEntries(known) };
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

/* One line per item, without the learner's name or the time of day: form, item, answer, right, seconds. */
export function answersAsCsv(form, sheet, items) {
  const lines = items.map((item) => {
    const { answer, seconds } = answerOf(sheet, item);
    return [form, quoted(item.name), answer ?? "", Number(isRight(sheet, item)), Math.round(seconds)];
  });
  return csvOf([["form", "item", "answer", "right", "seconds"], ...lines]);
}
