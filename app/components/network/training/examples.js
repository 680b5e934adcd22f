// A task's examples as ids, with the source tokens that each target token should look at, as in core/small/examples.py.
//
// Axes: N examples, S source and T target tokens, both padded, P parts of the task.

import { BOS, EOS, idsOf, normalise } from "../subwords.js";
import { Random, TASKS } from "./tasks.js";

export const PAD = 0;
export const MAX_LENGTH = 64; // tokens of a side, with <eos>
export const FEW = 20; // with fewer given pairs, all serve for training and for testing
const QUOTED = 40; // characters
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

/* As core.files.printable. */
const printable = (text) => text.split(/[\p{C}\p{Z}]+/u).filter(Boolean).join(" ").replaceAll("`", "'");

/** The examples of a generated task, or given pairs, encoded with their own vocabulary. */
export class Examples {
  /**
   * Throws a RangeError for a pair that is too long.
   * @param {string} task a name of TASKS, or any other name with pairs
   * @param {import("../subwords.js").Tokenizer} tokenizer
   * @param {[source: string, target: string][] | null} [pairs]
   */
  constructor(task, tokenizer, pairs = null) {
    const given = pairs?.map(([source, target]) => ({ source: normalise(source), target: normalise(target), links: [] }));
    this.task = task;
    this.tokenizer = tokenizer;
    this.parts = given ? [] : TASKS[task].parts;
    const used = given && (given.length < FEW ? given : given.slice(0, -Math.min(HELD_OUT, Math.floor(given.length / 10))));
    this.isHeldOut = !given || used.length < given.length;
    /** @type {(random: Random) => import("./tasks.js").Example} */
    this.draw = given ? (random) => used[random.below(used.length)] : TASKS[task].draw;
    this.heldOut = !given ? this.drawn() : this.isHeldOut ? given.slice(used.length) : given.slice(0, HELD_OUT);
    this.excluded = new Set(given ? [] : this.heldOut.map(({ source }) => source));
    this.longest = Math.max(...(given ?? this.heldOut).flatMap((example) => this.encode(example).map(({ length }) => length)));
    this.held = collate(this.heldOut.map((example) => this.encode(example)));
    this.right = this.alignment();
  }

  /* Different examples, which a generated task never trains on. */
  drawn() {
    const random = new Random(HELD_OUT_SEED), found = new Map();
    while (found.size < HELD_OUT) {
      const example = this.draw(random);
      if (!found.has(example.source)) found.set(example.source, example);
    }
    return [...found.values()];
  }

  /** Draw a training batch. @param {Random} random @param {number} size */
  batch(random, size) {
    const drawn = [];
    while (drawn.length < size) {
      const example = this.draw(random);
      if (!this.excluded.has(example.source)) drawn.push(this.encode(example));
    }
    return collate(drawn);
  }

  /** The ids of a pair, each side with <eos>. Throws a RangeError for a long side. @returns {[number[], number[]]} */
  encode({ source, target }) {
    const sides = [source, target].map((text) => [...idsOf(this.tokenizer.encode(text)), EOS]);
    const longest = Math.max(...sides.map((ids) => ids.length));
    if (longest > MAX_LENGTH) {
      const text = printable([...(sides[0].length === longest ? source : target)].slice(0, QUOTED).join(""));
      throw new RangeError(`\u201c${text}\u2026\u201d has ${longest} tokens with <eos>: the limit is ${MAX_LENGTH}, shorten it or leave it out`);
    }
    return /** @type {[number[], number[]]} */ (sides);
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
