// Copy a state: two grids word × layer, a cell moved from one to the other, and the translation that results.

import { changedText, changesOf } from "../shared/changed_text.js";
import { numbered, quoted, shortest } from "../shared/csv.js";
import { bold, element, segmentOf } from "../shared/dom.js";
import { between, fixed, signed } from "../shared/numbers.js";
import { rampStep, signedStep } from "../shared/theme.js";
import { directionOf, displayTokens, tokenName } from "../shared/tokens.js";
import { focusCell, placeOf, bringIntoView, stateGrid } from "./grid.js";
import { listenToDragging } from "./dragging.js";
import { saveGridsMenu } from "./saving.js";

const WAYS = { restore: "Restore", damage: "Damage" };

const SIDES = { encoder: "Encoder", decoder: "Decoder" };

const ATTENTION_KINDS = { encoder: "encoder", decoder: "decoder self-", cross: "cross-" };

function choiceOf(name, options, chosen, choose) {
  const group = element("div", "segments");
  Object.assign(group, { role: "radiogroup", ariaLabel: name });
  for (const [value, text] of Object.entries(options)) {
    const segment = segmentOf(text, { name, value, checked: value === chosen, onchange: () => choose(value) });
    segment.querySelector("input").dataset.at = `${name} ${value}`;
    group.append(segment);
  }
  return group;
}

/** "embeddings", "layer 1", … @param {number} count of rows */
export const layerNames = (count) => Array.from({ length: count }, (_, layer) => (layer ? `layer ${layer}` : "embeddings"));

/** @param {StatesView} view */
export function showCopying(view) {
  const { parts, data } = view;
  const { way, side } = data;
  view.tokens = { donor: displayTokens(data.donor.tokens, 1), receiver: displayTokens(data.receiver.tokens, 1) };
  const ask = (change) => view.ask({ way, side, copy: "", ...change });
  parts.choices.replaceChildren(
    choiceOf("Direction", WAYS, way, (value) => ask({ way: value })),
    choiceOf("States", SIDES, side, (value) => ask({ side: value })),
  );
  view.drop = (layer, from, to) => ask({ copy: `copy.${side}.${layer}.${to}.${from}` });
  view.picked = null;
  const both = ["donor", "receiver"].map((role) => gridOf(view, role));
  const [upper, lower] = both.map(stateGrid);
  const [status, foot] = [element("p", "note"), element("div", "foot")];
  status.setAttribute("aria-live", "polite");
  Object.assign(view, { grids: { donor: upper.querySelector(".grid"), receiver: lower.querySelector(".grid") }, status });
  foot.append(status, saveGridsMenu(view, `${side}_words`, `States of the ${side}${data.donor.words ? ", read by the Jacobian lens" : ""}`, ["sentence", "layer", "token", "word", "probability"], ...both));
  parts.main.replaceChildren(upper, lower, foot, resultOf(view));
  const { donor, receiver } = view.grids;
  listenToDragging({
    from: donor,
    to: receiver,
    pick: (layer, from) => pickUp(view, { layer, from }),
    put: (layer, to) => dropOn(view, layer, to),
    cancel: () => pickUp(view, null),
  });
  sayPicked(view);
  parts.main.querySelectorAll(".source, .goal").forEach(bringIntoView);
  parts.say.replaceChildren(...sentenceOf(view));
  showPictures(view);
}

/** @param {StatesView} view @returns {StateGrid} */
function gridOf(view, role) {
  const { data, tokens, theme } = view;
  const { name, words } = data[role];
  const after = role === "receiver" ? data.after : null;
  const rows = layerNames(data.layers);
  const cells = rows.map((row, layer) => tokens[role].map((token, n) => {
    const [before] = words?.[layer]?.[n] ?? [""];
    const [text, probability] = (after ?? words)?.[layer]?.[n] ?? ["", 0];
    const isSource = role === "donor" && isAt(data.copy, layer, "from", n);
    const isGoal = role === "receiver" && isAt(data.copy, layer, "to", n);
    const looks = [isSource && "source", isGoal && "goal", after && text !== before && "changed"].filter(Boolean).join(" ");
    const said = words ? `: ${text}, ${fixed(probability, 2)}` : "";
    const shade = isGoal || looks.endsWith("changed") ? { ground: theme.wrong, opacity: 0.13 } : { ground: theme.said, opacity: words ? probability ** 0.7 : 0.4 };
    const line = [quoted(name), layer, numbered(token.label, token.number), quoted(text), words ? probability : ""];
    return { text, looks, label: `${tokenName(token)}, ${row}${said}`, line, ...shade };
  }));
  const same = new Set(data.pairs.filter(([from, to]) => data.donor.tokens[from].id === data.receiver.tokens[to].id).map((pair) => pair[role === "donor" ? 0 : 1]));
  // The decoder's states are paired up to the one that writes the first other word.
  const differs = (n) => !same.has(n) && (data.side === "encoder" || n < data.pairs.length);
  return {
    id: role,
    name: `${name}: states of the ${data.side}. ${role === "donor" ? "Enter picks one to copy." : "Enter puts the picked one here."}`,
    dir: directionOf(tokens[role]),
    corner: name,
    rows,
    columns: tokens[role].map((token, n) => ({ text: tokenName(token), strong: differs(n) })),
    cells,
    rest: data.copy?.layer === undefined || data.copy.head !== undefined ? [0, 0] : [data.copy.layer, role === "donor" ? data.copy.from : data.copy.to],
    press: (layer, n, byKey) => (role === "donor" ? pick(view, layer, n, byKey) : dropOn(view, layer, n)),
  };
}

