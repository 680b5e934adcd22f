// Push a state: away from one word of the translation and towards another, by a strength, and in random directions beside it.

import { changedText } from "../shared/changed_text.js";
import { quoted, shortest } from "../shared/csv.js";
import { buttonOf, bold, element, fillSelect } from "../shared/dom.js";
import { percent, fixed } from "../shared/numbers.js";
import { cutLabel, drawDot, drawLevel, drawNote, drawPath, drawText, fontOf, prepareCanvas, roundTicks, sizeCanvas } from "../shared/plot.js";
import { directionOf, displayTokens, tokenName } from "../shared/tokens.js";
import { layerNames } from "./copying.js";
import { saveMenu } from "./saving.js";

/** @param {StatesView} view */
export function showPushing(view) {
  const { parts, data } = view;
  const tokens = displayTokens(data.tokens, 1);
  const ask = (change) => view.ask({ ...chosenOf(data), ...change });
  view.picked = null;
  parts.choices.replaceChildren();
  parts.main.replaceChildren(sentenceButtons(data, tokens, ask), ...(data.push ? [controlsOf(view, ask), curveOf(view), footOf(view)] : []));
  parts.more.replaceChildren(...(data.push ? translationsOf(data) : []));
  parts.say.replaceChildren(...saidPush(data, tokens));
  if (data.push) drawCurve(view);
}

const chosenOf = ({ push }) => ({ position: push?.position ?? 0, layer: push?.layer ?? 0, old: push?.old.id ?? null, new: push?.new.text ?? "", strength: push?.strength ?? null });

/* The tokens as buttons: the pressed one is pushed. */
function sentenceButtons({ push }, tokens, ask) {
  const sentence = element("div", "sentence");
  Object.assign(sentence, { role: "group", ariaLabel: "Token to push", dir: directionOf(tokens) });
  tokens.forEach((token, position) => {
    const button = buttonOf("token", tokenName(token));
    button.setAttribute("aria-pressed", String(position === push?.position));
    button.dataset.at = `token ${position}`;
    // Another token: its words are chosen anew.
    button.addEventListener("click", () => ask({ position, old: null, new: "", strength: null }));
    sentence.append(button);
  });
  return sentence;
}

function controlsOf(view, ask) {
  const { data } = view;
  const { push } = data;
  const bar = element("div", "controls");
  const labelled = (name, control, at) => {
    const label = element("label", "labelled", `${name} `);
    control.dataset.at = at;
    label.append(control);
    bar.append(label);
    return control;
  };
  const less = labelled("less", document.createElement("select"), "old");
  fillSelect(less, data.olds.map(({ id, text }) => [id, text]));
  less.value = push.old.id;
  less.addEventListener("change", () => ask({ old: Number(less.value), strength: null }));
  const more = labelled("more", Object.assign(document.createElement("input"), { value: data.typed ?? push.new.text, autocomplete: "off" }), "new");
  const list = element("datalist", "");
  list.id = "suggested";
  list.append(...data.news.map(({ text }) => Object.assign(document.createElement("option"), { value: text })));
  more.setAttribute("list", list.id);
  more.addEventListener("change", () => ask({ new: more.value.trim(), strength: null }));
  const at = labelled("at", document.createElement("select"), "layer");
  fillSelect(at, layerNames(data.layers).map((name, layer) => [layer, name]));
  at.value = push.layer;
  at.addEventListener("change", () => ask({ layer: Number(at.value), strength: null }));
  const { strengths } = data.curve;
  const slider = labelled("strength", Object.assign(document.createElement("input"), { type: "range", min: 1, max: strengths.length - 1, step: 1 }), "strength");
  const value = element("output", "numbers");
  const show = () => {
    value.textContent = fixed(strengths[view.strength], 0);
    slider.setAttribute("aria-valuetext", strengthInWords(data, view.strength));
  };
  slider.value = String(strengths.indexOf(push.strength));
  view.strength = Number(slider.value);
  show();
  slider.parentElement.classList.add("wide");
  slider.parentElement.append(value);
  slider.addEventListener("input", () => {
    view.strength = Number(slider.value);
    show();
    drawCurve(view);
  });
  slider.addEventListener("change", () => ask({ strength: strengths[view.strength] }));
  bar.append(list);
  return bar;
}

