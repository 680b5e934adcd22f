// Saves the timeline as PNG or SVG, and all measures of all heads as CSV.

import { KINDS } from "../explorer/data.js";
import { csvOf, quoted, shortest } from "../shared/csv.js";
import { drawText } from "../shared/grid.js";
import { save } from "../shared/save.js";
import { SvgContext } from "../shared/svg.js";
import { curveOf, headsOf, stepName } from "./run.js";
import { KIND_NAMES, viewName } from "./lanes.js";
import { drawLiveTimeline, drawStillTimeline } from "./timeline.js";

const ABOVE = 36;
const PNG_RATIO = 2;

/** @param {TrainingView} view */
const headingOfTimeline = ({ run, link, point }) =>
  `${run.name}: ${KIND_NAMES[link.kind]}, ${viewName(run, link)}, through training; cursor at ${stepName(run, point)}`;

/** Draw background, title and timeline. @param {TrainingView} view */
function drawTimelineFile(context, view) {
  const { theme, run, geometry, lanes, link, point } = view;
  context.fillStyle = theme.page;
  context.fillRect(0, 0, geometry.width + 24, geometry.height + ABOVE + 24);
  drawText(context, theme, headingOfTimeline(view), 12, 22, { size: 13, colour: "ink2" });
  context.translate(12, ABOVE + 12);
  drawStillTimeline(context, theme, geometry, run, lanes, headsOf(run, link));
  drawLiveTimeline(context, theme, geometry, lanes, point, viewName(run, link));
}

/** @param {TrainingView} view */
const sizeOfFile = ({ geometry }) => [geometry.width + 24, geometry.height + ABOVE + 24];

/** @param {TrainingView} view */
function timelineAsSvg(view) {
  const [width, height] = sizeOfFile(view);
  const context = new SvgContext(width, height, document.createElement("canvas").getContext("2d"));
  const { source_text, translation } = view.run.sentences[view.sentence];
  context.describe(headingOfTimeline(view), [view.run.languages.join(" to "), source_text, translation].join("\n"));
  drawTimelineFile(context, view);
  return new Blob([context.toText()], { type: "image/svg+xml" });
}

/** @param {TrainingView} view @returns {Promise<Blob>} */
function timelineAsPng(view) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = sizeOfFile(view).map((size) => Math.round(size * PNG_RATIO));
  const context = canvas.getContext("2d");
  context.scale(PNG_RATIO, PNG_RATIO);
  drawTimelineFile(context, view);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

/**
 * Return the loss and BLEU of each point, then a line per point, head and measure. Layers and heads
 * count from 1.
 * @param {TrainingView} view
 */
function measuresAsCsv({ run }) {
  /** @type {(string | number)[][]} */
  const lines = [["step", "kind", "layer", "head", "measure", "value"]];
  run.steps.forEach((step, point) => {
    lines.push([step, "", "", "", "loss", run.loss[point]], [step, "", "", "", "BLEU", run.bleu[point]]);
  });
  for (const kind of KINDS) {
    for (const measure of run.measures[kind]) {
      for (const [layer, head] of headsOf(run, { kind })) {
        curveOf(run, kind, measure, [layer, head]).forEach((value, point) =>
          lines.push([run.steps[point], kind, layer + 1, head + 1, quoted(measure.short), shortest(value)]),
        );
      }
    }
  }
  return csvOf(lines);
}

/** @param {TrainingView} view */
const fileOfTimeline = ({ run, link }, ending) => `headlight_training_${run.name}_${link.kind}.${ending}`;

/** @param {TrainingView} view */
export async function saveTimeline(view, ending) {
  if (ending === "csv") return save(`headlight_training_${view.run.name}.csv`, measuresAsCsv(view));
  const blob = ending === "svg" ? timelineAsSvg(view) : await timelineAsPng(view);
  return save(fileOfTimeline(view, ending), blob);
}
