// Saves all maps as one picture, or their values as CSV with one line per cell.

import { csvOf, numbered, quoted } from "../shared/csv.js";
import { savePicture, withCaption } from "../shared/picture_files.js";
import { drawText } from "../shared/plot.js";
import { save } from "../shared/save.js";
import { drawLive, drawStill, focusOf, GAP } from "./drawing.js";
import { noteOf } from "./numbers.js";

/* Values that belong to no head come as a single layer with a single head. */
export const headingOf = ({ data, layer, head }) =>
  data.layers.length * data.heads === 1 ? data.site : `${data.site}, layer ${data.layers[layer] + 1}, head ${head + 1}`;

const ABOVE = 44;

/** @param {RowView} view @returns {PictureFile} */
function rowPicture(view, captioned) {
  const { theme, geometry, maps, data } = view;
  const draw = (context) => {
    drawText(context, theme, headingOf(view), 8, 14, { size: 13, colour: "ink2" });
    maps.forEach(({ map }, place) => {
      context.save();
      context.translate(place * (geometry.width + GAP) + 8, 24);
      drawText(context, theme, map.name, 0, 14, { size: 15, weight: 600 });
      drawText(context, theme, noteOf(map), 0, 32, { colour: "ink2" });
      context.translate(0, ABOVE);
      drawStill(context, view, geometry, map);
      drawLive(context, view, geometry, focusOf(view), place);
      context.restore();
    });
  };
  const title = headingOf(view);
  const picture = { theme, title, about: data.about, width: maps.length * (geometry.width + GAP), height: 24 + ABOVE + geometry.height, draw };
  const names = maps.map(({ map }) => map.name).join(", ");
  return captioned ? withCaption(picture, [`${title}: ${names}. Rows: ${data.words.query}. Columns: ${data.words.key}.`, data.about].filter(Boolean).join(" ")) : picture;
}

/* Masked cells are empty, and so are those of covered rows. */
function rowAsCsv({ data, maps }) {
  const named = ({ label, number }) => numbered(label, number);
  const lines = [["query", "key", ...data.maps.map((map) => quoted(map.name))]];
  data.queries.forEach((query, row) => {
    data.keys.forEach((key, column) => {
      const cell = row * data.keys.length + column;
      const numbers = maps.map(({ map }) => (map.unmasked[cell] && !data.covered.includes(row) ? String(map.values[cell]) : ""));
      lines.push([named(query), named(key), ...numbers]);
    });
  });
  return csvOf(lines);
}

/** @param {RowView} view */
export function saveRow(view, ending, captioned) {
  const { data, layer, head } = view;
  const name = `headlight_${data.site.toLowerCase()}_layer${data.layers[layer] + 1}_head${head + 1}_maps`;
  if (ending === "csv") return save(`${name}.csv`, rowAsCsv(view));
  return savePicture(name, ending, rowPicture(view, captioned));
}
