// Tree structure without drawing: node properties, navigation and names.

import { fixed } from "../shared/numbers.js";
import { isolated } from "../shared/tokens.js";

/* Name each node's fields and add derived ones, such as its rank among the finished hypotheses (`finalRank`, 0: none). */
export function prepare(raw) {
  const nodes = raw.nodes.map(([parent, id, step, rank, log_prob, total, score, status, forced, next]) => ({
    parent, id, step, rank, log_prob, total, score, status, forced, next,
    probability: Math.exp(Math.min(0, log_prob)),
    ended: raw.tokens[id].end || step === raw.limit,
    winner: false,
    childless: true,
    finalRank: 0,
  }));
  for (const node of nodes) if (node.parent !== null) nodes[node.parent].childless = false;
  raw.hypotheses.forEach(({ end }, index) => (nodes[end].finalRank = index + 1));
  const data = { ...raw, nodes };
  const [best] = raw.hypotheses;
  if (best) for (const at of [0, ...pathTo(data, best.end)]) nodes[at].winner = true;
  return data;
}

/** Node indices from the first token to this node. @param {TreeData} data */
export function pathTo(data, index) {
  const path = [];
  for (let at = index; data.nodes[at].parent !== null; at = data.nodes[at].parent) path.unshift(at);
  return path;
}

/** @param {TreeData} data */
export const idsOf = (data, index) => pathTo(data, index).map((at) => data.nodes[at].id);

/** @param {TreeData} data */
export const idsBefore = (data, index) => idsOf(data, data.nodes[index].parent ?? 0);

/** @param {TreeData} data */
const childrenOf = (data, index) =>
  data.nodes.map((_, at) => at).filter((at) => data.nodes[at].parent === index);

/* The node to which an arrow key, Home or End leads: -1 if no node is there, null for any other key. */
export function neighbour({ data, pinned }, key) {
  const node = data.nodes[pinned];
  const beside = (rank) => data.nodes.findIndex((other) => other.step === node.step && other.rank === rank);
  switch (key) {
    case "ArrowLeft":
      return node.parent ?? pinned;
    case "ArrowRight": {
      const children = childrenOf(data, pinned);
      return children.find((at) => data.nodes[at].winner) ?? children[0] ?? pinned;
    }
    case "ArrowUp":
      return beside(node.rank - 1);
    case "ArrowDown":
      return beside(node.rank + 1);
    case "Home":
      return 0;
    case "End":
      return data.hypotheses[0]?.end ?? pinned;
    default:
      return null;
  }
}

/** @param {TreeData} data @param {TreeNode} node */
export function nameOf(data, node) {
  const { label } = data.tokens[node.id];
  if (node.parent === null) return `${label}, fed in first`;
  const sums = `log-probability ${fixed(node.log_prob, 2)}, sum ${fixed(node.total, 2)}`;
  return `${isolated(label)}, step ${node.step}, ${sums}, ${wordsOfStatus(data, node)}`;
}

/* Number of continuations that the search compares per step. */
export const candidates = (beam) => Math.max(2 * beam, 5);

/** How many others finished with a better score. @param {TreeData} data @param {TreeNode} node */
const betterThan = ({ nodes }, { score }) => nodes.filter((other) => ["finished", "overtaken"].includes(other.status) && other.score > score).length;

/** Explain the status of a hypothesis. @param {TreeData} data @param {TreeNode} node */
export function wordsOfStatus(data, node) {
  const { beam } = data;
  const best = beam === 1 ? "another token was more probable" : `${node.rank} others had a higher sum in this step`;
  const forced = node.forced ? "Forced, whatever its probability. " : "";
  switch (node.status) {
    case "finished":
      if (!node.finalRank) return `${forced}Finished.`;
      return `${forced}Finished: ${node.finalRank === 1 ? "the best score, so this is the translation" : `rank ${node.finalRank} by score`}.`;
    case "overtaken":
      return `Finished, but ${beam === 1 ? "another" : `${betterThan(data, node)} others`} finished with a better score.`;
    case "left":
      return "Still open when the search stopped: it could no longer beat the best finished translation.";
    case "pruned":
      return `${node.ended ? "Pruned at its end" : "Pruned"}: ${best}.`;
    default:
      if (node.parent === null) return "Every translation starts here.";
      if (node.winner) return `${forced}On the path of the translation.`;
      if (!node.childless) return `${forced}Kept and extended.`;
      return `${forced}Kept, but none of its continuations was among the best ${candidates(beam)} of the next step.`;
  }
}
