// Colour scales and the page's theme; the only module that distinguishes light from dark.

function luminance(colour) {
  const linear = colour.map((value) => {
    const v = value / 255;
    return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
}

/* Luminance at which black and white text have equal contrast. */
const MIDDLE_LUMINANCE = 0.179;

const asPixel = ([red, green, blue]) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;

const hexBytes = (digits) => digits.match(/../g).map((byte) => parseInt(byte, 16));

/* Cache of the colour tables of look/palette.py: 256 steps as CSS and as pixels, and the text colour on each. */
const tables = new Map();

function tableOf(digits) {
  if (!tables.has(digits)) {
    const steps = digits.match(/.{6}/g).map(hexBytes);
    tables.set(digits, {
      css: steps.map(([red, green, blue]) => `rgb(${red},${green},${blue})`),
      ink: steps.map((colour) => (luminance(colour) > MIDDLE_LUMINANCE ? "#000000" : "#ffffff")),
      pixel: Uint32Array.from(steps, asPixel),
    });
  }
  return tables.get(digits);
}

export const rampStep = (weight) => Math.max(0, Math.min(255, Math.round(weight * 255)));

export const signedStep = (share) => 128 + Math.round(127 * Math.max(-1, Math.min(1, share)));

function parseColour(text) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const context = canvas.getContext("2d");
  context.fillStyle = "#ffffff";
  context.fillStyle = text;
  context.fillRect(0, 0, 1, 1);
  return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
}

/*
 * Return the theme, which Streamlit passes as CSS variables. The luminance of the page's background
 * decides between light and dark, not the theme's name.
 */
export function readTheme(root) {
  const page = getComputedStyle(root).getPropertyValue("--st-background-color").trim() || "#ffffff";
  const name = luminance(parseColour(page)) > MIDDLE_LUMINANCE ? "light" : "dark";
  root.dataset.theme = name;
  const style = getComputedStyle(root);
  const variable = (part) => style.getPropertyValue(`--${part}`).trim();
  const table = (part) => tableOf(variable(part).replaceAll('"', ""));
  const pixel = (part) => asPixel(hexBytes(variable(part).slice(1)));
  const theme = {
    name,
    ramp: table("sequential"),
    signed: table("diverging"),
    maskedPixel: pixel("masked"),
    hiddenPixel: pixel("left-out"),
    font: style.fontFamily,
  };
  for (const part of ["page", "ink", "ink2", "ink3", "line", "well", "hatch", "hatch-ground"]) theme[part] = variable(part);
  theme.signature = Object.values(theme).filter((value) => typeof value === "string").join("|");
  return theme;
}

/** @param {Drawing} context @param {Theme} theme */
export function drawHatch(context, theme, left, top, width, height) {
  context.save();
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
  context.fillStyle = theme["hatch-ground"];
  context.fillRect(left, top, width, height);
  context.strokeStyle = theme.hatch;
  context.lineWidth = 1;
  context.beginPath();
  // Hatch where x + y is a multiple of 6, so that adjacent hatched areas join.
  const bottom = top + height;
  for (let sum = Math.floor((left + top) / 6) * 6; sum < left + width + bottom; sum += 6) {
    context.moveTo(sum - bottom, bottom);
    context.lineTo(sum - top, top);
  }
  context.stroke();
  context.restore();
}

export function drawScale(canvas, ramp) {
  const context = canvas.getContext("2d");
  const image = context.createImageData(256, 1);
  new Uint32Array(image.data.buffer).set(ramp.pixel);
  context.putImageData(image, 0, 0);
}
