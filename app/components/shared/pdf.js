// A minimal PDF backend with the CanvasRenderingContext2D methods that the pictures use: one page, vectors, Helvetica.

import { VectorContext } from "./vector.js";

/* Characters that WinAnsiEncoding has beyond Latin-1, from 0x80 on; \0 where it has none. */
const BEYOND_LATIN = "\u20ac\0\u201a\u0192\u201e\u2026\u2020\u2021\u02c6\u2030\u0160\u2039\u0152\0\u017d\0\0\u2018\u2019\u201c\u201d\u2022\u2013\u2014\u02dc\u2122\u0161\u203a\u0153\0\u017e\u0178";
/* px of a mask per px of text, for text that the encoding lacks. */
const MASK_SCALE = 12;
const HELVETICA = "Helvetica, Arial, 'Liberation Sans', sans-serif";

/** The byte of a character in WinAnsiEncoding, or -1. @param {string} character */
function byteOf(character) {
  const code = character.codePointAt(0);
  if ((code >= 0x20 && code < 0x7f) || (code >= 0xa0 && code <= 0xff)) return code;
  const place = BEYOND_LATIN.indexOf(character);
  return code > 0xff && place >= 0 ? 0x80 + place : -1;
}

const hexOf = (bytes) => bytes.map((byte) => byte.toString(16).padStart(2, "0")).join("");
const utf16 = (text) => `<feff${[...Array(text.length).keys()].map((place) => text.charCodeAt(place).toString(16).padStart(4, "0")).join("")}>`;
const written = (...numbers) => numbers.map((value) => +value.toFixed(3)).join(" ");

export class PdfContext extends VectorContext {
  /** @param {number} scale  points per px @param {CanvasRenderingContext2D} measuring */
  constructor(width, height, scale, measuring) {
    super();
    this.size = [width * scale, height * scale];
    this.measuring = measuring;
    this.marks = [`${written(scale, 0, 0, -scale, 0, height * scale)} cm`];
    this.path = [];
    this.images = [];
    this.alphas = new Map();
    this.dash = [];
    this.saved = [];
    this.about = ["", ""];
  }

