// Builds the lanes of the timeline for a view, each with curves, scale, levels and marks.

import { fixed, percent } from "../shared/numbers.js";
import { displayTokens, tokenName } from "../shared/tokens.js";
import { cellCurve, curveOf, headsOf, meanCurve } from "./run.js";

export const KIND_NAMES = { encoder: "encoder", decoder: "decoder", cross: "cross-attention" };

export const nameOfHead = ({ layer, head }) => `${layer + 1}.${head + 1}`;

/* What most lanes have in common; a lane states the rest. */
const PLAIN = { unit: "", others: [], ofHead: false, chance: null, level: null, marks: [], logarithmic: false, aside: "" };

const OF_SHARES = { ...PLAIN, low: 0, high: 1, ticks: ticksAt([0, 0.5, 1], percent), shown: (value) => percent(value) };

/** @param {number[]} values @param {(value: number) => string} textOf */
function ticksAt(values, textOf = (value) => String(value)) {
  return values.map((value) => ({ value, text: textOf(value) }));
}

/** Name of the heads behind a view. @param {Run} run @param {Link} view */
export function viewName(run, view) {
  const heads = headsOf(run, view);
  if (heads.length === 1) return `head ${nameOfHead({ layer: heads[0][0], head: heads[0][1] })}`;
  return `mean of ${heads.length} heads`;
}

/** @param {Run} run @returns {Lane[]} */
const curvesOfRun = ({ loss, quality, compared }) => [
  {
    ...PLAIN,
    title: "loss",
    meaning: "Cross-entropy per target token on the validation sample, in nats; logarithmic scale.",
    unit: compared ? " nats" : " nats per token", // as there is little room
    curve: loss,
    others: compared ? [compared.loss] : [],
    logarithmic: true,
    low: Math.min(...loss, ...(compared?.loss ?? [])) * 0.9,
    high: Math.max(...loss, ...(compared?.loss ?? [])) * 1.1,
    ticks: ticksAt(Math.max(...loss) > 30 * Math.min(...loss, ...(compared?.loss ?? [])) ? [0.0001, 0.001, 0.01, 0.1, 1, 10] : [0.1, 0.2, 0.5, 1, 2, 5, 10]),
    shown: (value) => (value < 0.01 ? value.toPrecision(1) : fixed(value, 2)),
    aside: compared ? `thin: ${compared.name}` : "log scale",
  },
  {
    ...(quality.share ? OF_SHARES : { ...PLAIN, low: 0, high: Math.max(10, ...quality.values) * 1.1, ticks: ticksAt([0, 20, 40, 60, 80, 100]), shown: (value) => fixed(value, 1) }),
    title: quality.title,
    meaning: quality.meaning,
    curve: quality.values,
    others: compared ? [compared.quality] : [],
  },
];

const byChance = ({ name, chance }, words) => (name === "entropy" || chance === null ? "" : words + percent(chance));

/** @param {Run} run @param {Link} view @returns {Lane[]} */
function curvesOfHeads(run, view) {
  const kind = /** @type {Kind} */ (view.kind);
  const shown = headsOf(run, view);
  const all = headsOf(run, { kind });
  return run.measures[kind].map((measure) => ({
    ...OF_SHARES,
    title: measure.short,
    meaning: `${measure.meaning[0].toUpperCase()}${measure.meaning.slice(1)}, averaged over the sentences${byChance(measure, "; by chance ")}.`,
    curve: meanCurve(run, kind, measure, shown),
    others: all.map((head) => curveOf(run, kind, measure, head)),
    ofHead: true,
    chance: measure.name === "entropy" ? null : measure.chance,
    level: shown.length === 1 && measure.level ? measure.level[shown[0][0]][shown[0][1]] : null,
    marks: run.marks
      .filter((mark) => mark.kind === kind && mark.measure === measure.name)
      .map((mark) => ({ ...mark, value: curveOf(run, kind, measure, [mark.layer, mark.head])[mark.point] })),
    aside: byChance(measure, "chance "),
  }));
}

/** The weight of the pinned cell. @param {Run} run @param {Link} view @returns {Lane} */
function curveOfCell(run, sentence, view) {
  const pinned = view.q !== null && view.q !== undefined && view.k !== null && view.k !== undefined;
  const merged = String(view.words ?? "") === "1";
  const [query, key] = [Number(view.q), Number(view.k)];
  const curve = pinned && !merged ? cellCurve(run, sentence, view, query, key) : null;
  return {
    ...OF_SHARES,
    title: "pinned weight",
    meaning: "The attention weight of the cell that is pinned in the map.",
    curve,
    aside: curve ? cellName(run, sentence, view, query, key) : "",
    empty: merged && pinned
      ? "For one weight, choose Tokens."
      : "Click a cell to follow its weight.",
  };
}

/** @param {Run} run @param {Link} view */
function cellName(run, sentence, view, query, key) {
  const { kind } = view;
  const { source, target_in, target_out } = run.sentences[sentence];
  const rows = displayTokens(kind === "encoder" ? source : target_out, 1);
  const columns = displayTokens(kind === "decoder" ? target_in : source, kind === "decoder" ? 0 : 1);
  return `${tokenName(rows[query])} \u2192 ${tokenName(columns[key])}`;
}

/** @param {Run} run @param {Link} view @returns {Lane[]} */
export const lanesOf = (run, sentence, view) => [...curvesOfRun(run), ...curvesOfHeads(run, view), curveOfCell(run, sentence, view)];
