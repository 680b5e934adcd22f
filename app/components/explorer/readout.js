// The readout: one sentence and a line of details about the focused cell, row or column.

import { bold, element } from "../shared/dom.js";
import { chance, fixed, percent } from "../shared/numbers.js";
import { tokenName } from "../shared/tokens.js";
import { hasProbabilities } from "./data.js";
import { atHead, currentMap, focusOf, isPinned } from "./focus.js";
import { CHANGE, isMasked, isSigned, mapOf, rampOf, stepOf, valueAt, WEIGHTS } from "./maps.js";
import { hiddenMass, isHidden, measure, rankedKeys, rankedQueries } from "./measures.js";
import { editResult } from "./next_step.js";
import { capital, derivation, headName, mapFigure, measuredFigure, printedValue, QUANTITIES, summedFigure, wordingOf } from "./words.js";

const NO_BREAK_DOT = "\u2002\u00b7\u2002";

function valueChip({ theme, view: { quantity } }, map, value) {
  const chip = element("span", "weight numbers", mapFigure(map, value, QUANTITIES[quantity].digits));
  const step = stepOf(map, value);
  chip.style.background = rampOf(theme, map).css[step];
  chip.style.color = rampOf(theme, map).ink[step];
  return chip;
}

export const byTouch = window.matchMedia("(pointer: coarse)").matches;

/** Return the first line as nodes and strings, the second as a list of statements. @param {Explorer} explorer */
function describe(explorer) {
  const { quantity } = explorer.view;
  const { preview } = explorer.now;
  const focus = focusOf(explorer);
  if (preview.note) return describeUnseen(explorer, preview.note);
  const map = currentMap(explorer);
  if (focus.query !== null && focus.key !== null) {
    const masked = isMasked(map, focus.query, focus.key);
    return (masked ? describeMasked : describeCell)(explorer, map, focus.query, focus.key);
  }
  if (focus.query !== null) return describeRow(explorer, map, focus.query);
  if (focus.key !== null) return describeColumn(explorer, map, focus.key);
  const peak = valueChip(explorer, map, measure(map).peak);
  return {
    first: [`On average, the largest ${QUANTITIES[quantity].name} in a row of ${headName(explorer.data, explorer.view)} is `, peak],
    second: [
      byTouch
        ? "Tap a word or a cell to read one number; tap again to unpin."
        : "Point at a word or a cell to read one number; click to pin it.",
    ],
  };
}

function describeUnseen({ data }, note) {
  const { sourceLanguage: source, targetLanguage: target } = data;
  if (note === "target") {
    return {
      first: [`The encoder looks only at ${source} tokens: it never sees the translation.`],
      second: ["Choose Cross to see the two sentences linked."],
    };
  }
  if (note === "source") {
    return {
      first: [`Decoder self-attention looks only at ${target} tokens; ${source} reaches it through cross-attention.`],
      second: ["Choose Cross to see the two sentences linked."],
    };
  }
  const name = tokenName(data.sides.target[0]);
  return {
    first: [bold(name), " is fed in to start the sentence: no step produces it, so it has no row here."],
    second: ["Point at a later token to see where the decoder looked while writing it."],
  };
}

/** @param {AttentionMap} map */
const verb = (map) => (map.kind === "encoder" ? "reading" : "writing");

/** @param {AttentionMap} map */
function describeMasked(_explorer, map, query, key) {
  const start = [`While ${verb(map)} `, bold(tokenName(map.rows[query])), ", ", bold(tokenName(map.columns[key]))];
  const notWritten = map.kind === "decoder" && key > query;
  return {
    first: [...start, notWritten ? " is masked: it has not been written yet." : " is masked."],
    second: [
      `The ${notWritten ? "causal " : ""}mask forbids this cell: its weight is exactly 0 by construction, not because the model learned to ignore it.`,
      ...unknownNote(map, query, key),
    ],
  };
}