  #colour(style, operator) {
    this.measuring.fillStyle = style;
    const read = String(this.measuring.fillStyle);
    const parts = read.startsWith("#") ? read.slice(1).match(/../g).map((part) => parseInt(part, 16)) : read.match(/[\d.]+/g).map(Number);
    const opacity = this.globalAlpha * (parts[3] ?? 1);
    if (!this.alphas.has(opacity)) this.alphas.set(opacity, `A${this.alphas.size}`);
    this.marks.push(`/${this.alphas.get(opacity)} gs ${written(...parts.slice(0, 3).map((value) => value / 255))} ${operator}`);
  }

  #stroked() {
    this.#colour(this.strokeStyle, "RG");
    this.marks.push(`${written(this.lineWidth)} w [${written(...this.dash)}] 0 d`);
  }

  save() {
    this.marks.push("q");
    this.saved.push([this.dash, this.globalAlpha]);
  }

  restore() {
    this.marks.push("Q");
    [this.dash, this.globalAlpha] = this.saved.pop();
  }

  translate(x, y) {
    this.marks.push(`1 0 0 1 ${written(x, y)} cm`);
  }

  rotate(angle) {
    const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
    this.marks.push(`${written(cos, sin, -sin, cos, 0, 0)} cm`);
  }

  beginPath() {
    this.path = [];
  }

  moveTo(x, y) {
    this.path.push(`${written(x, y)} m`);
  }

  lineTo(x, y) {
    this.path.push(`${written(x, y)} l`);
  }

  bezierCurveTo(...points) {
    this.path.push(`${written(...points)} c`);
  }

  rect(x, y, width, height) {
    this.path.push(`${written(x, y, width, height)} re`);
  }

  clip() {
    this.marks.push(...this.path, "W n");
  }

  stroke() {
    if (!this.path.length) return;
    this.#stroked();
    this.marks.push(...this.path, "S");
  }

  setLineDash(dash) {
    this.dash = dash;
  }

  fillRect(x, y, width, height) {
    this.#colour(this.fillStyle, "rg");
    this.marks.push(`${written(x, y, width, height)} re f`);
  }

  strokeRect(x, y, width, height) {
    this.#stroked();
    this.marks.push(`${written(x, y, width, height)} re S`);
  }

  measureText(words) {
    this.measuring.font = this.font;
    return this.measuring.measureText(words);
  }

  fillText(words, x, y) {
    const text = String(words).replaceAll(/[\u2066-\u2069]/g, "");
    if (!text.trim()) return;
    const [, weight, pixels] = /^(\d+) ([\d.]+)px/.exec(this.font);
    const size = Number(pixels);
    const { width } = this.measureText(text);
    const left = x - { left: 0, center: width / 2, right: width }[this.textAlign];
    this.#colour(this.fillStyle, "rg");
    const bytes = [...text].map(byteOf);
    if (bytes.includes(-1)) {
      this.#mask(text, size, width, left, y);
      return;
    }
    this.measuring.font = `${weight} ${size}px ${HELVETICA}`;
    const stretch = (100 * width) / this.measuring.measureText(text).width;
    const face = Number(weight) >= 600 ? "F2" : "F1";
    this.marks.push(`BT /${face} ${size} Tf ${written(stretch)} Tz 1 0 0 -1 ${written(left, y + 0.35 * size)} Tm <${hexOf(bytes)}> Tj ET`);
  }

  /* Text that Helvetica's encoding lacks: a stencil of its shapes, filled with the colour. */
  #mask(text, size, width, left, y) {
    const [columns, rows] = [Math.max(1, Math.ceil(width * MASK_SCALE)), Math.ceil(1.8 * size * MASK_SCALE)];
    const canvas = Object.assign(document.createElement("canvas"), { width: columns, height: rows });
    const context = canvas.getContext("2d");
    context.scale(MASK_SCALE, MASK_SCALE);
    context.font = this.font;
    context.textBaseline = "alphabetic";
    context.fillText(text, 0, 1.25 * size);
    const { data } = context.getImageData(0, 0, columns, rows);
    const stride = Math.ceil(columns / 8);
    const bits = new Uint8Array(stride * rows);
    for (let cell = 0; cell < columns * rows; cell++) {
      const column = cell % columns;
      if (data[4 * cell + 3] > 127) bits[Math.floor(cell / columns) * stride + (column >> 3)] |= 128 >> (column & 7);
    }
    const top = y + 0.35 * size - 1.25 * size;
    this.#image(columns, rows, "/ImageMask true /BitsPerComponent 1 /Decode [1 0]", bits, left, top, columns / MASK_SCALE, rows / MASK_SCALE);
  }

  /* A small raster, scaled up without smoothing. */
  drawImage(canvas, x, y, width, height) {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const colours = data.filter((_, place) => place % 4 < 3);
    this.#colour("#000000", "rg");
    this.#image(canvas.width, canvas.height, "/ColorSpace /DeviceRGB /BitsPerComponent 8", colours, x, y, width, height);
  }

  #image(columns, rows, kind, bytes, x, y, width, height) {
    this.images.push([`/Type /XObject /Subtype /Image /Width ${columns} /Height ${rows} ${kind}`, bytes]);
    this.marks.push(`q ${written(width, 0, 0, -height, x, y + height)} cm /I${this.images.length - 1} Do Q`);
  }

  describe(title, description) {
    this.about = [title, description];
  }

  /** The file. */
  toBlob() {
    const encoder = new TextEncoder();
    const parts = [];
    const places = [];
    let length = 0;
    const add = (part) => {
      const bytes = typeof part === "string" ? encoder.encode(part) : part;
      parts.push(bytes);
      length += bytes.length;
    };
    const object = (dictionary, stream = null) => {
      places.push(length);
      add(`${places.length} 0 obj\n<< ${dictionary}${stream === null ? "" : ` /Length ${stream.length}`} >>\n`);
      if (stream !== null) for (const part of ["stream\n", stream, "\nendstream\n"]) add(part);
      add("endobj\n");
    };
    const face = (name) => `/Type /Font /Subtype /Type1 /BaseFont /${name} /Encoding /WinAnsiEncoding`;
    const named = (entries) => `<< ${entries.join(" ")} >>`;
    const states = [...this.alphas].map(([alpha, name]) => `/${name} << /ca ${written(alpha)} /CA ${written(alpha)} >>`);
    const images = this.images.map((_, place) => `/I${place} ${8 + place} 0 R`);
    const resources = named(["/Font << /F1 5 0 R /F2 6 0 R >>", `/ExtGState ${named(states)}`, `/XObject ${named(images)}`]);
    add("%PDF-1.4\n");
    object("/Type /Catalog /Pages 2 0 R");
    object("/Type /Pages /Kids [3 0 R] /Count 1");
    object(`/Type /Page /Parent 2 0 R /MediaBox [0 0 ${written(...this.size)}] /Contents 4 0 R /Resources ${resources}`);
    object("", encoder.encode(this.marks.join("\n")));
    object(face("Helvetica"));
    object(face("Helvetica-Bold"));
    object(`/Title ${utf16(this.about[0])} /Subject ${utf16(this.about[1])}`);
    for (const image of this.images) object(...image);
    const start = length;
    add(`xref\n0 ${places.length + 1}\n0000000000 65535 f \n${places.map((place) => `${String(place).padStart(10, "0")} 00000 n \n`).join("")}`);
    add(`trailer\n<< /Size ${places.length + 1} /Root 1 0 R /Info 7 0 R >>\nstartxref\n${start}\n%%EOF\n`);
    return new Blob(parts, { type: "application/pdf" });
  }
}
