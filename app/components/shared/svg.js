// A minimal SVG backend with the CanvasRenderingContext2D methods that the pictures use.

import { svgElement } from "./dom.js";
import { VectorContext } from "./vector.js";

/* Characters that are illegal in XML, lone surrogates included. */
const NOT_IN_XML = /[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu;

/* Replace characters that are illegal in XML with their codes, such as ‹U+0001›. */
export const legalInXml = (text) =>
  String(text).replaceAll(NOT_IN_XML, (character) => {
    const code = character.codePointAt(0).toString(16).toUpperCase();
    return `\u2039U+${code.padStart(4, "0")}\u203a`;
  });

export class SvgContext extends VectorContext {
  constructor(width, height, measuring) {
    super();
    this.svg = this.#make("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
    this.measuring = measuring;
    this.parent = this.svg;
    this.transform = "";
    this.dash = [];
    this.path = "";
    this.clips = 0;
    this.saved = [];
  }

  #make(tag, attributes) {
    const stated = Object.entries(attributes).filter(([, value]) => value !== "" && value !== null);
    const rounded = stated.map(([name, value]) => [name, typeof value === "number" ? +value.toFixed(2) : value]);
    return svgElement(tag, Object.fromEntries(rounded));
  }

  #add(tag, attributes) {
    const opacity = this.globalAlpha < 1 ? this.globalAlpha : null;
    const made = this.#make(tag, { ...attributes, opacity, transform: this.transform });
    this.parent.append(made);
    return made;
  }

  #stroked() {
    const dashes = this.dash.join(" ");
    return { fill: "none", stroke: this.strokeStyle, "stroke-width": this.lineWidth, "stroke-dasharray": dashes };
  }

  save() {
    this.saved.push([this.parent, this.transform, this.dash, this.globalAlpha]);
  }

  restore() {
    [this.parent, this.transform, this.dash, this.globalAlpha] = this.saved.pop();
  }

  translate(x, y) {
    this.transform = `${this.transform} translate(${x.toFixed(2)} ${y.toFixed(2)})`.trim();
  }

  rotate(angle) {
    this.transform = `${this.transform} rotate(${((angle * 180) / Math.PI).toFixed(2)})`.trim();
  }

  beginPath() {
    this.path = "";
  }

  moveTo(x, y) {
    this.path += `M${x.toFixed(2)} ${y.toFixed(2)}`;
  }

  lineTo(x, y) {
    this.path += `L${x.toFixed(2)} ${y.toFixed(2)}`;
  }

  bezierCurveTo(...points) {
    this.path += `C${points.map((value) => value.toFixed(2)).join(" ")}`;
  }

  rect(x, y, width, height) {
    this.path += `M${x} ${y}h${width}v${height}h${-width}z`;
  }

  /* Until the matching restore(), everything is drawn into a clipped group. */
  clip() {
    const id = `clip${++this.clips}`;
    const shape = this.#make("clipPath", { id });
    shape.append(this.#make("path", { d: this.path, transform: this.transform }));
    const group = this.#make("g", { "clip-path": `url(#${id})` });
    this.parent.append(shape, group);
    this.parent = group;
  }

  stroke() {
    if (this.path) this.#add("path", { d: this.path, ...this.#stroked() });
  }

  setLineDash(dash) {
    this.dash = dash;
  }

  fillRect(x, y, width, height) {
    this.#add("rect", { x, y, width, height, fill: this.fillStyle });
  }

  strokeRect(x, y, width, height) {
    this.#add("rect", { x, y, width, height, ...this.#stroked() });
  }

  measureText(words) {
    this.measuring.font = this.font;
    return this.measuring.measureText(words);
  }

  fillText(words, x, y) {
    const [, weight, size, family] = /^(\d+) ([\d.]+)px (.*)$/.exec(this.font);
    const anchor = { left: "start", right: "end", center: "middle" }[this.textAlign];
    const look = { "font-family": family, "font-size": size, "font-weight": weight === "400" ? "" : weight };
    // Office programs support neither dominant-baseline nor bidi isolates: shift the baseline by hand and mark the text
    // element as isolated instead.
    const plain = legalInXml(words).replaceAll(/[\u2066-\u2069]/g, "");
    const own = { "unicode-bidi": plain === legalInXml(words) ? "" : "isolate" };
    const place = { x, y: y + 0.35 * Number(size), "text-anchor": anchor, fill: this.fillStyle };
    this.#add("text", { ...place, ...look, ...own }).textContent = plain;
  }

  /* A small raster, scaled up without smoothing. */
  drawImage(canvas, x, y, width, height) {
    const style = "image-rendering:pixelated";
    this.#add("image", { x, y, width, height, href: canvas.toDataURL(), preserveAspectRatio: "none", style });
  }

  /* Print at another size, such as "85mm". */
  resize(width, height) {
    this.svg.setAttribute("width", width);
    this.svg.setAttribute("height", height);
  }

  /* Title and description for screen readers. */
  describe(title, description) {
    const [name, words] = ["title", "desc"].map((tag) => this.#make(tag, {}));
    name.textContent = legalInXml(title);
    words.textContent = legalInXml(description);
    this.svg.prepend(name, words);
  }

  toText() {
    return new XMLSerializer().serializeToString(this.svg);
  }
}
