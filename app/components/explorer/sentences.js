// Builds the two sentence rows and shades their tokens by the focused row or column.

import { barOf, buttonOf, element } from "../shared/dom.js";
import { chance, fixed, signed } from "../shared/numbers.js";
import { directionOf, isolated } from "../shared/tokens.js";
import { hasProbabilities } from "./data.js";
import { currentMap, focusOf, tokensOfKey, tokensOfQuery } from "./focus.js";
import { isMasked, rampOf, shadeOf, valueAt } from "./maps.js";
import { explain } from "./help.js";
import { isHidden } from "./measures.js";

/* The target's first token where the network did not choose it: its language's, or <s>. @param {Readonly<RecordData>} data */
export function forcedToken(data) {
  const [first] = data.sides.produced;
  const named = first.label === "<s>" || !first.label.startsWith("<");
  return hasProbabilities(data) && first.special && named ? first : null;
}

const EXPLAINED_TOKENS = { "<bos>": "bos", "<eos>": "eos" };

/** @param {Explorer} explorer */
export function buildSentences(explorer) {
  const { data } = explorer;
  const { parts } = explorer.dom;
  parts["source-language"].textContent = data.sourceLanguage;
  parts["target-language"].textContent = data.targetLanguage;
  const count = (side) => `${data.sides[side].length} ${data.sides[side].length === 1 ? "token" : "tokens"}`;
  const written = `${count("produced")}${data.givenTarget ? " are given" : ", one per step"}`;
  parts["source-note"].textContent = `The encoder reads ${count("source")}; ${data.givenTarget ? "" : "the decoder writes "}${written}.`;
  const forced = forcedToken(data);
  const usual = forced ? `${isolated(forced.label)} is forced, not chosen by the model` : "";
  const given = data.whatIf?.change ? "before" : data.givenTarget ? "given, not written by the model" : usual;
  parts["target-note"].textContent = data.unchecked.length ? data.search : given;
  parts["target-language"].title = hasProbabilities(data) ? "The line under a token is its probability." : "";
  const { change } = data.whatIf ?? {};
  const how = change ? `${signed(change.reduce((total, nats) => total + nats, 0))} from the edits` : data.search;
  parts.score.textContent = hasProbabilities(data) ? `Log-probability ${fixed(data.logProb, 2)}, ${how}.` : "";
  explorer.dom.words = {
    source: buildRow(explorer, parts.source, data.sides.source, false),
    target: buildRow(explorer, parts.target, data.sides.target, true),
  };
  parts.source.setAttribute("aria-label", `${data.sourceLanguage} tokens. Left and right arrows move.`);
  parts.target.setAttribute("aria-label", `${data.targetLanguage} tokens. Left and right arrows move.`);
}

function buildRow(explorer, host, tokens, isTarget) {
  host.replaceChildren();
  host.dir = directionOf(tokens);
  let phrase = null;
  let word = null;
  return tokens.map((token, index) => {
    if (token.startsWord) {
      // A comma stays on the line of its word.
      if (!token.close) phrase = host.appendChild(element("span", "phrase"));
      word = phrase.appendChild(element("span", token.close ? "word close" : "word"));
    } else {
      word.classList.add("multi");
    }
    const button = buildToken(token);
    if (token.special && token.label in EXPLAINED_TOKENS) explain(explorer, button, EXPLAINED_TOKENS[token.label]);
    button.dataset.index = index;
    button.tabIndex = index === 0 ? 0 : -1;
    const forced = isTarget && token === forcedToken(explorer.data);
    if (forced) button.title = `Every translation begins with it. The model gave it a probability of ${chance(token.probability)}.`;
    if (isTarget && index > 0 && !forced && hasProbabilities(explorer.data)) button.append(barOf("probability", token.probability));
    button.setAttribute("aria-label", spokenToken(explorer.data, token, index, tokens.length, isTarget));
    const column = word.appendChild(element("span", "column"));
    column.append(button, element("span", "cells"));
    return { button, shown: "" };
  });
}

function buildToken(token) {
  const button = buttonOf(token.special ? "token special" : "token");
  const form = element("bdi", `form${token.unknown ? " unknown" : ""}${token.blank ? " blank" : ""}`);
  for (const [words, hidden] of token.parts) form.append(hidden ? element("span", "hidden-mark", words) : words);
  button.append(form);
  if (token.repeated) button.append(element("sub", "numbers", token.number));
  if (token.unknown) button.title = "not in the vocabulary: the model sees <unk>";
  return button;
}

function spokenToken(data, token, index, count, isTarget) {
  const name = `${isolated(token.label)}${token.unknown ? ", not in the vocabulary" : ""}`;
  if (!isTarget) return `${name}, token ${index + 1} of ${count}`;
  if (index === 0) return `${name}, fed in first`;
  if (token === forcedToken(data)) return `${name}, step ${index}, forced, not chosen by the model`;
  return `${name}, step ${index}${hasProbabilities(data) ? `, probability ${chance(token.probability)}` : ""}`;
}

/**
 * Choose the largest font size at which each sentence fits on one line, else the smallest. Each size is measured, so equal
 * words keep theirs until their states are read, whose cells widen them.
 * @param {Explorer} explorer
 */