const strengthInWords = ({ curve, push }, at) => `${fixed(curve.strengths[at], 0)}: ${push.old.text} ${percent(curve.old[at])}, ${push.new.text} ${percent(curve.new[at])}`;

/* The translation up to the word is the one without a push, at every strength. */
const titleOf = ({ old, new: to }) => `Probability of ${old.text} and ${to.text} after the unpushed beginning`;

const PLOT = { left: 44, top: 12, foot: 42, height: 270 };

const LABEL = 15; // px, the height of a line's name

function curveOf(view) {
  view.canvas = Object.assign(element("canvas", "curve"), { role: "img" });
  const box = element("div", "curve-box");
  box.append(view.canvas);
  return box;
}

/** @param {StatesView} view */
function footOf(view) {
  const { curve, push } = view.data;
  const foot = element("div", "foot");
  const drawn = () => {
    const width = view.canvas.clientWidth;
    return { width, height: PLOT.height, draw: (context) => paintCurve(context, view, width) };
  };
  const random = curve.random_old.flatMap((_, seed) => [push.old, push.new].map(({ text }) => quoted(`${text}, random ${seed + 1}`)));
  const headings = ["strength", quoted(push.old.text), quoted(push.new.text), ...random];
  const numbersAt = (_, at) => [curve.strengths, curve.old, curve.new, ...curve.random_old.flatMap((line, seed) => [line, curve.random_new[seed]])].map((line) => shortest(line[at]));
  const title = `${titleOf(push)} by strength`;
  foot.append(saveMenu(view, "push", title, drawn, () => [headings, ...curve.strengths.map(numbersAt)]));
  return foot;
}

/** Draw both probabilities against the strength, and pale those of the random directions. @param {StatesView} view */
export function drawCurve(view) {
  const { canvas, data } = view;
  const { push } = data;
  const width = Math.max(260, canvas.parentElement.clientWidth);
  sizeCanvas(canvas, width, PLOT.height);
  paintCurve(prepareCanvas(canvas, width, PLOT.height), view, width);
  canvas.setAttribute("aria-label", `${titleOf(push)} by strength. At ${strengthInWords(data, view.strength)}.`);
}

