// Draws the pruning curves: loss or BLEU against the number of heads removed, least needed first.

import { fixed } from "../shared/numbers.js";
import { drawFrame, drawLevel, drawNote, drawOnGround, drawPath, roundTicks } from "../shared/plot.js";
import { headsOfKind } from "./data.js";

const EDGE_OF_CURVES = { left: 52, right: 128, top: 28, bottom: 44 };

const DASHES = { all: [], encoder: [7, 4], decoder: [2, 3], cross: [9, 3, 2, 3] };

/* `lost`: the rise of the loss or the drop of BLEU at which the text says that heads can no longer be removed. */
const CURVES = {
  loss: { words: "Loss", unit: "nats per token", lost: 0.05, decimals: 2, said: "the loss has risen by 0.05 nats per token" },
  bleu: { words: "BLEU", unit: "points", lost: 0.5, decimals: 1, said: "BLEU (greedy) has fallen by 0.5 points" },
};

/** What can be shown: loss, BLEU or both. */
export const curvesOf = ({ pruning }) => Object.keys(CURVES).filter((what) => pruning.some((curve) => curve[what])).map((what) => ({ what, ...CURVES[what] }));

export const pruningGeometry = (width) => ({ width, height: width < 600 ? 280 : 340 });

const removedWords = (kind) => (kind === "all" ? "all kinds" : `${kind} only`);

/** The head's rank in the curve's order of removal, from 1; null if the curve does not remove it. */
const rankIn = ({ order }, n) => (order.includes(n) ? order.indexOf(n) + 1 : null);

/** @param {Drawing} context @param {AtlasView} view */
export function drawPruning(context, { data, theme, chosen }, { width, height }) {
  const what = chosen.curve;
  const shown = data.pruning.filter((curve) => curve[what]);
  const most = Math.max(...shown.map((curve) => curve[what].length - 1));
  const ends = shown.flatMap((curve) => curve[what].flat()).filter((value) => value !== null);
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const plot = { left: EDGE_OF_CURVES.left, top: EDGE_OF_CURVES.top, width: width - EDGE_OF_CURVES.left - (width < 600 ? 12 : EDGE_OF_CURVES.right), height: height - EDGE_OF_CURVES.top - EDGE_OF_CURVES.bottom };
  const x = (count) => plot.left + (count / most) * plot.width;
  const y = (value) => plot.top + plot.height - ((value - low) / (high - low || 1)) * plot.height;
  const bottom = plot.top + plot.height;
  for (const value of roundTicks(low, high)) drawLevel(context, theme, String(value), y(value), plot.left, plot.width, 7);
  for (let count = 0; count <= most; count += Math.max(1, Math.round(most / 12))) drawNote(context, theme, String(count), x(count), bottom + 14, "center");
  drawNote(context, theme, "heads removed", plot.left + plot.width, bottom + 32, "right");
  drawNote(context, theme, `${CURVES[what].words}, ${CURVES[what].unit}`, 0, plot.top - 14);
  /* A label that does not fit right of its curve's end goes above the curve, at three quarters of the removals. */
  const besideCurve = (curve) => {
    const points = curve[what];
    const count = Math.round(0.75 * (points.length - 1));
    const rises = points[points.length - 1][0] > points[0][0];
    return { kind: curve.kind, end: x(count), label: y(points[count][0]) - 9, at: x(count) + (rises ? -8 : 8), align: rises ? "right" : "left" };
  };
  const labels = [];
  for (const curve of shown) {
    const points = curve[what];
    context.globalAlpha = 0.5;
    points.forEach(([, from, to], count) => {
      if (from !== null && to !== null) drawPath(context, theme.ink3, 1, [[x(count), y(from)], [x(count), y(to)]]);
    });
    context.globalAlpha = 1;
    context.setLineDash(DASHES[curve.kind]);
    drawPath(context, theme.ink, curve.kind === "all" ? 2.5 : 1.6, points.map(([value], count) => [x(count), y(value)]));
    context.setLineDash([]);
    const end = x(points.length - 1);
    let label = y(points[points.length - 1][0]);
    while (labels.some((other) => Math.abs(other.end - end) < 90 && Math.abs(other.label - label) < 15)) label += label > plot.top + plot.height / 2 ? -15 : 15;
    labels.push(width >= 600 || end < plot.left + plot.width - 90 ? { kind: curve.kind, end, label, at: end + 8, align: "left" } : besideCurve(curve));
    const rank = rankIn(curve, chosen.head);
    if (rank !== null) drawFrame(context, theme.ink, 2, x(rank) - 4, y(points[rank][0]) - 4, 8, 8);
  }
  for (const { kind, at, label, align } of labels) {
    drawOnGround(context, theme, removedWords(kind), at, label, { size: 12, weight: kind === "all" ? 650 : 400, align });
  }
}

/** How many heads can be removed before the change reaches `lost`; all if it never does. */
function removable(points, what) {
  const sign = what === "loss" ? 1 : -1;
  const lost = points.findIndex(([value]) => value !== null && sign * (value - points[0][0]) >= CURVES[what].lost);
  return lost < 0 ? points.length - 1 : lost - 1;
}

/* "1st", "12th", "22nd". */
const ordinal = (rank) => `${rank}${(!/1\d$/.test(String(rank)) && ["", "st", "nd", "rd"][rank % 10]) || "th"}`;

/** What the curves say about the network and the chosen head. */
export function pruningText(data, n, what) {
  const { words, unit, decimals, said } = CURVES[what];
  const texts = data.pruning
    .filter((curve) => curve[what])
    .map((curve) => {
      const count = removable(curve[what], what);
      const all = curve[what].length - 1;
      return `${count} of ${all} ${curve.kind === "all" ? "heads" : headsOfKind(curve.kind)}`;
    });
  const own = data.own[what];
  const start = own ? `${words} of the whole network: ${fixed(own[0], decimals)} ${unit}. ` : "";
  const ranks = data.pruning
    .map((curve) => ({ kind: curve.kind, rank: rankIn(curve, n), count: curve.order.length }))
    .filter(({ rank }) => rank !== null)
    .map(({ kind, rank, count }) => `${ordinal(rank)} of ${kind === "all" ? `all ${count} heads` : `the ${count} ${headsOfKind(kind)}`}`);
  const [sample, corpus] = [data.samples.order, data.origin.sentences].map((count) => count.toLocaleString("en"));
  return (
    `Heads are removed one at a time. Each step removes the head whose removal leaves the lowest loss on ${sample} of the ${corpus} sentences on which the curve is measured. Vertical lines: 95 % intervals over the corpus. ` +
    `${start}Number of heads that can be removed before ${said}: ${texts.join("; ")}. This limit is a choice, not a test; on Literature, BLEU may fall by 0.25 at most. ` +
    (ranks.length ? `Squares mark the chosen head, removed ${ranks.join(" and ")}.` : "")
  );
}
