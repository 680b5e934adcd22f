// A task's examples as ids, with the source tokens that each target token should look at, as in core/small/examples.py.
//
// Axes: N examples, S source and T target tokens, both padded, P parts of the task.

import { BOS, EOS, idsOf } from "../subwords.js";
import { Random, TASKS } from "./tasks.js";

export const PAD = 0;
const HELD_OUT = 100;
const HELD_OUT_SEED = 0; // the training draws from other seeds

/**
 * Rows of ids, padded to the longest: targetIn begins with <bos>, targetOut is one token ahead and ends with <eos>.
 * @typedef {{rows: number, length: number, ids: Int32Array}} Padded
 * @typedef {{source: Padded, targetIn: Padded, targetOut: Padded}} Batch
 */

/** @param {number[][]} rows @returns {Padded} */
export function padded(rows) {
  const length = Math.max(...rows.map((row) => row.length)), ids = new Int32Array(rows.length * length).fill(PAD);
  for (const [n, row] of rows.entries()) ids.set(row, n * length);
  return { rows: rows.length, length, ids };
}

/** @param {[source: number[], target: number[]][]} pairs with <eos> @returns {Batch} */
export function collate(pairs) {
  const targets = pairs.map(([, target]) => target);
  return {
    source: padded(pairs.map(([source]) => source)),
    targetIn: padded(targets.map((target) => [BOS, ...target.slice(0, -1)])),
    targetOut: padded(targets),
  };
}

/** The examples of a generated task, encoded with its own vocabulary. */
export class Examples {
  /** @param {string} task a name of TASKS @param {import("../subwords.js").Tokenizer} tokenizer */
  constructor(task, tokenizer) {
    this.task = task;
    this.tokenizer = tokenizer;
    this.parts = TASKS[task].parts;
    const random = new Random(HELD_OUT_SEED), found = new Map();
    while (found.size < HELD_OUT) {
      const example = TASKS[task].draw(random);
      if (!found.has(example.source)) found.set(example.source, example);
    }
    this.heldOut = [...found.values()];
    this.excluded = new Set(found.keys());
    this.held = collate(this.heldOut.map((example) => this.encode(example)));
    this.right = this.alignment();
  }

  /** Draw a training batch. @param {Random} random @param {number} size */
  batch(random, size) {
    const drawn = [];
    while (drawn.length < size) {
      const example = TASKS[this.task].draw(random);
      if (!this.excluded.has(example.source)) drawn.push(this.encode(example));
    }
    return collate(drawn);
  }

  /** The ids of a pair, each side with <eos>. @returns {[number[], number[]]} */
  encode({ source, target }) {
    return [[...idsOf(this.tokenizer.encode(source)), EOS], [...idsOf(this.tokenizer.encode(target)), EOS]];
  }

  /*
   * Return [P, N, T, S]: 1 where the target token of row t belongs to the part and its characters are determined by the
   * source token of column s.
   */
  alignment() {
    const { rows: N, length: S } = this.held.source, T = this.held.targetOut.length, right = new Uint8Array(this.parts.length * N * T * S);
    for (const [n, { source, target, links }] of this.heldOut.entries()) {
      const ofSource = this.tokenOf(source), ofTarget = this.tokenOf(target);
      for (const link of links)
        for (const character of link.source)
          right[((this.parts.indexOf(link.part) * N + n) * T + ofTarget(link.target)) * S + ofSource(character)] = 1;
    }
    return right;
  }

  /* The function from a character of a text to the index of its token. */
  tokenOf(text) {
    const starts = this.tokenizer.placed(text).map(({ start }) => start);
    return (character) => starts.findLastIndex((start) => start <= character);
  }
}