/* A reason as a sentence of its own. */
const sentence = (text = "") => text && `${text[0].toUpperCase()}${text.slice(1).replace(/\.$/, "")}.`;

const isAt = (copy, layer, end, n) => Boolean(copy) && copy.head === undefined && copy.layer === layer && copy[end] === n;

/** Pick a cell of the upper grid, or put it back. A key also goes to where it would be dropped. @param {StatesView} view */
function pick(view, layer, from, byKey) {
  const again = view.picked && view.picked.layer === layer && view.picked.from === from;
  pickUp(view, again ? null : { layer, from });
  if (byKey && view.picked) focusCell(view.grids.receiver, layer, pairOf(view, from) ?? 0);
}

function pickUp(view, picked) {
  view.picked = picked;
  sayPicked(view);
}

const pairOf = ({ data }, from) => data.pairs.find(([one]) => one === from)?.[1];

/* A state stays in its layer: only the column of the place counts. Without a picked cell, the paired one is copied. */
function dropOn(view, layer, to) {
  const from = view.data.pairs.find(([, other]) => other === to)?.[0];
  const { picked } = view;
  pickUp(view, null);
  if (picked) view.drop(picked.layer, picked.from, to);
  else if (from !== undefined) view.drop(layer, from, to);
  else view.status.textContent = `No token of ${view.data.donor.name} belongs to this one: pick a cell above first.`;
}

/** Escape puts a picked cell back. @param {StatesView} view */
export function cancel(view) {
  if (!view.picked) return false;
  const { layer, from } = view.picked;
  pickUp(view, null);
  focusCell(view.grids.donor, layer, from);
  return true;
}

/** @param {StatesView} view */
function sayPicked(view) {
  const { data, picked, status, tokens, grids } = view;
  for (const cell of grids.donor.querySelectorAll(".cell")) {
    const [layer, n] = placeOf(cell);
    const isPicked = picked?.layer === layer && picked.from === n;
    cell.classList.toggle("picked", isPicked);
    cell.setAttribute("aria-selected", String(isPicked));
  }
  grids.receiver.dataset.open = picked ? String(picked.layer) : "";
  for (const cell of grids.receiver.querySelectorAll(".cell")) cell.classList.toggle("open", placeOf(cell)[0] === picked?.layer);
  const columns = data.side === "decoder" ? " Each state writes the word at the head of its column." : "";
  const lens = data.donor.words ? "The words are the Jacobian lens\u2019s." : "This network has no lens to read its states.";
  status.textContent = picked
    ? `Picked ${tokenName(tokens.donor[picked.from])}, ${layerNames(data.layers)[picked.layer]}: choose its place in ${data.receiver.name}. Escape cancels.`
    : `Drag a cell down, or press Enter on it and again where it goes.${columns} ${lens}`;
}

/** The parts of "<b>dog</b> becomes <b>boy</b>" for each change, and what is left. */
function saidChanges(before, after) {
  const changes = changesOf(before, after);
  if (!changes.length) return ["the translation stays the same."];
  const shown = changes.slice(0, 2).flatMap(({ old, now }, place) => [
    place ? "; " : "",
    ...(old && now ? [bold(old), " becomes ", bold(now)] : old ? [bold(old), " is left out"] : [bold(now), " is added"]),
  ]);
  const rest = changes.length - 2;
  return [...shown, changes.length === 1 ? ", and nothing else changes." : rest > 0 ? `, and ${rest} more ${rest === 1 ? "place changes" : "places change"}.` : "."];
}

function sentenceOf({ data, tokens }) {
  const { copy, side, donor, receiver, after_text: after } = data;
  if (!copy || after === null) return [data.problem ? sentence(data.problem) : `Copy a state of ${donor.name} into ${receiver.name}.`];
  const what = copy.head === undefined
    ? [`one state ${side === "encoder" ? "of" : "that writes"} `, element("i", "", tokenName(tokens.donor[copy.from]))]
    : [`the output of ${ATTENTION_KINDS[copy.kind]}attention head ${copy.layer + 1}.${copy.head + 1}`];
  return ["Copy ", ...what, ` from ${donor.name} into ${receiver.name}: `, ...saidChanges(receiver.translation, after)];
}

