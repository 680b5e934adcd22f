// Copies and pushes of states and of heads' outputs, as in core/record/states.py.

import { headsOf, NO_EDITS } from "./edits.js";
import { rowOfMatrix } from "./product.js";
import { twister } from "./twister.js";

/** @typedef {"encoder" | "decoder"} Side */

/**
 * The states of a pass without edits, by side and layer (0: the embeddings), and the heads' outputs by attention, [N, D].
 * @typedef {{states: Record<Side, Float32Array[]>, heads: Record<string, Float32Array>}} Donated
 */

/** Whether edits copy anything from the donor. @param {import("./edits.js").Edits} edits */
const copies = ({ donor, patches, headPatches }) => donor && patches.length + headPatches.length > 0;

/** What the edits of states need, kept by a network: the donors' passes and the directions, each computed once. */
export class StateEdits {
  constructor(network) {
    this.network = network;
    this.kept = new WeakMap();
  }

  /** Run the donor's pass, unless it was kept. Only `encode` calls it, so that there is memory for it. */
  prepare(edits) {
    if (copies(edits) && !this.kept.has(edits.donor)) this.kept.set(edits.donor, this.donated(edits.donor));
  }

  /** @param {import("./edits.js").Donor} donor @returns {Donated} */
  donated({ source, target }) {
    const { network } = this, mark = network.heap.used, capture = { states: { encoder: [], decoder: [] }, outputs: {} };
    network.decode([...target], network.encode([...source], NO_EDITS, capture), NO_EDITS, capture);
    network.heap.used = mark;
    return { states: capture.states, heads: capture.outputs };
  }

  /**
   * Copy and push the states of a side after a layer, in place. `position(row)` is the place of each row of x [rows, D].
   * @param {Float32Array} x @param {Side} side
   */
  change(x, side, layer, edits, position = (row) => row) {
    const D = this.network.config.d_model;
    for (const one of [...edits.patches, ...edits.pushes]) {
      if (one.side !== side || one.layer !== layer) continue;
      for (let row = 0; row < x.length / D; row++) {
        if (position(row) !== one.position) continue;
        const state_D = x.subarray(row * D, (row + 1) * D);
        if (!("strength" in one)) state_D.set(rowOf(this.kept.get(edits.donor).states[side][layer], one.donorPosition, D));
        else for (const [i, step] of this.pushOf(one).entries()) state_D[i] += step;
      }
    }
  }

  /** Copy heads' outputs z [rows, D] of an attention, in place. */
  changeHeads(z_QD, kind, layer, edits, own, capture, position) {
    const D = this.network.shapes[`${kind === "encoder" ? kind : "decoder"}.${layer}.self_attention.query.weight`][0];
    const E = D / headsOf(this.network.config, kind), name = `${kind}.${layer}`;
    if (capture?.outputs) capture.outputs[name] = z_QD.slice();
    for (const { head, query, donorQuery } of own?.copied ?? []) {
      const donor_D = rowOf(this.kept.get(edits.donor).heads[name], donorQuery, D).subarray(head * E, (head + 1) * E);
      for (let row = 0; row < z_QD.length / D; row++) if (position(row) === query) z_QD.set(donor_D, row * D + head * E);
    }
  }

  /** The vector that a push adds, float32 [D]. */
  pushOf(push) {
    if (!this.kept.has(push)) {
      const direction_D = "seed" in push ? randomDirection(push.seed, this.network.config.d_model) : lensDirection(this.network, push);
      this.kept.set(push, Float32Array.from(direction_D, (number) => push.strength * number));
    }
    return this.kept.get(push);
  }
}

const rowOf = (x_ND, row, D) => x_ND.subarray(row * D, (row + 1) * D);

/** A unit vector fixed by the seed: whole numbers, each from 32 random bits, then normalised. @returns {Float64Array} */
export function randomDirection(seed, length) {
  const bits = twister(seed);
  return normalised(Float64Array.from({ length }, () => {
    const drawn = bits();
    return (drawn & 255) + ((drawn >>> 8) & 255) + ((drawn >>> 16) & 255) + (drawn >>> 24) - 510;
  }));
}

/* J_lᵀ(w_new − w_old), normalised. */
function lensDirection({ config, weights, embeddings }, { side, layer, old, new: to }) {
  const D = config.d_model, lens = weights[`lens.${side}`].subarray(layer * D * D), words = embeddings.classifier.weight;
  const wordOf = (id) => rowOfMatrix(words, id, D), new_D = wordOf(to), old_D = old === null ? new Float32Array(D) : wordOf(old);
  const found = new Float64Array(D);
  for (let row = 0; row < D; row++) {
    const difference = new_D[row] - old_D[row];
    for (let i = 0; i < D; i++) found[i] += difference * lens[row * D + i];
  }
  return normalised(found);
}

function normalised(vector) {
  const length = Math.sqrt(vector.reduce((sum, number) => sum + number * number, 0));
  return length ? vector.map((number) => number / length) : vector;
}
