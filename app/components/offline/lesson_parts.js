// Parts of a lesson: sections, choices, rows of maps, and the probabilities of two passes side by side.

import { barOf, bold, element } from "../shared/dom.js";
import { percent } from "../shared/numbers.js";
import { displayTokens, tokenName } from "../shared/tokens.js";

/** Paragraphs of texts; elements stay as they are. @param {(string | Node)[]} content */
export const paragraphs = (content) => content.map((words) => (typeof words === "string" ? element("p", "", words) : words));

/** A section with a heading and paragraphs. @param {string} title @param {(string | Node)[]} content */
export function sectionOf(title, ...content) {
  const section = element("section", "part");
  section.append(element("h3", "", title), ...paragraphs(content));
  return section;
}

/** A formula in one line of text. */
export const formulaOf = (text) => element("p", "formula", text);

/** A paragraph that is filled later. */
export const lineOf = (className = "") => element("p", className);

/**
 * A labelled list of choices. @param {string} label @param {[string, string][]} options  value and text
 * @param {() => void} change @param {string} [usual]  value of the option that is chosen at first
 */
export function choiceBox(label, options, change, usual) {
  const box = element("label", "choice-box");
  const list = element("select");
  box.append(element("span", "", label), list);
  fillChoice(list, options, usual);
  list.addEventListener("change", change);
  return { box, list };
}

/* Replace the options of a list and choose one of them. */
export function fillChoice(list, options, chosen = options[0]?.[0]) {
  list.replaceChildren(...options.map(([name, text]) => Object.assign(element("option", "", text), { value: name })));
  list.value = chosen;
}

/**
 * A labelled box for a whole number; what is not one within the limits counts as the usual one.
 * @param {string} label @param {{least: number, most: number, usual: number}} limits @param {() => void} change
 */
export function numberBox(label, { least, most, usual }, change) {
  const box = element("label", "choice-box");
  const field = Object.assign(element("input"), { type: "number", min: least, max: most, value: usual });
  box.append(element("span", "", label), field);
  const value = () => (field.value && field.validity.valid ? field.valueAsNumber : usual);
  field.addEventListener("change", () => {
    field.value = String(value());
    change();
  });
  return { box, value };
}

/** A row of maps with its own controls. @param {LessonTools} tools @param {string} key */
export function mapRowOf({ mapRow, render }, key) {
  const place = element("div", "row-place");
  place.append(mapRow.cloneNode(true));
  return { place, show: (data) => render({ data, parentElement: place, key }) };
}

/** Tokens of the target as they are named in text. @param {Pass} pass */
const namesOfTarget = ({ targetOut }) => displayTokens(targetOut, 1).map(tokenName);

/**
 * A table of the target's tokens with their probabilities in two passes. `names` are its column titles.
 * @param {[string, string]} names
 */
export function probabilityTable(names) {
  const table = element("table", "probabilities numbers");
  const head = element("tr");
  for (const name of ["token", ...names]) head.append(Object.assign(element("th", "", name), { scope: "col" }));
  const body = element("tbody");
  table.append(element("thead"), body);
  table.tHead.append(head);
  /** @param {Pass} before @param {Pass} after */
  const paint = (before, after) => {
    const rows = namesOfTarget(before).map((name, token) => {
      const row = element("tr");
      row.append(Object.assign(element("th", "", name), { scope: "row" }));
      for (const { probabilities } of [before, after]) {
        const cell = element("td");
        cell.append(barOf("bar", probabilities[token]), element("span", "", percent(probabilities[token])));
        row.append(cell);
      }
      return row;
    });
    body.replaceChildren(...rows);
  };
  return { table, paint };
}

/** Two translations, one below the other, each after the name of its pass. @param {[string, string]} names @param {string[]} translations */
export function paintTexts(line, names, translations) {
  const lines = translations.map((text, place) => [bold(`${names[place]}: `), text || "(empty)"]);
  line.replaceChildren(...lines[0], element("br"), ...lines[1]);
}

/** Words in which **two stars** enclose what is bold. */
export const paintWords = (line, words) => line.replaceChildren(...words.split("**").map((part, place) => (place % 2 ? bold(part) : part)));