/** @param {Explorer} explorer @param {AttentionMap} map */
function describeCell(explorer, map, query, key) {
  const { gives, to } = wordingOf(map);
  const value = valueAt(map, query, key);
  const ranked = rankedKeys(map, query);
  // Nothing is summed between two words of one token each.
  const plain = map.rows[query].members.length === 1 && map.columns[key].members.length === 1;
  const how = derivation(explorer.data, plain ? { ...explorer.view, unit: "pieces" } : explorer.view);
  const second = [
    `${printedValue(map, value)}${how ? `, derived: ${how}` : ""}`,
    `rank ${ranked.indexOf(key) + 1} of ${ranked.length} in its row`,
    ...entropyNote(map, query),
  ];
  if (map.kind !== "encoder" && explorer.view.unit === "pieces") {
    const fed = tokenName(explorer.data.sides.fed[query]);
    second.push(`row ${query + 1}: reads ${fed}, next token ${tokenName(map.rows[query])}`);
  }
  return {
    first: [
      `While ${verb(map)} `,
      bold(tokenName(map.rows[query])),
      `, ${headName(explorer.data, explorer.view)}${gives}`,
      valueChip(explorer, map, value),
      to,
      bold(tokenName(map.columns[key])),
    ],
    // At most four statements fit; an unknown word is more important than a rank.
    second: [...unknownNote(map, query, key), ...second].slice(0, 4),
  };
}

/** @param {AttentionMap} map */
const entropyNote = (map, query) =>
  map.sumsToOne ? [`entropy ${measuredFigure(map, measure(map).entropy[query])} bits`] : [];

/** @param {Explorer} explorer @param {AttentionMap} map */
function describeRow(explorer, map, query) {
  const { quantity } = explorer.view;
  const { most, digits } = wordingOf(map);
  const [top, ...rest] = rankedKeys(map, query, explorer.view.hide);
  const row = bold(tokenName(map.rows[query]));
  if (top === undefined) {
    const none = rankedKeys(map, query).length ? "all columns that this row may attend to are hidden." : "every cell is masked.";
    return { first: [`While ${verb(map)} `, row, `, ${none}`], second: hiddenNote(explorer, map, query) };
  }
  const nameAndValue = (key) => `${tokenName(map.columns[key])} ${mapFigure(map, valueAt(map, query, key), digits)}`;
  const voted = mostHeads(explorer, map, query, top);
  const others = rest.slice(0, voted.length ? 2 : 4).map(nameAndValue);
  const least = rest.at(-1);
  const loses = quantity === CHANGE && least !== undefined && valueAt(map, query, least) < 0 ? [`loses most at ${nameAndValue(least)}`] : [];
  const unchanged = quantity === CHANGE && [top, ...rest].every((key) => Math.abs(valueAt(map, query, key)) < 0.005);
  if (unchanged) {
    const name = headName(explorer.data, explorer.view);
    return { first: [`While ${verb(map)} `, row, `, no weight of ${name} changes by 0.005 or more`], second: [] };
  }
  // Some heads look at the source of the token that is fed, not of the one that is written.
  const fed = map.kind !== "encoder" && explorer.view.unit === "pieces" && query > 0 ? explorer.data.sides.fed.at(query) : null;
  return {
    first: [
      `While ${verb(map)} `,
      row,
      ...(fed ? [" after ", bold(tokenName(fed))] : []),
      `, ${headName(explorer.data, explorer.view)}${most}`,
      bold(tokenName(map.columns[top])),
      " ",
      valueChip(explorer, map, valueAt(map, query, top)),
      ...voted,
    ],
    second: [
      ...unknownNote(map, query, null),
      ...(others.length ? [`next: ${others.join(", ")}`] : []),
      ...hiddenNote(explorer, map, query),
      ...(rankedKeys(map, query).length === 1 ? ["it may attend to nothing else"] : []),
      ...loses,
      ...entropyNote(map, query),
      ...(map.kind === "encoder" || !hasProbabilities(explorer.data) ? [] : [`\u201c${tokenName(map.rows[query])}\u201d has probability ${chance(map.rows[query].probability)}`]),
    ],
  };
}

