// Turns a weight into a colour and reads the page's own colours; the only file that knows about light and dark.

/* One hue, lightness linear in OKLab: zero is almost the page, one is the strongest contrast with it. */
function oklchToRgb(lightness, chroma, hueDegrees) {
  const hue = (hueDegrees * Math.PI) / 180;
  const a = chroma * Math.cos(hue);
  const b = chroma * Math.sin(hue);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  return linear.map((value) => {
    const clipped = Math.min(1, Math.max(0, value));
    const gamma = clipped <= 0.0031308 ? 12.92 * clipped : 1.055 * clipped ** (1 / 2.4) - 0.055;
    return Math.round(255 * Math.min(1, Math.max(0, gamma)));
  });
}

function luminance([red, green, blue]) {
  const linear = [red, green, blue].map((value) => {
    const v = value / 255;
    return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
}

/* Luminance at which black and white text contrast equally. */
const MIDDLE_LUMINANCE = 0.179;

const asPixel = ([red, green, blue]) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;

function makeRamp(colourAt) {
  const steps = Array.from({ length: 256 }, (_, step) => colourAt(step / 255));
  return {
    css: steps.map(([red, green, blue]) => `rgb(${red},${green},${blue})`),
    ink: steps.map((colour) => (luminance(colour) > MIDDLE_LUMINANCE ? "#000000" : "#ffffff")),
    pixel: Uint32Array.from(steps, asPixel),
  };
}

/* Chroma rises to its peak and falls again, because neither end of a blue scale can hold much of it. */
function chromaBell(t, peak, end) {
  return t < peak ? Math.sin(((t / peak) * Math.PI) / 2) : 1 - (1 - end) * ((t - peak) / (1 - peak)) ** 1.4;
}

const RAMPS = {
  light: makeRamp((t) => oklchToRgb(0.972 - 0.692 * t, 0.006 + 0.132 * chromaBell(t, 0.55, 0.74), 255 + 8 * t)),
  dark: makeRamp((t) => oklchToRgb(0.222 + 0.748 * t, 0.012 + 0.128 * chromaBell(t, 0.5, 0.12), 262 - 22 * t)),
};

/* Orange below zero, blue above: step 128 is zero, which has no hue; the same colours as the figures'. */
const diverging = (zero, below, above) =>
  makeRamp((t) => {
    const share = Math.max(-1, (t * 255 - 128) / 127);
    const [lightness, chroma, hue] = share < 0 ? below : above;
    return oklchToRgb(zero + (lightness - zero) * Math.abs(share), chroma * Math.abs(share), hue);
  });

const SIGNED = {
  light: diverging(0.955, [0.6, 0.13, 55], [0.5, 0.15, 258]),
  dark: diverging(0.27, [0.8, 0.13, 65], [0.76, 0.12, 255]),
};

/* A closed cell in a thumbnail, where hatching has no room: a flat grey that no weight can have. */
const CLOSED_PIXEL = { light: asPixel([226, 227, 230]), dark: asPixel([46, 48, 55]) };

/* A column that is left out of the picture, likewise. */
const HIDDEN_PIXEL = { light: asPixel([170, 173, 180]), dark: asPixel([70, 74, 82]) };

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

/* Streamlit hands its theme down as CSS variables; the page's luminance, not a name, decides light or dark. */
export function readTheme(root) {
  const page = getComputedStyle(root).getPropertyValue("--st-background-color").trim() || "#ffffff";
  const name = luminance(parseColour(page)) > MIDDLE_LUMINANCE ? "light" : "dark";
  root.dataset.theme = name;
  const style = getComputedStyle(root);
  const variable = (part) => style.getPropertyValue(`--${part}`).trim();
  const pixels = { closedPixel: CLOSED_PIXEL[name], hiddenPixel: HIDDEN_PIXEL[name] };
  const theme = { name, ramp: RAMPS[name], signed: SIGNED[name], ...pixels, font: style.fontFamily };
  for (const part of ["page", "ink", "ink2", "ink3", "line", "well", "hatch", "hatch-ground"]) theme[part] = variable(part);
  theme.signature = Object.values(theme).filter((value) => typeof value === "string").join("|");
  return theme;
}

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
  // Lines lie where x + y is a multiple of 6 on the whole canvas, so that neighbouring rows of hatching join.
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
