// Reads a lesson's table of texts and rules, as app/lessons/texts.py does for the app. No DOM.

import { shuffled } from "./shuffle.js";

/**
 * Put values in place of a text's {placeholders}. Throws for a placeholder without a value.
 * @param {string} template
 * @param {Record<string, string | number>} values
 */
export function filled(template, values) {
  return template.replace(/\{(\w+)\}/g, (_, name) => {
    if (!(name in values)) throw new Error(`the text \u201c${template}\u201d needs ${name}`);
    return String(values[name]);
  });
}

/** The first verdict whose limit is at least the value; the last has none. @param {[string, number?][]} verdicts @param {number} value */
export const verdictIn = (verdicts, value) => verdicts.find(([, limit]) => limit === undefined || value <= limit)[0];

/** The function that returns a lesson's text by its dotted key, filled in. @param {LessonTable} table */
export function textsOf({ texts }) {
  return (/** @type {string} */ key, /** @type {Record<string, string | number>} */ values = {}) => {
    if (!(key in texts)) throw new Error(`there is no text ${key}`);
    return filled(texts[key], values);
  };
}

/** Names of both passes of a change: in sentences, and of their maps. @param {(key: string) => string} say @param {string} change */
export function passNames(say, change) {
  const both = /** @type {["before", "after"]} */ (["before", "after"]).map((when) => `${change}.${when}`);
  return {
    states: /** @type {[string, string]} */ (both.map((one) => say(`${one}.state`))),
    maps: /** @type {[MapName, MapName]} */ (both.map((one) => mapName(say, one))),
  };
}

/** @param {(key: string) => string} say @param {string} key @returns {MapName} */
export const mapName = (say, key) => ({ name: say(`${key}.name`), short: say(`${key}.short`), note: say(`${key}.note`) });

/**
 * The text form of a change of the positions on some sides.
 * @param {string} edit  of the change, after `positions.SIDE.`
 * @param {number} number  of the change's box, if it has one
 * @param {Record<string, number>} lengths  tokens by side
 */
export const positionEdits = (edit, number, lengths) =>
  Object.entries(lengths)
    .map(([side, length]) => `positions.${side}.${filled(edit, { number, order: shuffled(number, length).join("-") })}`)
    .join("~");