/* What most heads of the kind look at, if it is not what this one does. */
function mostHeads({ data, view }, map, query, top) {
  const { kind, layer, head } = view;
  const [layers, heads] = [data.layers[kind], data.headsOf[kind]];
  if (view.quantity !== WEIGHTS || layer === layers || head === heads) return [];
  const votes = Array(map.keys).fill(0);
  for (let at = 0; at < layers * heads; at++) {
    const other = mapOf(data, atHead(view, Math.floor(at / heads), at % heads));
    votes[rankedKeys(other, query, view.hide)[0]] += 1;
  }
  const most = votes.indexOf(Math.max(...votes));
  if (most === top || 2 * votes[most] <= layers * heads) return [];
  return [`; ${votes[most]} of ${layers * heads} heads look most at `, bold(tokenName(map.columns[most]))];
}

/* The weight that a row puts on hidden columns. */
function hiddenNote({ view: { hide, quantity } }, map, query) {
  const keys = [...Array(map.keys).keys()].filter((key) => !isMasked(map, query, key) && isHidden(map, key, hide));
  if (!keys.length || isSigned(quantity)) return [];
  return [`hidden: ${keys.length === 1 ? `${tokenName(map.columns[keys[0]])} ` : ""}${summedFigure(map, hiddenMass(map, hide, query), keys.length)}`];
}

/** @param {Explorer} explorer @param {AttentionMap} map */
function describeColumn(explorer, map, key) {
  const { column, digits } = QUANTITIES[explorer.view.quantity];
  const [top, ...rest] = rankedQueries(map, key);
  if (top === undefined) return { first: ["Every cell of this column is masked."], second: [] };
  const nameAndValue = (query) => `${tokenName(map.rows[query])} ${mapFigure(map, valueAt(map, query, key), digits)}`;
  const others = rest.slice(0, 3).map(nameAndValue);
  const received = measure(map).received[key];
  return {
    first: [
      bold(tokenName(map.columns[key])),
      `${column} while ${verb(map)} `,
      bold(tokenName(map.rows[top])),
      " ",
      valueChip(explorer, map, valueAt(map, top, key)),
    ],
    second: [
      ...unknownNote(map, null, key),
      ...(isHidden(map, key, explorer.view.hide) ? ["hidden in the picture"] : []),
      ...(others.length ? [`next: ${others.join(", ")}`] : []),
      map.sumsToOne
        ? `it receives ${percent(received, map.error)} of everything ${headName(explorer.data, explorer.view)} gives`
        : `its mean over the rows that may attend to it is ${fixed(received, digits)}`,
    ],
  };
}

/** @param {AttentionMap} map */
function unknownNote(map, query, key) {
  const shown = [query === null ? null : map.rows[query], key === null ? null : map.columns[key]];
  const unknown = shown.find((token) => token?.unknown);
  return unknown ? [`${tokenName(unknown)} is not in the vocabulary: the model sees <unk>`] : [];
}

/** @param {Explorer} explorer */
export function paintReadout(explorer) {
  const { parts } = explorer.dom;
  const { first, second } = describe(explorer);
  const result = editResult(explorer);
  const described = parts["readout-first"];
  described.replaceChildren(...first);
  if (result) second.splice(0, second.length, described.textContent);
  const { edit } = currentMap(explorer);
  if (result) described.replaceChildren(...result);
  else if (edit?.unused && !explorer.now.preview.note) described.prepend(element("b", "edited", `${capital(edit.title)}: `));
  parts["readout-second"].textContent = second.join(NO_BREAK_DOT);
  parts.unpin.hidden = !isPinned(explorer);
}

/* Announce to screen readers what the keyboard reached or pinned; hovering and playback stay silent. */
export function announce({ dom: { parts } }, ...before) {
  const lines = ["readout-first", "readout-second"].map((part) => parts[part].textContent);
  parts.spoken.textContent = [...before, ...lines].map((line) => line.replace(/\.$/, "")).join(". ");
}
