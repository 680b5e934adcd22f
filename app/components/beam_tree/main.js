// Mounts the search tree, tracks the pinned node and reports it to Python.

import { partsOf } from "../shared/dom.js";
import { fadeEdges } from "../shared/edges.js";
import { mounts } from "../shared/mounts.js";
import { readTheme } from "../shared/theme.js";
import { idsBefore, idsOf, candidates, neighbour, prepare } from "./nodes.js";
import { fillPanel, fillResults } from "./panel.js";
import { drawTree, markPinned } from "./tree.js";

const TELL_DELAY = 160; // ms

function createView(parent) {
  const root = parent.querySelector(".beam-tree");
  const parts = partsOf(root);
  const view = { root, parts, data: null, pinned: 0, drawn: [], hovered: null, painted: 0, timer: 0, tell: {}, fade: () => {} };
  parts.box.addEventListener("keydown", (event) => onKey(view, event));
  parts.tree.addEventListener("click", (event) => {
    const index = nodeUnder(event);
    if (index !== null) pin(view, index);
  });
  parts.tree.addEventListener("pointerover", (event) => event.pointerType !== "touch" && hover(view, nodeUnder(event)));
  parts.tree.addEventListener("pointerleave", () => hover(view, null));
  parts.alternatives.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) force(view, JSON.parse(button.dataset.force));
  });
  parts.results.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) pin(view, Number(button.dataset.node));
  });
  parts.continue.addEventListener("click", () => continueFrom(view, view.pinned));
  parts.type.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = parts.typed.value.trim();
    if (text) force(view, idsBefore(view.data, view.pinned), text);
  });
  view.fade = fadeEdges(parts.box);
  const observer = new ResizeObserver(() => layOut(view));
  observer.observe(root);
  layOut(view);
  view.destroy = () => {
    observer.disconnect();
    clearTimeout(view.timer);
  };
  return view;
}

function nodeUnder(event) {
  const group = event.target.closest(".node");
  return group ? Number(group.dataset.index) : null;
}

function layOut({ root, fade }) {
  root.dataset.width = root.clientWidth < 760 ? "narrow" : "wide";
  fade();
}

/** @param {TreeView} view */
function applyData(view, raw) {
  const { parts, root } = view;
  view.data = prepare(raw);
  view.hovered = null;
  view.pinned = raw.pinned;
  clearTimeout(view.timer); // a pending report is about the previous tree
  parts.typed.value = "";
  root.dataset.tree = raw.tree;
  const extended = raw.beam === 1 ? "One is extended" : `At most ${raw.beam} are extended`;
  parts.key.textContent =
    `Each column is one step: the ${candidates(raw.beam)} continuations with the highest sums, best on top. ${extended}; ` +
    "those struck through were pruned. A token is a word or part of a word. Under it: the sum of the log-probabilities " +
    "of its path and, on the chosen path, its own at the right. The thicker a line, the more probable its token; a number in a corner is the rank of a finished translation.";
  drawTree(view);
  fillResults(view);
  parts.box.scrollLeft = 0;
  view.fade();
  paint(view);
}

/** Paint everything that depends on the hovered or pinned node. @param {TreeView} view */
function paint(view) {
  const { root, data, pinned, hovered } = view;
  const shown = hovered ?? pinned;
  const node = data.nodes[shown];
  fillPanel(view, shown);
  if (hovered === null) markPinned(view);
  const { step, rank, status, total, score } = node;
  Object.assign(root.dataset, { kept: pinned, node: shown, step, rank, fate: status, total: total.toFixed(4), score: score.toFixed(4) });
  root.dataset.painted = String(++view.painted);
}

/** @param {TreeView} view */
function hover(view, index) {
  if (view.hovered === index) return;
  view.hovered = index;
  paint(view);
}

/** @param {TreeView} view */
function pin(view, index) {
  view.pinned = index;
  view.hovered = null;
  paint(view);
  // Debounce: only the node where an arrow key stops matters to Python.
  clearTimeout(view.timer);
  view.timer = setTimeout(() => view.tell.kept({ tree: view.data.tree, node: index }), TELL_DELAY);
}

/** Ask Python to search again with these ids, and optionally a typed text, as forced prefix. @param {TreeView} view */
function force(view, ids, text = "") {
  clearTimeout(view.timer);
  view.tell.force({ tree: view.data.tree, ids, text });
}

/** @param {TreeView} view */
function continueFrom(view, index) {
  if (!view.data.nodes[index].ended) force(view, idsOf(view.data, index));
}

/** @param {TreeView} view */
function onKey(view, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Enter") {
    event.preventDefault();
    continueFrom(view, view.pinned);
    return;
  }
  const next = neighbour(view, event.key);
  if (next === null) return;
  event.preventDefault();
  if (next >= 0 && next !== view.pinned) pin(view, next);
}

const viewAt = mounts(createView);

export default function render({ data, parentElement, setStateValue, setTriggerValue }) {
  const view = viewAt(parentElement);
  readTheme(view.root);
  view.tell = {
    kept: (value) => setStateValue("kept", value),
    force: (value) => setTriggerValue("force", value),
  };
  if (view.data?.tree !== data.tree) applyData(view, data);
  return view.destroy;
}