export function fitSentences(explorer) {
  const { data, layout, view } = explorer;
  const { root, words } = explorer.dom;
  const labels = [...data.sides.source, ...data.sides.target].map(({ label }) => label);
  const fitted = [layout.size, document.fonts.status, view.states, ...labels].join();
  if (fitted === layout.fitted && !data.lens) return;
  layout.fitted = fitted;
  const sizes = { narrow: [18], medium: [22, 20, 18, 17], large: [22, 20, 18], wide: [24, 22, 20, 18] };
  const candidates = sizes[root.dataset.width];
  const set = (size) => root.style.setProperty("--sentence-size", `${size}px`);
  const bottomOf = ({ button }) => button.getBoundingClientRect().bottom;
  const onOneLine = (row) => Math.abs(bottomOf(row[0]) - bottomOf(row[row.length - 1])) < 8;
  const fits = () => onOneLine(words.source) && onOneLine(words.target);
  // Another size restyles and reflows the whole explorer: first try the one that short sentences leave.
  if (root.style.getPropertyValue("--sentence-size") === `${candidates[0]}px` && fits()) return;
  set(candidates[candidates.length - 1]);
  if (candidates.length === 1 || !fits()) return;
  for (const size of candidates) {
    set(size);
    if (fits()) return;
  }
}

/* Style one token, only if its style changed. */
function styleToken(word, { shade, mark, masked, pinned }, { ramp, diverging }) {
  const step = shade ?? -1;
  const shown = `${step}${mark}${masked}${pinned}${diverging}`;
  if (word.shown === shown) return;
  word.shown = shown;
  const { button } = word;
  button.classList.toggle("shaded", step >= 0);
  button.style.background = step >= 0 ? ramp.css[step] : "";
  button.style.color = step >= 0 ? ramp.ink[step] : "";
  button.classList.toggle("looked-at", mark === "looked-at");
  button.classList.toggle("pinned", mark === "pinned");
  button.classList.toggle("pinned-behind", mark === "pinned-behind");
  button.classList.toggle("masked", masked);
  button.setAttribute("aria-pressed", pinned);
}

/** @param {Explorer} explorer */
export function paintSentences(explorer) {
  const { theme } = explorer;
  const { words } = explorer.dom;
  const looks = tokenStyles(explorer);
  const map = currentMap(explorer);
  const colours = { ramp: rampOf(theme, map), diverging: map.signed };
  for (const side of ["source", "target"]) {
    words[side].forEach((word, index) => {
      styleToken(word, looks[side][index], colours);
    });
  }
}

/** Style of every token in both rows: colour step, mark, masked, pinned. @param {Explorer} explorer */
function tokenStyles(explorer) {
  const { pinned, kind, hide } = explorer.view;
  const { words } = explorer.dom;
  const map = currentMap(explorer);
  const focus = focusOf(explorer);
  const looks = {};
  for (const side of ["source", "target"]) {
    looks[side] = words[side].map(() => ({ shade: null, mark: "", masked: false, pinned: false }));
  }
  const put = (places, change) => places.forEach(({ side, index }) => Object.assign(looks[side][index], change));
  if (focus.query !== null) {
    // Grey out everything that a decoder step cannot see, except the token it produces.
    const produced = map.rows[focus.query].members;
    const last = produced[produced.length - 1];
    if (kind === "decoder") looks.target.forEach((look, index) => Object.assign(look, { masked: index > last + 1 }));
    for (let key = 0; key < map.keys; key++) {
      if (isMasked(map, focus.query, key)) {
        if (kind !== "decoder") put(tokensOfKey(map, key), { masked: true });
      } else if (!isHidden(map, key, hide)) {
        put(tokensOfKey(map, key), { shade: shadeOf(map, valueAt(map, focus.query, key)) });
      }
    }
  } else if (focus.key !== null) {
    for (let query = 0; query < map.queries; query++) {
      if (isMasked(map, query, focus.key)) continue;
      put(tokensOfQuery(map, query), { shade: shadeOf(map, valueAt(map, query, focus.key)) });
    }
  }
  if (explorer.now.stepping) {
    looks.target.forEach((look, index) => Object.assign(look, { masked: look.masked || index > explorer.now.step + 1 }));
  }
  const placesOf = (query, key) => [
    ...(query === null ? [] : tokensOfQuery(map, query)),
    ...(key === null ? [] : tokensOfKey(map, key)),
  ];
  const mark = (query, key, name) => {
    for (const { side, index } of placesOf(query, key)) looks[side][index].mark ||= name;
  };
  put(placesOf(pinned.query, pinned.key), { pinned: true });
  mark(focus.query, focus.key, focus.previewed ? "looked-at" : "pinned");
  if (focus.previewed) mark(pinned.query, pinned.key, "pinned-behind");
  return looks;
}

/** Force restyling of all tokens after a change of theme or scale. @param {Explorer} explorer */
export function resetTokenStyles(explorer) {
  for (const side of ["source", "target"]) for (const word of explorer.dom.words[side]) word.shown = "";
}
