// Saves the timeline as a picture, and all measures of all heads as CSV.

import { KINDS } from "../explorer/data.js";
import { csvOf, quoted, shortest } from "../shared/csv.js";
import { savePicture, withCaption, withTitle } from "../shared/picture_files.js";
import { save } from "../shared/save.js";
import { curveOf, headsOf, stepName } from "./run.js";
import { KIND_NAMES, viewName } from "./lanes.js";
import { drawLiveTimeline, drawStillTimeline } from "./timeline.js";

/** @param {TrainingView} view @returns {PictureFile} */
function timelinePicture({ theme, run, geometry, lanes, link, point, sentence }, captioned) {
  const { source_text, translation } = run.sentences[sentence];
  const name = viewName(run, link);
  const title = `${run.name}: ${KIND_NAMES[link.kind]}, ${name}, through training; cursor at ${stepName(run, point)}`;
  const about = [run.languages.join(" to "), source_text, translation];
  const picture = {
    theme,
    title,
    about: about.join("\n"),
    width: geometry.width,
    height: geometry.height,
    draw: (context) => {
      drawStillTimeline(context, theme, geometry, run, lanes, headsOf(run, link));
      drawLiveTimeline(context, theme, geometry, lanes, point, name);
    },
  };
  return withTitle(captioned ? withCaption(picture, `${title}. ${about.join(". ")}`) : picture, { margin: 12, above: 36, style: { size: 13, colour: "ink2" } });
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
    lines.push([step, "", "", "", "loss", run.loss[point]], [step, "", "", "", run.quality.title, run.quality.values[point]]);
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
export function saveTimeline(view, ending, captioned) {
  const { run, link } = view;
  if (ending === "csv") return save(`headlight_training_${run.name}.csv`, measuresAsCsv(view));
  return savePicture(`headlight_training_${run.name}_${link.kind}`, ending, timelinePicture(view, captioned));
}
