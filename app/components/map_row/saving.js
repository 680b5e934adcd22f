// Saves all maps as one SVG, or their values as CSV with one line per cell.

import { csvOf, numbered, quoted } from "../shared/csv.js";
import { drawText } from "../shared/grid.js";
import { save } from "../shared/save.js";
import { SvgContext } from "../shared/svg.js";
import { drawLive, drawStill, focusOf, GAP } from "./drawing.js";
import { noteOf } from "./numbers.js";

/* Values that belong to no head come as a single layer with a single head. */
export const headingOf = ({ data, layer, head }) =>
  data.layers.length * data.heads === 1 ? data.site : `${data.site}, layer ${data.layers[layer] + 1}, head ${head + 1}`;

/** @param {RowView} view */
export function rowAsSvg(view) {
  const { theme, geometry, maps } = view;
  const above = 44;
  const width = maps.length * (geometry.width + GAP);
  const height = 24 + above + geometry.height;
  const context = new SvgContext(width, height, document.createElement("canvas").getContext("2d"));
  context.fillStyle = theme.page;
  context.fillRect(0, 0, width, height);
  drawText(context, theme, headingOf(view), 8, 14, { size: 13, colour: "ink2" });
  maps.forEach(({ map }, place) => {
    context.save();
    context.translate(place * (geometry.width + GAP) + 8, 24);
    drawText(context, theme, map.name, 0, 14, { size: 15, weight: 600 });
    drawText(context, theme, noteOf(map), 0, 32, { colour: "ink2" });
    context.translate(0, above);
    drawStill(context, view, geometry, map);
    drawLive(context, view, geometry, focusOf(view));
    context.restore();
  });
  return new Blob([context.toText()], { type: "image/svg+xml" });
}

/* Masked cells are empty. */
export function rowAsCsv({ data, maps }) {
  const named = ({ label, number }) => numbered(label, number);
  const lines = [["query", "key", ...data.maps.map((map) => quoted(map.name))]];
  data.queries.forEach((query, row) => {
    data.keys.forEach((key, column) => {
      const cell = row * data.keys.length + column;
      const numbers = maps.map(({ map }) => (map.unmasked[cell] ? String(map.values[cell]) : ""));
      lines.push([named(query), named(key), ...numbers]);
    });
  });
  return csvOf(lines);
}

export function saveRow({ data, layer, head }, ending, blob) {
  const place = `layer${data.layers[layer] + 1}_head${head + 1}`;
  save(`headlight_${data.site.toLowerCase()}_${place}_maps.${ending}`, blob);
}
