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
  for (const part of ["page", "ink", "ink2", "ink3", "line", "well", "wrong", "said", "hatch", "hatch-ground"]) theme[part] = variable(part);
  theme.signature = Object.values(theme).filter((value) => typeof value === "string").join("|");
  return theme;
}

/** Give a view the page's theme; returns whether it is another one. @param {{theme: Theme}} view */
export function renewTheme(view, root) {
  const before = view.theme?.signature;
  view.theme = /** @type {Theme} */ (readTheme(root));
  return before !== view.theme.signature;
}
