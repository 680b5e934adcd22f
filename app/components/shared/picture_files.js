// Saves pictures as PNG or SVG.

import { cutLabel, drawBox, drawText, fontOf } from "./plot.js";
import { save } from "./save.js";
import { SvgContext } from "./svg.js";

const PNG_SCALE = 2;

/**
 * Surround a picture with a margin, and put its title `above` px above it, cut to its width if `isCut`.
 * @param {PictureFile} picture
 * @param {{margin: number, above: number, style: {size: number, weight?: number, colour?: string}, isCut?: boolean}} frame
 * @returns {PictureFile}
 */
export function withTitle(picture, { margin, above, style, isCut = false }) {
  const { theme, title, width, height, before = 0 } = picture;
  const draw = (context) => {
    context.font = fontOf(theme, style.size, style.weight);
    drawText(context, theme, isCut ? cutLabel(context, title, width) : title, margin, margin + 10, style);
    context.translate(margin + before, margin + above);
    picture.draw(context);
  };
  return { ...picture, width: width + 2 * margin, height: height + above + 2 * margin, draw };
}

function drawWhole(context, { theme, width, height, draw }) {
  drawBox(context, theme.page, 0, 0, width, height);
  draw(context);
}

/** @param {PictureFile} picture @param {(file: Blob) => void} done */
function asPng(picture, done) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [picture.width, picture.height].map((size) => Math.round(size * PNG_SCALE));
  const context = canvas.getContext("2d");
  context.scale(PNG_SCALE, PNG_SCALE);
  drawWhole(context, picture);
  canvas.toBlob(done, "image/png");
}

/** @param {PictureFile} picture @param {(file: Blob) => void} done */
function asSvg(picture, done) {
  const context = new SvgContext(picture.width, picture.height, document.createElement("canvas").getContext("2d"));
  if (picture.about !== undefined) context.describe(picture.title, picture.about);
  drawWhole(context, picture);
  done(new Blob([context.toText()], { type: "image/svg+xml" }));
}

/** @param {string} name  without its ending @param {string} ending  "png" or "svg" @param {PictureFile} picture */
export function savePicture(name, ending, picture) {
  const make = ending === "png" ? asPng : asSvg;
  make(picture, (file) => save(`${name}.${ending}`, file));
}
