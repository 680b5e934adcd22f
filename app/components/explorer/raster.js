// Rasterises a map at one pixel per cell, for thumbnails and for large maps.

import { drawFrame, drawPath, imageOf, rasterOf } from "../shared/plot.js";
import { rampOf, stepOf } from "./maps.js";
import { isHidden } from "./measures.js";

const scratch = document.createElement("canvas");

/* Draw a map scaled to a square: crossed out if its head is off, in an orange frame if it is edited otherwise. */
export function drawThumbnail(context, map, theme, hide, { left, top, size }) {
  context.imageSmoothingEnabled = false;
  context.drawImage(mapPicture(map, theme, hide), left, top, size, size);
  if (!map.edit) return;
  const [right, bottom] = [left + size, top + size];
  if (map.edit.cross) drawPath(context, theme.wrong, 2, [[left, top], [right, bottom]], [[left, bottom], [right, top]]);
  else drawFrame(context, theme.wrong, 2, left + 1, top + 1, size - 2, size - 2);
}

/**
 * A map at one pixel per cell, on a shared canvas: valid until the next call.
 * @param {AttentionMap} map
 * @param {Theme} theme
 */
export const mapPicture = (map, theme, hide) => rasterOf(mapPixels(map, theme, hide), scratch);

/** Pixels of a map, cached per theme and hidden columns. @param {AttentionMap} map @param {Theme} theme */
export function mapPixels(map, theme, hide) {
  const name = `${theme.name} ${[...hide]}`;
  if (map.image?.name === name) return map.image.data;
  const { pixel } = rampOf(theme, map);
  const data = imageOf(map.keys, map.queries, (pixels) => {
    for (let cell = 0; cell < pixels.length; cell++) pixels[cell] = map.unmasked[cell] ? pixel[stepOf(map, map.values[cell])] : theme.maskedPixel;
    for (let key = 0; hide.size && key < map.keys; key++) {
      if (!isHidden(map, key, hide)) continue;
      for (let cell = key; cell < pixels.length; cell += map.keys) if (map.unmasked[cell]) pixels[cell] = theme.hiddenPixel;
    }
  });
  map.image = { name, data };
  return data;
}
