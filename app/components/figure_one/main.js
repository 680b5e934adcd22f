// Draws figure 1 of the paper as a picture whose blocks are links, and highlights the one in view.

import { partsOf, svgElement } from "../shared/dom.js";
import { readTheme } from "../shared/theme.js";
import { asPythonWrites, prepareSwitch } from "../shared/url.js";

const LINE = 12; // px between two lines of a block
const TIP = 3.5;

function arrow(points, isArrow) {
  const group = svgElement("g");
  group.append(svgElement("polyline", { class: "arrow", points: points.map((point) => point.join(",")).join(" ") }));
  if (isArrow) group.append(tip(points.at(-2), points.at(-1)));
  return group;
}

function tip([fromX, fromY], [x, y]) {
  const [dx, dy] = [Math.sign(x - fromX), Math.sign(y - fromY)];
  const back = (side) => `${x - dx * TIP * 1.4 + dy * side * TIP},${y - dy * TIP * 1.4 + dx * side * TIP}`;
  return svgElement("polygon", { class: "tip", points: `${x},${y} ${back(1)} ${back(-1)}` });
}

function frame({ label, box: [x, y, width, height] }, middle) {
  const group = svgElement("g");
  group.append(svgElement("rect", { class: "frame", x, y, width, height, rx: 9 }));
  const isLeft = x + width / 2 < middle;
  const at = isLeft ? { x: x + 4, "text-anchor": "start" } : { x: x + width - 4, "text-anchor": "end" };
  const count = svgElement("text", { class: "count", y: y - 5, ...at });
  count.textContent = label;
  group.append(count);
  return group;
}

function sum([x, y]) {
  const group = svgElement("g");
  group.append(svgElement("circle", { class: "sum", cx: x, cy: y, r: 7 }));
  group.append(svgElement("path", { class: "arrow", d: `M${x - 4} ${y}h8M${x} ${y - 4}v8` }));
  return group;
}

function block({ id, lines, box: [x, y, width, height], about, href, boxed }) {
  const made = svgElement(href ? "a" : "g", { class: "block", "data-block": id, "aria-label": about });
  if (href) made.setAttribute("href", `${window.location.pathname.replace(/[^/]*$/, "")}${href}`);
  else made.setAttribute("role", "img");
  const name = svgElement("title");
  name.textContent = about;
  made.append(name, svgElement("rect", { class: boxed ? "box" : "plain", x, y, width, height, rx: 4 }));
  for (const [line, words] of lines.entries()) {
    const at = y + height / 2 + (line - (lines.length - 1) / 2) * LINE;
    const text = svgElement("text", { x: x + width / 2, y: at });
    text.textContent = words;
    made.append(text);
  }
  return made;
}

function draw(data) {
  const box = `0 0 ${data.width} ${data.height}`;
  const svg = svgElement("svg", { viewBox: box, role: "group", "aria-label": data.title });
  svg.append(...data.frames.map((one) => frame(one, data.width / 2)));
  svg.append(...data.lines.map((points) => arrow(points, false)), ...data.arrows.map((points) => arrow(points, true)));
  svg.append(...data.sums.map(sum), ...data.blocks.map(block));
  return svg;
}

/* Highlight the blocks with these ids, and name them. */
function highlight(parts, { blocks, inView }, current) {
  for (const part of parts.drawing.querySelectorAll(".block")) {
    if (current.includes(part.dataset.block)) part.setAttribute("aria-current", "true");
    else part.removeAttribute("aria-current");
  }
  parts.said.textContent = inView || `In view: ${blocks.find(({ id }) => id === current[0])?.about ?? "the whole network"}.`;
}

/* The kind of attention that the explorer with this widget key shows. Python does not know it: switching causes no rerun. */
function kindShown(key) {
  const inside = [...document.querySelectorAll(`.st-key-${CSS.escape(key)} *`)];
  const roots = inside.map((place) => /** @type {HTMLElement | null} */ (place.shadowRoot?.querySelector("section[data-kind]")));
  return roots.find(Boolean)?.dataset.kind;
}

export default function render({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".figure-one");
  const parts = partsOf(root);
  readTheme(root);
  const svg = draw(data);
  svg.addEventListener("click", (event) => {
    const link = event.target.closest("a.block");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault(); // a plain link would start a new session
    const [path, search] = link.getAttribute("href").split("?");
    const query = asPythonWrites(new URLSearchParams(search));
    prepareSwitch(query);
    setTriggerValue("link", { page: path.split("/").pop(), query });
  });
  parts.drawing.replaceChildren(svg);
  const kind = data.follow && kindShown(data.follow);
  highlight(parts, data, kind ? [kind] : data.current);
}
