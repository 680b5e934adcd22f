// Rasterises a map at one pixel per cell, for thumbnails and for large maps.

import { rampOf, stepOf } from "./maps.js";
import { isHidden } from "./measures.js";

const scratch = document.createElement("canvas");

/* Draw a map scaled to a square. */
export function drawThumbnail(context, map, theme, hide, { left, top, size }) {
  context.imageSmoothingEnabled = false;
  context.drawImage(mapPicture(map, theme, hide), left, top, size, size);
}

/**
 * A map at one pixel per cell, on a shared canvas: valid until the next call.
 * @param {AttentionMap} map
 * @param {Theme} theme
 */
export function mapPicture(map, theme, hide) {
  if (scratch.width !== map.keys) scratch.width = map.keys;
  if (scratch.height !== map.queries) scratch.height = map.queries;
  scratch.getContext("2d").putImageData(mapPixels(map, theme, hide), 0, 0);
  return scratch;
}

/** Pixels of a map, cached per theme and hidden columns. @param {AttentionMap} map @param {Theme} theme */
export function mapPixels(map, theme, hide) {
  const name = `${theme.name} ${[...hide]}`;
  if (map.image?.name === name) return map.image.data;
  const image = new ImageData(map.keys, map.queries);
  const pixels = new Uint32Array(image.data.buffer);
  const ramp = rampOf(theme, map);
  for (let cell = 0; cell < pixels.length; cell++) {
    pixels[cell] = map.unmasked[cell] ? ramp.pixel[stepOf(map, map.values[cell])] : theme.maskedPixel;
  }
  for (let key = 0; hide.size && key < map.keys; key++) {
    if (!isHidden(map, key, hide)) continue;
    for (let cell = key; cell < pixels.length; cell += map.keys) if (map.unmasked[cell]) pixels[cell] = theme.hiddenPixel;
  }
  map.image = { name, data: image };
  return image;
}
