// Saves pictures as PNG, SVG or PDF.

import { cutLabel, drawBox, drawText, fontOf } from "./plot.js";
import { PdfContext } from "./pdf.js";
import { save } from "./save.js";
import { SvgContext } from "./svg.js";

const PNG_SCALE = 2;
const MM_PER_INCH = 25.4;
const PNG_DPI = 300;
/* Points per px of a picture without a width in mm: 96 px are 72 points. */
const POINTS = 0.75;

/**
 * Surround a picture with a margin, and put its title `above` px above it, cut to its width if `isCut`.
 * @param {PictureFile} picture
 * @param {{margin: number, above: number, style: {size: number, weight?: number, colour?: string} | null, isCut?: boolean}} frame
 *   style: of the title; null for none
 * @returns {PictureFile}
 */
export function withTitle(picture, { margin, above, style, isCut = false }) {
  const { theme, title, width, height, before = 0 } = picture;
  const draw = (context) => {
    if (style) {
      context.font = fontOf(theme, style.size, style.weight);
      drawText(context, theme, isCut ? cutLabel(context, title, width) : title, margin, margin + 10, style);
    }
    context.translate(margin + before, margin + above);
    picture.draw(context);
  };
  return { ...picture, width: width + 2 * margin, height: height + above + 2 * margin, draw };
}

const CAPTION_LINE = 15;

/** Write a text below a picture, in lines of its width. @param {PictureFile} picture @param {string} words @returns {PictureFile} */
export function withCaption(picture, words) {
  const { theme, width, height, before = 0, draw } = picture;
  const measuring = document.createElement("canvas").getContext("2d");
  measuring.font = fontOf(theme, 11);
  const lines = [""];
  for (const word of words.split(" ")) {
    const longer = `${lines.at(-1)} ${word}`.trim();
    if (measuring.measureText(longer).width <= width) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return {
    ...picture,
    height: height + 8 + CAPTION_LINE * lines.length,
    draw: (context) => {
      context.save();
      draw(context);
      context.restore();
      lines.forEach((line, place) => drawText(context, theme, line, -before, height + 8 + CAPTION_LINE * (place + 0.5), { size: 11, colour: "ink2" }));
    },
  };
}

function drawWhole(context, { theme, width, height, draw }) {
  drawBox(context, theme.page, 0, 0, width, height);
  draw(context);
}

/** @param {PictureFile} picture @param {(file: Blob) => void} done */
function asPng(picture, done) {
  const canvas = document.createElement("canvas");
  const scale = picture.mm ? (picture.mm * PNG_DPI) / MM_PER_INCH / picture.width : PNG_SCALE;
  [canvas.width, canvas.height] = [picture.width, picture.height].map((size) => Math.round(size * scale));
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  drawWhole(context, picture);
  canvas.toBlob(done, "image/png");
}

/** @param {PictureFile} picture @param {(file: Blob) => void} done */
function asSvg(picture, done) {
  const context = new SvgContext(picture.width, picture.height, document.createElement("canvas").getContext("2d"));
  if (picture.about !== undefined) context.describe(picture.title, picture.about);
  if (picture.mm) context.resize(`${picture.mm}mm`, `${((picture.mm * picture.height) / picture.width).toFixed(2)}mm`);
  drawWhole(context, picture);
  done(new Blob([context.toText()], { type: "image/svg+xml" }));
}

/** @param {PictureFile} picture @param {(file: Blob) => void} done */
function asPdf(picture, done) {
  const scale = picture.mm ? (picture.mm * 72) / MM_PER_INCH / picture.width : POINTS;
  const context = new PdfContext(picture.width, picture.height, scale, document.createElement("canvas").getContext("2d"));
  context.describe(picture.title, picture.about ?? "");
  drawWhole(context, picture);
  done(context.toBlob());
}

/** @param {string} name  without its ending @param {string} ending  "png", "svg" or "pdf" @param {PictureFile} picture */
export function savePicture(name, ending, picture) {
  const make = { png: asPng, svg: asSvg, pdf: asPdf }[ending];
  make(picture, (file) => save(`${name}.${ending}`, file));
}