function resultOf({ data }) {
  const { receiver, measure, after_text: after } = data;
  const box = element("div", "result");
  const line = (name, text, looks = "") => {
    const row = element("div", `said ${looks}`);
    row.append(element("span", "row-name", name), text);
    box.append(row);
  };
  line(`${receiver.name} before`, element("bdi", "text before", receiver.translation));
  if (after !== null) line(`${receiver.name} with ${data.copy.head === undefined ? "the cell" : "the head"}`, changedText(receiver.translation, after), "now");
  if (measure) line(data.way === "restore" ? "restored" : "lost", meterOf(data));
  return box;
}

const LEAST_APART = 2; // nats

function meterOf(data) {
  const { measure: { share, own, other, before, now, goal }, donor: { name: A }, receiver: { name: B } } = data;
  const box = element("div", "measure");
  const row = element("div", "meter-row");
  if (share === null) row.append(element("span", "", "not defined"));
  else {
    const meter = element("span", share < 0 ? "meter less" : "meter");
    const filled = element("i");
    filled.style.width = `${100 * between(0, Math.abs(share), 1)}%`;
    meter.append(filled);
    row.append(meter, element("b", "numbers", fixed(share, 2)));
  }
  const nats = (value) => signed(value, 2), known = certainCopy(data);
  const certain = isAt(data.copy, known?.layer, "to", known?.to) && data.copy.from === known.from ? ` 1 by construction: ${known.why}.` : "";
  const note = element("p", "note numbers");
  note.append("Logit of ", element("i", "", other), " minus that of ", element("i", "", own), `, where the translations first differ: ${B} ${nats(before)}, with the copy ${nats(now)}, ${A} ${nats(goal)} nats.`);
  box.append(row, note);
  if (share === null) note.append(` ${A} and ${B} are less than 0.5 nats apart.`);
  else box.append(element("p", "note numbers", `(copy \u2212 ${B}) / (${A} \u2212 ${B}) = ${nats(now - before)} / ${nats(goal - before)}.${certain}${beyond(share, A)}${doubt(data)}`));
  return box;
}

const beyond = (share, A) => (share > 1.005 ? ` Above 1: it overshoots ${A}.` : share < -0.005 ? ` Below 0: it moves away from ${A}.` : "");

/* Shares of a small difference depend on little. */
const doubt = ({ measure, donor, receiver }) =>
  measure && Math.abs(measure.goal - measure.before) < LEAST_APART ? ` ${donor.name} and ${receiver.name} are less than ${LEAST_APART} nats apart: shares are uncertain.` : "";

/** Both pictures, once their numbers have come: each cell's share, and each head's. @param {StatesView} view */
export function showPictures(view) {
  const { parts, data, pictures } = view;
  const known = pictures?.about === data.about ? pictures : null;
  const waiting = element("p", "note", known ? sentence(known.problem) : "Patching every cell and every head\u2026");
  if (!known || known.problem) return void parts.more.replaceChildren(waiting);
  const layers = layerNames(data.layers);
  const made = [...cellPicture(view, known.cells, layers), element("p", "note", cellsInWords(view, known.cells, layers) + doubt(data))];
  for (const [kind, shares] of Object.entries(known.heads)) made.push(...headPicture(view, kind, shares));
  parts.more.replaceChildren(...made);
  parts.more.querySelectorAll(".goal").forEach(bringIntoView);
}

/* A heading with the save menu of its grid, and the grid. */
function titled(view, name, title, headings, grid) {
  const head = element("div", "head");
  head.append(element("h3", "", title), saveGridsMenu(view, name, `${title}: share of the difference that its copy ${verbOf(view.data)}`, headings, grid));
  return [head, stateGrid(grid)];
}

const LEAST_SHARE = 0.005; // smaller ones are shown as 0

const shareCell = ({ theme }, given, label, looks) => {
  const share = Math.abs(given) < LEAST_SHARE ? 0 : given;
  const table = share < 0 ? theme.signed : theme.ramp;
  const step = share < 0 ? signedStep(share) : rampStep(share);
  const text = fixed(share, 2).replace(/^(.?)0\./, "$1.").replace(/\.00$/, "").replace(/^\u2212?$/, "0");
  return { text, label, looks, ground: table.css[step], ink: table.ink[step] };
};

