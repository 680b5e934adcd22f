// The notes on the picture: what its numbers are and how much is hidden, below it; rows and columns, among the options.

import { bold } from "../shared/dom.js";
import { percent } from "../shared/numbers.js";
import { tokenName } from "../shared/tokens.js";
import { currentMap } from "./focus.js";
import { paintLinesNote } from "./lines.js";
import { isSigned, ROLLOUT, SCORES, WEIGHTS } from "./maps.js";
import { hiddenMass, isHidden } from "./measures.js";
import { derivation, summedFigure } from "./words.js";

/*
 * Explanations of each quantity. Combined heads and merged words have a separate text: softmax and norm are nonlinear, so
 * statements about one head and single tokens do not hold for them.
 */
const QUANTITY_NOTES = {
  change: {
    one: "Number: attention weight after the edit minus before. Each row sums to\u00a00.",
    joined: (how) => `Number: attention weight after the edit minus before (${how}); blue is more, orange less.`,
  },
  scores: {
    one: "Number: q\u00b7k/\u221ad, before mask and softmax; the softmax over a row\u2019s unmasked scores gives its weights.",
    joined: (how) => `Number: q\u00b7k/\u221ad (${how}). The softmax of such a row is not a row of the weights combined in the same way.`,
  },
  norms: {
    one: "Number: \u2016\u03b1\u2009v\u2009W\u1d3c\u2016, the length of the vector that a key adds in this head (Kobayashi et al. 2020).",
    joined: (how) =>
      `Number: \u2016\u03b1\u2009v\u2009W\u1d3c\u2016 (${how}). This is not the length of their combined ` +
      "contribution, which is the norm of the sum (Kobayashi et al. 2020).",
  },
};

const ROLLOUT_OF_LAYERS =
  "Rollout: the product of one matrix per layer up to this one. Each is the mean of the layer\u2019s heads, averaged with the " +
  "identity, which stands for the residual connection";

const ROLLOUT_NOTES = {
  encoder: ROLLOUT_OF_LAYERS,
  decoder: ROLLOUT_OF_LAYERS,
  cross: "Rollout: this layer\u2019s weights, averaged over heads, times the rollout of the whole encoder",
};

/** @param {Explorer} explorer */
export function paintAxisNote(explorer) {
  const { data } = explorer;
  const { kind, unit, picture, quantity } = explorer.view;
  const sums = unit === "words" && !isSigned(quantity) && quantity !== "norms";
  const { parts } = explorer.dom;
  const { sourceLanguage: source, targetLanguage: target } = data;
  const lines = picture === "lines";
  const token = unit === "words" ? "word" : "token";
  const query = kind === "encoder" ? `the ${source} ${token} being read. ` : `the ${target} ${token} being produced. `;
  const key = kind === "decoder" ? `the ${target} ${token}s already written. ` : `the ${source} ${token}s. `;
  parts["axis-note"].replaceChildren(
    bold(lines ? "Query (right)" : "Query (row)"),
    `: ${query}`,
    bold(lines ? "Key (left)" : "Key (column)"),
    `: ${key}`,
    sums ? "Weights on the tokens of a key word are added, those of a query word averaged." : "",
  );
  parts["number-note"].replaceChildren(...numberNote(explorer, lines), ...hiddenMassNote(explorer));
  paintLinesNote(explorer);
  parts["quantity-note"].textContent = quantity === ROLLOUT ? `${ROLLOUT_NOTES[kind]} (Abnar & Zuidema 2020).` : "";
}

/** @param {Explorer} explorer */
function numberNote(explorer, lines) {
  const { data } = explorer;
  const { quantity, kind, combine, layer, head } = explorer.view;
  const together = layer === data.layers[kind] || head === data.heads;
  const how = derivation(explorer.data, explorer.view);
  if (isSigned(quantity) && lines) {
    const become = quantity === SCORES ? "the weights that result from the scores" : "the weights of the changed pass";
    return [`Lines can only show shares of a row. They show ${how ? "the weights, combined in the same way" : become}.`];
  }
  const note = QUANTITY_NOTES[quantity];
  if (note) return [how ? note.joined(how) : note.one];
  if (quantity === WEIGHTS && together && combine === "max") return ["Each cell is the largest of its values over the heads or layers: a row may sum to more than 1."];
  return [lines ? "The weights of each query sum to\u00a01." : "Each row sums to\u00a01."];
}

/** Report how much of all weight is hidden, and the row with the most. @param {Explorer} explorer */
function hiddenMassNote(explorer) {
  const { hide } = explorer.view;
  const map = currentMap(explorer);
  const hidden = map.columns.filter((_, key) => isHidden(map, key, hide));
  if (!hidden.length || isSigned(explorer.view.quantity)) return [];
  const masses = map.rows.map((_, query) => hiddenMass(map, hide, query));
  const most = masses.indexOf(Math.max(...masses));
  const names = hidden.length === 1 ? tokenName(hidden[0]) : `${hidden.length} columns`;
  const share = hiddenMass(map, hide);
  const figure = (mass) => summedFigure(map, mass, hidden.length);
  const held = map.sumsToOne ? `hold ${percent(share, map.error * hidden.length)} of all weight` : `hold ${figure(share)} per row on average`;
  return [
    " ",
    bold(`Hidden: ${names} ${hidden.length === 1 ? held.replace("hold", "holds") : held}`),
    `, at most ${figure(masses[most])} in the row of ${tokenName(map.rows[most])} (grey bars).`,
  ];
}
