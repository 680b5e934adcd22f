// Draws the tree: one column per step, hypotheses sorted by sum, best on top.

import { svgElement } from "../shared/dom.js";
import { fixed } from "../shared/numbers.js";
import { cutLabel } from "../shared/plot.js";
import { isolated } from "../shared/tokens.js";
import { nameOf, pathTo } from "./nodes.js";

const COLUMN = 100;

const ROW = 42;

const LEFT = 24;

const TOP = 26;

const NODE = { width: 74, height: 36 };

function label(className, words, x, y, anchor = "start") {
  const made = svgElement("text", { class: className, x, y, "text-anchor": anchor });
  made.textContent = words;
  return made;
}

const columnOf = (step) => LEFT + step * COLUMN;

/** @param {TreeNode} node */
const cornerOf = (node) => ({ x: columnOf(node.step), y: TOP + node.rank * ROW });

/** @param {TreeView} view */
export function drawTree(view) {
  const { data, parts, root } = view;
  const { nodes } = data;
  const steps = Math.max(...nodes.map((node) => node.step));
  const ranks = Math.max(...nodes.map((node) => node.rank)) + 1;
  const picture = parts.tree;
  const width = LEFT + (steps + 1) * COLUMN + 10;
  const height = TOP + ranks * ROW + 6;
  picture.replaceChildren();
  picture.setAttribute("width", width);
  picture.setAttribute("height", height);
  const context = document.createElement("canvas").getContext("2d");
  context.font = `650 14px ${getComputedStyle(root).fontFamily}`;
  picture.append(label("axis", "step", LEFT + 4, 16));
  for (let step = 1; step <= steps; step++) picture.append(label("axis", step, columnOf(step) + 4, 16));
  for (let rank = 0; rank < ranks; rank++) picture.append(label("axis", rank + 1, 4, TOP + rank * ROW + 17));
  // Later groups cover earlier ones: pruned edges, other edges, the winner's edges, nodes.
  const layers = [svgElement("g"), svgElement("g"), svgElement("g"), svgElement("g")];
  picture.append(...layers);
  const dead = (node) => node.status === "pruned" || node.status === "overtaken";
  view.drawn = nodes.map((node, index) => {
    if (node.parent !== null) {
      layers[node.winner ? 2 : dead(node) ? 0 : 1].append(drawEdge(nodes[node.parent], node));
    }
    const group = drawNode(view, node, index, context);
    layers[3].append(group);
    return group;
  });
}

/** @param {TreeNode} node */
const classOf = (node) =>
  `${node.status}${node.winner ? " winner" : ""}${node.forced ? " forced" : ""}`;

/** @param {TreeNode} node */
function drawEdge(parent, node) {
  const from = cornerOf(parent);
  const to = cornerOf(node);
  const [x1, y1] = [from.x + NODE.width, from.y + NODE.height / 2];
  const [x2, y2] = [to.x, to.y + NODE.height / 2];
  const bend = (x2 - x1) * 0.6;
  return svgElement("path", { class: `edge ${classOf(node)}`,
    d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`,
    "stroke-width": (0.75 + 5 * node.probability).toFixed(2),
  });
}

/** @param {TreeView} view @param {TreeNode} node */
function drawNode(view, node, index, measuring) {
  const { x, y } = cornerOf(node);
  const group = svgElement("g", { class: `node ${classOf(node)}`,
    "data-index": index,
    "data-fate": node.status,
    id: `node-${index}`,
    role: "treeitem",
    "aria-level": node.step + 1,
    "aria-label": nameOf(view.data, node),
    transform: `translate(${x} ${y})`,
  });
  const title = svgElement("title");
  title.textContent = nameOf(view.data, node);
  group.append(title, svgElement("rect", { class: "ground", width: NODE.width, height: NODE.height, rx: 4 }));
  const name = cutLabel(measuring, view.data.tokens[node.id].label, NODE.width - (node.finalRank ? 26 : 8));
  group.append(label("token", isolated(name), 4, 16));
  if (node.parent !== null) {
    group.append(label("figures", fixed(node.total, 2), 4, 30));
    group.append(label("figures own", fixed(node.log_prob, 2), NODE.width - 4, 30, "end"));
  }
  if (node.finalRank) {
    group.append(svgElement("rect", { class: "flag", x: NODE.width - 19, y: 4, width: 15, height: 14, rx: 3 }));
    group.append(label("place", node.finalRank, NODE.width - 11.5, 15, "middle"));
  }
  return group;
}

/** Mark the pinned node and its path, and scroll it into view. @param {TreeView} view */
export function markPinned(view) {
  const { pinned, data, drawn, parts } = view;
  const path = new Set(pathTo(data, pinned));
  drawn.forEach((group, index) => {
    group.classList.toggle("pinned", index === pinned);
    group.setAttribute("aria-selected", String(index === pinned));
    group.classList.toggle("on-path", path.has(index) && index !== pinned);
  });
  const { x } = cornerOf(data.nodes[pinned]);
  const { box } = parts;
  box.setAttribute("aria-activedescendant", `node-${pinned}`);
  const margin = COLUMN * 1.2;
  if (x - margin < box.scrollLeft) box.scrollLeft = Math.max(0, x - margin);
  else if (x + NODE.width + margin / 2 > box.scrollLeft + box.clientWidth) {
    box.scrollLeft = x + NODE.width + margin / 2 - box.clientWidth;
  }
}