function cellPicture(view, shares, layers) {
  const { data, tokens } = view;
  const paired = new Map(data.pairs.map(([from, to]) => [to, from]));
  const cells = shares.map((row, layer) => row.map((share, to) => {
    const label = `${tokenName(tokens.receiver[to])}, ${layers[layer]}: ${share === null ? "no counterpart" : fixed(share, 2)}`;
    const line = [layer, numbered(tokens.receiver[to].label, tokens.receiver[to].number), share === null ? "" : shortest(share)];
    if (share === null) return { text: "", label, looks: "none", line };
    const cell = shareCell(view, share, label, isAt(data.copy, layer, "to", to) ? "goal" : "");
    return { ...cell, line, text: Math.abs(share) < 0.05 ? "" : cell.text }; // the cells are narrow
  }));
  return titled(view, `${data.side}_cells`, "Every cell", ["layer", "token", "share"], {
    id: "cells", name: "Share of every cell. Enter copies it.", dir: directionOf(tokens.receiver), rows: layers,
    columns: shares[0].map((_, to) => ({ text: tokenName(tokens.receiver[to]) })), cells,
    press: (layer, to) => paired.has(to) && view.drop(layer, paired.get(to), to),
  });
}

/*
 * The cell whose copy is the whole difference by construction, and why; null if there is none. The decoder's last state becomes
 * the word, and a source's only other embedding makes it the other source.
 */
function certainCopy({ side, layers, pairs, donor, receiver }) {
  const other = pairs.filter(([from, to]) => donor.tokens[from].id !== receiver.tokens[to].id), [[from, to] = []] = other;
  if (side === "decoder") return { layer: layers - 1, from, to, why: "only the last state becomes the word" };
  return other.length === 1 && donor.tokens.length === receiver.tokens.length ? { layer: 0, from, to, why: "no other token differs" } : null;
}

/* Which columns carry at least half of the difference in some layer; computed, as networks differ. */
function cellsInWords({ tokens, data }, shares, layers) {
  const certain = certainCopy(data), verb = verbOf(data), { receiver } = tokens;
  const first = certain ? `By construction, ${tokenName(receiver[certain.to])} (${layers[certain.layer]}) ${verb} 1: ${certain.why}. ` : "";
  const open = shares.map((row, layer) => row.map((share, to) => (isAt(certain, layer, "to", to) ? 0 : share ?? 0)));
  const most = open[0].map((_, to) => Math.max(...open.map((row) => row[to])));
  const carrying = receiver.filter((_, to) => most[to] >= 0.5);
  const rest = Math.max(0, ...most.filter((share) => share < 0.5));
  if (!carrying.length) return `${first}No ${certain ? "other" : "single"} cell ${verb} ${rest < LEAST_SHARE ? "anything measurable" : `half of it; the best ${verb} ${fixed(rest, 2)}`}.`;
  const every = carrying.length === 1 && shares.every((row) => (row[receiver.indexOf(carrying[0])] ?? 0) >= 0.5);
  const others = rest < LEAST_SHARE ? "nothing measurable" : `at most ${fixed(rest, 2)}`;
  return `${first}${carrying.map(tokenName).join(", ")} ${carrying.length > 1 ? "carry" : "carries"} it${every ? ` in ${layers.length > 1 ? "every layer" : layers[0]}` : ""}. All other columns: ${others}.`;
}

const verbOf = ({ way }) => (way === "restore" ? "restores" : "takes away");

function headPicture(view, kind, shares) {
  const { data } = view;
  const cells = shares.map((row, layer) => row.map((share, head) => {
    const isGoal = data.copy?.head === head && data.copy.layer === layer && data.copy.kind === kind;
    const cell = shareCell(view, share, `head ${layer + 1}.${head + 1}: ${fixed(share, 2)}`, isGoal ? "goal" : "");
    return { ...cell, line: [kind, layer + 1, head + 1, shortest(share)] };
  }));
  const [best] = shares.flatMap((row, layer) => row.map((share, head) => ({ share, name: `${layer + 1}.${head + 1}` }))).toSorted((a, b) => b.share - a.share);
  const [heading, grid] = titled(view, `${kind}_heads`, `Every ${kind} head`, ["kind", "layer", "head", "share"], {
    id: `heads-${kind}`, name: `Share of every ${kind} head. Enter copies its output.`, dir: "ltr", rows: layerNames(shares.length + 1).slice(1),
    columns: shares[0].map((_, head) => ({ text: head ? String(head + 1) : "head 1" })), cells,
    press: (layer, head) => view.ask({ way: data.way, side: data.side, copy: `copyhead.${kind}.${layer}.${head}` }),
  });
  grid.classList.add("heads");
  return [heading, grid, element("p", "note", best.share < LEAST_SHARE ? `No head ${verbOf(data)} anything measurable.` : `The best, ${best.name}, ${verbOf(data)} ${fixed(best.share, 2)}.`)];
}
