// Points of a run: what was measured there, the weights, and the maps of one example, as in core/small/history.py.

import { BOS, UNK } from "../subwords.js";
import { MAX_LENGTH, padded } from "./examples.js";

const MOST_POINTS = 40; // when there are more, every other one is forgotten, and further ones come half as often
const EVERY = 10; // steps between the first points
const MORE_WRITTEN = 4; // tokens that an answer may be longer than the right one

/**
 * Only the last point may be passing: the next one takes its place.
 * @typedef {{measured: ReturnType<import("./run.js").SmallRun["measure"]>, weights: Float32Array[], maps: Record<Kind, Float32Array>, passing: boolean}} Point
 */

/** The points of a run so far; `watch` chooses the example whose maps are kept. */
export class History {
  /** @param {import("./run.js").SmallRun} run */
  constructor(run) {
    this.run = run;
    this.every = EVERY;
    /** @type {Point[]} */
    this.points = [];
    this.watch(run.examples.heldOut[0].source);
    this.add();
  }

  get last() {
    return this.points.at(-1).measured;
  }

  /** Measure the network and keep a point, until the next one if none is due. */
  add() {
    const { run, points } = this, step = run.stepNumber, last = points.at(-1);
    if (last?.measured.step === step) return;
    if (last?.passing) points.pop();
    points.push({ measured: run.measure(), weights: this.weights(Float32Array), maps: run.maps(...this.ids), passing: step % this.every !== 0 });
    if (points.length <= MOST_POINTS) return;
    this.every *= 2;
    this.points = points.filter(({ measured }) => measured.step % this.every === 0);
  }

  /**
   * Show another example; its maps are computed from the weights of each point. One that is not held out is fed what the
   * network writes now. Throws a RangeError for one that is too long.
   * @param {string} source
   */
  watch(source) {
    const { run, points } = this, example = run.examples.heldOut.find((one) => one.source === source) ?? { source, target: "" };
    const [own, right] = run.examples.encode(example), target = example.target ? right : run.write(padded([own]), MAX_LENGTH)[0];
    const maps = this.replay(() => run.maps(own, target));
    points.forEach((point, at) => (point.maps = maps[at]));
    this.example = example;
    this.ids = /** @type {[number[], number[]]} */ ([own, target]);
  }

  /** Call a function with the weights of each point in turn. @template T @param {() => T} use */
  replay(use) {
    const now = this.weights(Float64Array);
    try {
      return this.points.map(({ weights }) => {
        this.setWeights(weights);
        return use();
      });
    } finally {
      this.setWeights(now);
    }
  }

  /** Copies of the network's weights. @template T @param {{from: (numbers: Float32Array) => T}} Numbers */
  weights(Numbers) {
    return Object.values(this.run.network.parameters).map(({ values }) => Numbers.from(values));
  }

  setWeights(weights) {
    Object.values(this.run.network.parameters).forEach(({ values }, at) => values.set(weights[at]));
  }

  /** The example, and what the network writes for it now. */
  shown() {
    const { run, example: { source, target }, ids } = this;
    const [written] = run.write(padded([ids[0]]), target ? ids[1].length + MORE_WRITTEN : MAX_LENGTH);
    return { source, target, written: run.examples.tokenizer.decode(written) };
  }

  /** The tokens along the axes of the maps. */
  tokens() {
    const { run: { examples: { tokenizer } }, ids: [source, target] } = this;
    const tokensOf = (ids) => ids.map((id) => ({ ...tokenizer.token(id), unknown: id === UNK }));
    return { source: tokensOf(source), target_in: tokensOf([BOS, ...target.slice(0, -1)]), target_out: tokensOf(target) };
  }
}

/**
 * The layer and the head, from 0, with the largest share of a part, and the share.
 * @param {History} history @param {number} part
 */
export function bestHead({ last: { shares }, run: { config, examples } }, part) {
  const count = shares.length / examples.parts.length, own = shares.subarray(part * count, (part + 1) * count);
  const share = Math.max(...own), at = own.indexOf(share);
  return { layer: Math.floor(at / config.heads), head: at % config.heads, share };
}
