// Draws the tree: one column a step, in each column the likeliest hypothesis on top.

const SVG = "http://www.w3.org/2000/svg";
const COLUMN = 100;
const ROW = 42;
const LEFT = 24;
const TOP = 26;
const NODE = { width: 68, height: 36 };

const signed = (value, places) => value.toFixed(places).replace("-", "\u2212");

function svg(name, className, attributes = {}) {
  const made = document.createElementNS(SVG, name);
  if (className) made.setAttribute("class", className);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function words(className, text, x, y, anchor = "start") {
  const made = svg("text", className, { x, y, "text-anchor": anchor });
  made.textContent = text;
  return made;
}

const isolated = (text) => `\u2068${text}\u2069`;

/* Cuts a piece that is wider than a node, at whole characters, and marks the cut. */
function cut(measure, text, limit) {
  if (measure(text) <= limit) return text;
  const characters = [...text];
  while (characters.length > 1 && measure(`${characters.join("")}\u2026`) > limit) characters.pop();
  return `${characters.join("")}\u2026`;
}

const cornerOf = (node) => ({ x: LEFT + node.step * COLUMN, y: TOP + node.rank * ROW });

function drawTree(view) {
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
  const measure = (text) => context.measureText(text).width;
  picture.append(words("axis", "step", LEFT + 4, 16));
  for (let step = 1; step <= steps; step++) picture.append(words("axis", step, LEFT + step * COLUMN + 4, 16));
  for (let rank = 0; rank < ranks; rank++) picture.append(words("axis", rank + 1, 4, TOP + rank * ROW + 17));
  // What matters most is drawn last, so that it lies on top.
  const layers = [svg("g"), svg("g"), svg("g"), svg("g")];
  picture.append(...layers);
  const dead = (node) => node.fate === "pruned" || node.fate === "overtaken";
  view.drawn = nodes.map((node, index) => {
    if (node.parent !== null) {
      layers[node.winner ? 2 : dead(node) ? 0 : 1].append(drawEdge(nodes[node.parent], node));
    }
    const group = drawNode(view, node, index, measure);
    layers[3].append(group);
    return group;
  });
}

const classOf = (node) =>
  `${node.fate}${node.winner ? " winner" : ""}${node.forced ? " forced" : ""}`;

function drawEdge(parent, node) {
  const from = cornerOf(parent);
  const to = cornerOf(node);
  const [x1, y1] = [from.x + NODE.width, from.y + NODE.height / 2];
  const [x2, y2] = [to.x, to.y + NODE.height / 2];
  const bend = (x2 - x1) * 0.6;
  return svg("path", `edge ${classOf(node)}`, {
    d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`,
    "stroke-width": (0.75 + 5 * node.probability).toFixed(2),
  });
}

function drawNode(view, node, index, measure) {
  const { x, y } = cornerOf(node);
  const group = svg("g", `node ${classOf(node)}`, {
    "data-index": index,
    "data-fate": node.fate,
    id: `node-${index}`,
    role: "treeitem",
    "aria-level": node.step + 1,
    "aria-label": nameOf(view.data, node),
    transform: `translate(${x} ${y})`,
  });
  const title = svg("title");
  title.textContent = nameOf(view.data, node);
  group.append(title, svg("rect", "ground", { width: NODE.width, height: NODE.height, rx: 4 }));
  const label = cut(measure, view.data.tokens[node.id].label, NODE.width - (node.place ? 26 : 8));
  group.append(words("piece", isolated(label), 4, 16));
  if (node.parent !== null) {
    group.append(words("figures", signed(node.log_prob, 2), 4, 30));
    group.append(words("figures", signed(node.total, 2), NODE.width - 4, 30, "end"));
  }
  if (node.place) {
    group.append(svg("rect", "flag", { x: NODE.width - 19, y: 4, width: 15, height: 14, rx: 3 }));
    group.append(words("place", node.place, NODE.width - 11.5, 15, "middle"));
  }
  return group;
}

/* Shows which node is kept and which path leads to it, and brings the node into sight. */
function markKept(view) {
  const { kept, data, drawn, parts } = view;
  const path = new Set(pathTo(data, kept));
  drawn.forEach((group, index) => {
    group.classList.toggle("kept", index === kept);
    group.setAttribute("aria-selected", index === kept);
    group.classList.toggle("on-path", path.has(index) && index !== kept);
  });
  const { x } = cornerOf(data.nodes[kept]);
  const { box } = parts;
  box.setAttribute("aria-activedescendant", `node-${kept}`);
  const margin = COLUMN * 1.2;
  if (x - margin < box.scrollLeft) box.scrollLeft = Math.max(0, x - margin);
  else if (x + NODE.width + margin > box.scrollLeft + box.clientWidth) {
    box.scrollLeft = x + NODE.width + margin - box.clientWidth;
  }
}
