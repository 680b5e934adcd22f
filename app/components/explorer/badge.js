// The first line: what the shown numbers are, and the badge that says whether they passed their checks, with the list.

import { bold, element, svgElement } from "../shared/dom.js";
import { figureText, fixed, signed } from "../shared/numbers.js";
import { showsChange } from "./edited_target.js";
import { WEIGHTS } from "./maps.js";
import { openPanel, showPanel } from "./panels.js";
import { capital, derivation, lookingWords, QUANTITY_TITLES } from "./words.js";

const MARKS = { holds: "M1.5 6.5l3 3 6-7", fails: "M2 2l8 8M10 2l-8 8" };

/* What replaces the badge when no checks were made here. */
const WITHOUT_CHECKS = { pending: "checking\u2026", elsewhere: "saved maps: not checked here", never: "what-if, not checked" };

/* Screen readers announce a mark with a `name`. A mark without one decorates a text that says the same. */
function checkMark(passed, name) {
  const spoken = name ? { role: "img", "aria-label": name } : { "aria-hidden": "true" };
  const mark = svgElement("svg", { viewBox: "0 0 12 12", width: 12, height: 12, ...spoken });
  mark.append(svgElement("path", { d: passed ? MARKS.holds : MARKS.fails }));
  return mark;
}

function checkLine({ name, passed, figure, limit, words }) {
  const line = element("li", passed ? "" : "failed");
  const mark = checkMark(passed, passed ? "Passed:" : "Failed:");
  line.append(mark, element("span", "name", name), element("span", "figure numbers", figureText(figure)));
  line.append(element("span", "words", words), element("span", "limit numbers", `limit ${figureText(limit)}`));
  return line;
}

function dashLine(name, words) {
  const line = element("li", "unchecked");
  line.append(element("span", "", "\u2013"), element("span", "name", name), element("span", "words", words));
  return line;
}

const uncheckedLine = (name) => dashLine(name, "Needs the weights, which did not come with these maps.");

/* Lists the comparisons made on import, then the claims that neither they nor the record's checks verify. */
function importLines({ source, family, credit, compared, not_proven: notProven }) {
  const heading = element("li", "heading");
  const none = compared.length ? "" : " Nothing was compared with the original.";
  heading.append(element("span", "name", "On import"), element("span", "words", `${source} (${family}), ${credit}.${none}`));
  const lines = compared.map(({ what, passed, max_abs_diff: figure, limit }) =>
    checkLine({ name: what, passed, figure, limit, words: "largest difference from the original network" }),
  );
  return [heading, ...lines, ...notProven.map((sentence) => dashLine("Not verified", sentence))];
}

/**
 * Return the words that replace the badge, or null if the checks cover the view: if it shows the record's own weights.
 * @param {Explorer} explorer
 */
function verdictOf(explorer) {
  const { data } = explorer;
  const { quantity } = explorer.view;
  if (data.checked !== "here") return WITHOUT_CHECKS[data.checked];
  const derived = derivation(explorer.data, explorer.view) !== null;
  if (quantity === WEIGHTS && !derived) return null;
  if (data.checks.some(({ passed }) => !passed)) return "the weights failed a check";
  return derived ? "derived, not checked" : "not checked";
}

/** Fill the badge and its list. @param {Explorer} explorer */
export function buildBadge(explorer) {
  const { data } = explorer;
  const { root, parts } = explorer.dom;
  const held = data.checks.filter(({ passed }) => passed).length;
  const allPassed = held === data.checks.length;
  root.dataset.checks = data.checked === "here" ? `${held}/${data.checks.length}` : "";
  parts.badge.classList.toggle("failed", !allPassed);
  const more = data.unchecked.length ? `, ${data.unchecked.length} ${data.unchecked.length === 1 ? "needs" : "need"} the weights` : "";
  parts.badge.replaceChildren(checkMark(allPassed), `Pictures checked: ${held} of ${data.checks.length}${more}`);
  parts.checks.replaceChildren(...data.checks.map(checkLine), ...data.unchecked.map(uncheckedLine), ...(data.imported ? importLines(data.imported) : []));
}

/* The check that recomputes every weight. The offline page and maps from other tools do without it. */
const RECOMPUTED = "Recomputed outside the model";

/**
 * What the shown numbers are, as a bold start and the rest. It claims no more than the record's checks show.
 * @param {Explorer} explorer
 * @returns {[string, string]}
 */
function claimOf({ data, view }) {
  const { quantity } = view;
  const pass = data.givenTarget ? "pass" : "translation";
  const failed = data.checks.filter(({ passed }) => !passed).length;
  if (failed) return ["Do not trust these pictures.", ` ${failed} of ${data.checks.length} checks failed.`];
  if (data.unchecked.length) return ["Maps from another tool.", " They came without the weights: no probabilities, scores, norms or edits, and nothing was recomputed."];
  if (data.checked === "elsewhere") return ["Saved maps.", " They were not recomputed here."];
  if (data.checked === "never") return ["Maps of an edited pass.", " They were not recomputed here."];
  if (data.whatIf?.edits.length) return [editsClaim(data.whatIf), sumClaim(data)];
  const recomputed = data.checks.find(({ name }) => name === RECOMPUTED);
  const bias = recomputed?.words.includes("bias by distance") ? ", bias by distance" : "";
  const how = recomputed ? `, recomputed from Q, K${bias} and mask` : "";
  const derived = derivation(data, view);
  if (quantity === WEIGHTS) {
    const look = lookingWords(data)[view.kind].replace(" looks", " words look");
    return [`${capital(look)} words: choose one.`, derived ? " Derived from the real weights of this pass." : ` Real weights${how}.`];
  }
  return [`${capital(QUANTITY_TITLES[quantity])}.`, ` Computed from the tensors of this ${pass}.`];
}

const editsClaim = ({ edits }) => `${edits.length === 1 ? "One edit" : `${edits.length} edits`}: ${edits.map(({ label }) => label).join("; ")}.`;

/* Both sums, and what the tokens without a number below the translation add: the numbers alone would not add up. */
function sumClaim({ whatIf: { before, change }, sides }) {
  if (!change) return "";
  const sum = (numbers) => numbers.reduce((total, nats) => total + nats, 0);
  const unshown = sum(change.filter((nats, token) => !showsChange(sides.produced[token], nats)));
  const rest = signed(unshown, 1);
  const note = Number(fixed(Math.abs(unshown), 1)) ? ` (of the change, ${rest} is too small to show)` : "";
  return ` Log-probability of the first translation: ${fixed(before, 1)} \u2192 ${fixed(before + sum(change), 1)}${note}.`;
}

/** Update the first line for the current view. @param {Explorer} explorer */
export function paintBadge(explorer) {
  const { data } = explorer;
  const { parts } = explorer.dom;
  const [start, rest] = claimOf(explorer);
  parts.claim.replaceChildren(bold(start), rest);
  const words = verdictOf(explorer);
  parts.badge.hidden = data.checks.length === 0 || words !== null;
  parts["not-checked"].textContent = data.checks.length || data.checked !== "here" ? (words ?? "") : "";
  parts["not-checked"].classList.toggle("failed", data.checks.some(({ passed }) => !passed));
  if (parts.badge.hidden && openPanel(explorer) === "checks") showPanel(explorer, null);
}
