// Reads the states of a pass with a Jacobian lens, as core/experiments/jacobian_lens.py does.

import { topLogProbs } from "./search.js";
import { BOS } from "./subwords.js";

export const MOST_WORDS = 5; // per state

/** @type {Side[]} */
export const SIDES = ["encoder", "decoder"];

/**
 * What the states of one side say, row after row: layer from the embeddings, position, rank; ranks are those of the target's tokens, from 1.
 * @typedef {{ids: number[], logitIds: number[], probabilities: number[], ranks: number[]}} Reading
 */

/**
 * Read every state of a pass, under the record's edits.
 * @param {import("./transformer.js").Transformer} network  with the weights `lens.encoder` and `lens.decoder`, [layer × D, D]
 * @param {PassRecord} record
 * @param {() => Promise<void>} pause called after each layer; nothing else may run the network meanwhile
 * @returns {Promise<Record<Side, Reading>>}
 */
export async function readings(network, { source, targetOut, edits }, pause = async () => {}) {
  const written = targetOut.map(({ id }) => id);
  /** @type {Record<Side, Float32Array[]>} */
  const states = { encoder: [], decoder: [] };
  network.free();
  network.decode([BOS, ...written.slice(0, -1)], network.encode(source.map(({ id }) => id), edits, { states }), edits, { states });
  network.free();
  const found = /** @type {Record<Side, Reading>} */ ({});
  for (const side of SIDES) {
    found[side] = { ids: [], logitIds: [], probabilities: [], ranks: [] };
    for (const [layer, state_ND] of states[side].entries()) {
      readLayer(network, side, layer, state_ND, written, found[side]);
      await pause();
    }
  }
  return found;
}

function readLayer(network, side, layer, state_ND, written, found) {
  const { heap } = network, D = network.config.d_model, N = state_ND.length / D, start = heap.used;
  const x = heap.take(state_ND.length), moved = heap.take(state_ND.length), J_DD = network.weights[`lens.${side}`].subarray(layer * D * D);
  x.set(state_ND);
  heap.product({ x, w: J_DD, out: moved, rows: N, inner: D, outer: D });
  const mark = heap.used;
  const rowsRead = (read_ND) => {
    heap.used = mark; // logits take most memory
    const logits = network.embeddings.classify(network.decoderNorm.forward(read_ND)), V = logits.length / N;
    return Array.from({ length: N }, (_, n) => logits.subarray(n * V, (n + 1) * V));
  };
  for (const row of rowsRead(moved)) {
    for (const { id, logProb } of topLogProbs(row, MOST_WORDS)) {
      found.ids.push(id);
      found.probabilities.push(Math.exp(logProb));
    }
    for (const id of written) {
      let rank = 1;
      for (let v = 0; v < row.length; v++) if (row[v] > row[id]) rank++;
      found.ranks.push(rank);
    }
  }
  for (const row of rowsRead(x)) for (const { id } of topLogProbs(row, MOST_WORDS)) found.logitIds.push(id);
  heap.used = start;
}