/** @param {Drawing} context @param {StatesView} view */
function paintCurve(context, { theme, data, strength: chosen }, width) {
  const { curve, push } = data;
  const { left, top, foot, height } = PLOT;
  const last = curve.strengths.at(-1);
  const middle = (lines) => lines.map((line) => line.at(-1)).toSorted((a, b) => a - b)[lines.length >> 1];
  const ends = [
    [middle(curve.random_old), `${push.old.text}, random`, "ink2", 400], [middle(curve.random_new), `${push.new.text}, random`, "wrong", 400],
    [curve.old.at(-1), push.old.text, "ink", 650], [curve.new.at(-1), push.new.text, "wrong", 650],
  ];
  context.font = fontOf(theme, 13, 650);
  const room = Math.min(0.4 * width, Math.max(...ends.map(([, text]) => context.measureText(text).width)) + 2);
  const [across, down] = [width - left - room - 8, height - top - foot];
  const highest = topOf(Math.max(...curve.old, ...curve.new, ...curve.random_old.flat(), ...curve.random_new.flat(), 0.01));
  const x = (strength) => left + (strength / last) * across;
  const y = (share) => top + (1 - share / highest) * down;
  for (const share of roundTicks(0, highest)) drawLevel(context, theme, percent(share), y(share), left, across, 8);
  for (const strength of roundTicks(0, last)) drawNote(context, theme, fixed(strength, 0), x(strength), height - foot + 14, "center");
  drawNote(context, theme, `strength of the push; length of the state itself: ${fixed(push.length, 0)}`, left, height - 10);
  const line = (values) => values.map((share, at) => [x(curve.strengths[at]), y(share)]);
  context.globalAlpha = 0.3;
  drawPath(context, theme.ink3, 1, ...curve.random_old.map(line));
  drawPath(context, theme.wrong, 1, ...curve.random_new.map(line));
  context.globalAlpha = 1;
  drawPath(context, theme.ink3, 1, [[x(curve.strengths[chosen]), top], [x(curve.strengths[chosen]), top + down]]);
  for (const [values, colour] of [[curve.old, theme.ink], [curve.new, theme.wrong]]) {
    drawPath(context, colour, 2.2, line(values));
    drawDot(context, theme, colour, x(curve.strengths[chosen]), y(values[chosen]), 4);
  }
  let least = -Infinity; // labels from top to bottom, one line apart
  ends.toSorted((a, b) => b[0] - a[0]).forEach(([share, text, colour, weight], place) => {
    least = Math.max(Math.min(y(share), top + down + 6 - (ends.length - 1 - place) * LABEL), least + LABEL);
    context.font = fontOf(theme, 13, weight);
    drawText(context, theme, cutLabel(context, text, room), left + across + 8, least, { size: 13, weight, colour });
  });
}

/* The tick at or above the highest share, at most 1. */
function topOf(highest) {
  const [, step] = roundTicks(0, highest);
  return Math.min(1, Math.ceil(highest / step - 1e-9) * step);
}

function translationsOf(data) {
  const { before, after, random, push, curve } = data;
  const at = curve.strengths.indexOf(push.strength);
  const part = (name, text) => {
    const box = element("div", "said-part");
    box.append(element("span", "row-name", name), text);
    return box;
  };
  const flips = curve.random_old.filter((line, seed) => line.some((share, place) => curve.random_new[seed][place] > share)).length;
  const label = percent(Math.max(...curve.random_new.map((line) => line[at])));
  const most = label.startsWith("<") ? label.replace("<", "less than ") : `at most ${label}`;
  return [
    part("not pushed", element("bdi", "text before", before)),
    part(`pushed: ${push.old.text} ${percent(curve.old[at])}, ${push.new.text} ${percent(curve.new[at])}, other words ${percent(Math.max(0, 1 - curve.old[at] - curve.new[at]))} after the unpushed beginning`, changedText(before, after)),
    part("a random direction, same length", random === after ? element("span", "text", `The same ${after === before ? "as not pushed" : "sentence as pushed"}.`) : changedText(before, random)),
    element("p", "note", `Direction: Jacobian lens. Pale: ${curve.random_old.length} random directions of the same length. At strength ${fixed(push.strength, 0)}, ${push.new.text} has ${most} with them; ${flips ? `at some strength, ${flips} of ${curve.random_old.length} ${flips > 1 ? "make" : "makes"} it` : `at no strength does any of ${curve.random_old.length} make it`} more probable than ${push.old.text}.`),
  ];
}

/* The steps between which the new word becomes more probable than the old one, for the first time. */
function saidPush({ push, problem, curve, typed }, tokens) {
  if (problem && (!push || typed !== null)) return [problem];
  const flip = curve.strengths.findIndex((_, at) => curve.new[at] > curve.old[at]);
  const state = ["Push one state of ", element("i", "", tokenName(tokens[push.position])), " away from ", bold(push.old.text), ", towards ", bold(push.new.text), ": "];
  return [...state, ...(flip < 0 ? ["at no strength shown is it"] : flip === 0 ? ["even without a push it is"] : [`between strengths ${curve.strengths.slice(flip - 1, flip + 1).map((strength) => fixed(strength, 0)).join(" and ")} it becomes`]), " more probable than ", bold(push.old.text), "."];
}
