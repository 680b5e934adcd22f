// Mounts the search tree, holds which node is kept, and tells Python of it.

/* Streamlit calls again with the same parent for new data and new themes; the state outlives the calls. */
const views = new WeakMap();
const TELL_DELAY = 160;

function createView(parent) {
  const root = parent.querySelector(".beam-tree");
  const parts = {};
  for (const part of root.querySelectorAll("[data-part]")) parts[part.dataset.part] = part;
  const view = { root, parts, data: null, kept: 0, drawn: [], hovered: null, painted: 0, timer: 0, tell: {} };
  parts.box.addEventListener("keydown", (event) => onKey(view, event));
  parts.tree.addEventListener("click", (event) => {
    const index = nodeUnder(event);
    if (index !== null) keep(view, index);
  });
  parts.tree.addEventListener("pointerover", (event) => event.pointerType !== "touch" && hover(view, nodeUnder(event)));
  parts.tree.addEventListener("pointerleave", () => hover(view, null));
  parts.continue.addEventListener("click", () => continueFrom(view, view.kept));
  parts.type.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = parts.typed.value.trim();
    if (text) force(view, idsBefore(view.data, view.kept), text);
  });
  const observer = new ResizeObserver(() => layOut(view));
  observer.observe(root);
  view.destroy = () => {
    observer.disconnect();
    clearTimeout(view.timer);
    views.delete(parent);
  };
  return view;
}

function nodeUnder(event) {
  const group = event.target.closest(".node");
  return group ? Number(group.dataset.index) : null;
}

function layOut({ root }) {
  root.dataset.width = root.clientWidth < 760 ? "narrow" : "wide";
}

/* Adds to the nodes what only their company tells: who won, who ended, who has no children. */
function prepare(raw) {
  const nodes = raw.nodes.map(([parent, id, step, rank, log_prob, total, score, fate, forced, next]) => ({
    parent, id, step, rank, log_prob, total, score, fate, forced, next,
    probability: Math.exp(Math.min(0, log_prob)),
    ended: raw.tokens[id].end || step === raw.limit,
    winner: false,
    childless: true,
    place: 0,
  }));
  for (const node of nodes) if (node.parent !== null) nodes[node.parent].childless = false;
  raw.hypotheses.forEach(({ end }, place) => (nodes[end].place = place + 1));
  const data = { ...raw, nodes };
  const [best] = raw.hypotheses;
  if (best) for (const at of [0, ...pathTo(data, best.end)]) nodes[at].winner = true;
  return data;
}

function takeData(view, raw) {
  const { parts, root } = view;
  view.data = prepare(raw);
  view.hovered = null;
  view.kept = raw.pinned;
  clearTimeout(view.timer); // what was about to be told is a node of the tree before
  parts.typed.value = "";
  root.dataset.tree = raw.tree;
  const looked = raw.beam === 1 ? "the likeliest five" : `the best ${2 * raw.beam}`;
  const kept = raw.beam === 1 ? "one goes" : `${raw.beam} go`;
  parts.key.textContent =
    `Each column is a step: ${looked} continuations, the likeliest on top; ${kept} on, the struck ones do not. ` +
    "Under a piece: its log-probability, and the sum of its path. A thick line is a likely piece; a number marks an end.";
  drawTree(view);
  fillResults(view);
  parts.box.scrollLeft = 0;
  paint(view);
}

/* Everything that depends on the node looked at. */
function paint(view) {
  const { root, data, kept, hovered } = view;
  const shown = hovered ?? kept;
  const node = data.nodes[shown];
  fillPanel(view, shown);
  if (hovered === null) markKept(view);
  root.dataset.kept = kept;
  root.dataset.node = shown;
  root.dataset.step = node.step;
  root.dataset.rank = node.rank;
  root.dataset.fate = node.fate;
  root.dataset.total = node.total.toFixed(4);
  root.dataset.score = node.score.toFixed(4);
  root.dataset.painted = ++view.painted;
}

function hover(view, index) {
  if (view.hovered === index) return;
  view.hovered = index;
  paint(view);
}

function keep(view, index) {
  view.kept = index;
  view.hovered = null;
  paint(view);
  // An arrow key held down walks many nodes; Python only needs to know where it stops.
  clearTimeout(view.timer);
  view.timer = setTimeout(() => view.tell.kept({ tree: view.data.tree, node: index }), TELL_DELAY);
}

/* Asks Python to search again behind these ids, and behind a typed text if there is one. */
function force(view, ids, text = "") {
  clearTimeout(view.timer);
  view.tell.force({ tree: view.data.tree, ids, text });
}

const idsOf = (data, index) => pathTo(data, index).map((at) => data.nodes[at].id);
const idsBefore = (data, index) => idsOf(data, data.nodes[index].parent ?? 0);

function continueFrom(view, index) {
  if (!view.data.nodes[index].ended) force(view, idsOf(view.data, index));
}

const childrenOf = (data, index) =>
  data.nodes.map((_, at) => at).filter((at) => data.nodes[at].parent === index);

function neighbour({ data, kept }, key) {
  const node = data.nodes[kept];
  const beside = (rank) => data.nodes.findIndex((other) => other.step === node.step && other.rank === rank);
  switch (key) {
    case "ArrowLeft":
      return node.parent ?? kept;
    case "ArrowRight": {
      const children = childrenOf(data, kept);
      return children.find((at) => data.nodes[at].winner) ?? children[0] ?? kept;
    }
    case "ArrowUp":
      return beside(node.rank - 1);
    case "ArrowDown":
      return beside(node.rank + 1);
    case "Home":
      return 0;
    case "End":
      return data.hypotheses[0]?.end ?? kept;
    default:
      return null;
  }
}

function onKey(view, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Enter") {
    event.preventDefault();
    continueFrom(view, view.kept);
    return;
  }
  const next = neighbour(view, event.key);
  if (next === null) return;
  event.preventDefault();
  if (next >= 0 && next !== view.kept) keep(view, next);
}

export default function render({ data, parentElement, setStateValue, setTriggerValue }) {
  let view = views.get(parentElement);
  if (!view) {
    view = createView(parentElement);
    views.set(parentElement, view);
    layOut(view);
  }
  view.tell = {
    kept: (value) => setStateValue("kept", value),
    force: (value) => setTriggerValue("force", value),
  };
  if (view.data?.tree !== data.tree) takeData(view, data);
  return view.destroy;
}
