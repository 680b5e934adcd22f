// A run: a small network that is trained one step at a time, and measured when asked, as in core/small/run.py.
//
// Axes: B batch, N held-out examples, S source and T target tokens, P parts, L layers, H heads, V vocabulary.

import { makeHeap } from "../product.js";
import { BOS, EOS } from "../subwords.js";
import { bleuOf } from "./bleu.js";
import { collate, MAX_LENGTH, PAD, padded } from "./examples.js";
import { TrainedTransformer } from "./network.js";
import { Random } from "./tasks.js";

/**
 * What a visitor may choose, as SmallConfig in Python.
 * @typedef {{layers: number, heads: number, d_model: number, positions: "sinusoids" | "learned" | "none", norm_first: boolean,
 *   label_smoothing: number, warmup: number, seed: number, bug: import("./network.js").Bug | null}} SmallConfig
 * @typedef {import("./examples.js").Batch} Batch
 * @typedef {import("./examples.js").Examples} Examples
 */

/** @type {SmallConfig} */
export const DEFAULTS = {
  layers: 2, heads: 4, d_model: 64, positions: "sinusoids", norm_first: true, label_smoothing: 0, warmup: 50, seed: 1, bug: null,
};
export const BATCH = 64;
const MORE_TOKENS = 2; // that a written answer may be longer than the longest right one
const LOOKING_AHEAD = ["over_queries", "inverted_mask", "no_causal_mask", "reshaped"]; // mistakes with which a state depends on later tokens
const PEAK_RATE = 3e-3, BETA1 = 0.9, BETA2 = 0.98, ADAM_EPS = 1e-8, CLIP_NORM = 1;

/** A network in training. Make it with `makeRun`. */
export class SmallRun {
  /** @param {import("../product.js").Heap} heap @param {Examples} examples @param {SmallConfig} config */
  constructor(heap, examples, config) {
    this.heap = heap;
    this.examples = examples;
    this.config = config;
    this.network = new TrainedTransformer(heap, shapeOf(examples, config));
    this.random = new Random(config.seed);
    this.initialise();
    this.empty = heap.used;
    this.stepNumber = 0;
    this.seconds = 0; // spent in steps
    /** @type {number[]} */
    this.losses = [];
  }

  /*
   * Draw all weights uniformly, from 32 random bits each. Matrices follow Glorot & Bengio 2010; those of queries, keys and
   * values have the gain √½. Tables have variance 1/d_model. Norms begin as the identity.
   */
  initialise() {
    for (const [name, { values, shape: [rows, columns] }] of Object.entries(this.network.parameters)) {
      if (!columns) {
        values.fill(name.endsWith("weight") ? 1 : 0);
        continue;
      }
      const gain = /\.(query|key|value)\./.test(name) ? Math.sqrt(0.5) : 1;
      const bound = name.startsWith("embeddings.") ? Math.sqrt(3 / columns) : gain * Math.sqrt(6 / (rows + columns));
      for (let i = 0; i < values.length; i++) values[i] = Math.fround((this.random.bits() / 2 ** 31 - 1) * bound);
      if (this.config.positions === "none" && name.endsWith("_positions.weight")) values.fill(0);
    }
  }

  /** Train on the next batch; return its loss. Throws a RangeError if the loss is not finite any more. */
  step() {
    const started = performance.now(), loss = this.gradients(this.examples.batch(this.random, BATCH));
    let squares = 0;
    for (const { gradient } of Object.values(this.network.parameters)) for (let i = 0; i < gradient.length; i++) squares += gradient[i] ** 2;
    if (!Number.isFinite(loss + squares))
      throw new RangeError(`the loss is ${loss} at step ${this.stepNumber + 1}: start again with a longer warm-up`);
    this.adam(Math.min(1, CLIP_NORM / (Math.sqrt(squares) + 1e-6)));
    this.losses.push(loss);
    this.seconds += (performance.now() - started) / 1000;
    return loss;
  }

  /** Compute the loss of a batch and the gradients of all weights. @param {Batch} batch */
  gradients({ source, targetIn, targetOut }) {
    const { network, heap, config } = this;
    heap.used = this.empty;
    const logits = network.forward(source, targetIn), loss = crossEntropy(logits, targetOut.ids, config.label_smoothing);
    network.backward(logits);
    heap.used = this.empty;
    return loss;
  }

  /* Change the weights by Adam, with gradients times `clip` and a rate that rises, then falls with 1/√step (§5.3, eq. 3). */
  adam(clip) {
    const step = ++this.stepNumber, { warmup } = this.config;
    const rate = (PEAK_RATE * Math.min(step / warmup, Math.sqrt(warmup / step))) / (1 - BETA1 ** step), root = Math.sqrt(1 - BETA2 ** step);
    for (const { values, gradient, first, second } of Object.values(this.network.parameters))
      for (let i = 0; i < values.length; i++) {
        const g = gradient[i] * clip;
        first[i] += (1 - BETA1) * (g - first[i]);
        second[i] += (1 - BETA2) * (g * g - second[i]);
        values[i] -= (rate * first[i]) / (Math.sqrt(second[i]) / root + ADAM_EPS);
      }
  }

  /**
   * Measure the network on the held-out examples: `loss` in nats per token, unsmoothed; `exact`, the share of answers that
   * it writes without a mistake, greedily; `shares` [P, L, H], the mean weight of a cross-attention head on the right
   * source tokens of each part; `chance` [P], that of uniform weights.
   */
  measure() {
    const { examples, network, heap, config: { bug } } = this, { source, targetIn, targetOut } = examples.held;
    heap.used = this.empty;
    const logits = network.forward(source, targetIn), counted = LOOKING_AHEAD.includes(bug) ? null : exactnessOf(logits, targetOut);
    const loss = crossEntropy(logits, targetOut.ids, 0), { shares, chance } = this.alignment();
    return { step: this.stepNumber, loss, exact: counted ?? this.exactness(), shares, chance };
  }

  /* The share of answers written without a mistake: an answer is written on only while it is right, so it begins as the right one. */
  exactness() {
    const { network, heap, examples: { held: { source, targetIn, targetOut } } } = this, { V } = network.shape, limit = Math.min(targetOut.length, MAX_LENGTH - 1);
    heap.used = this.empty;
    const memory = network.encode(source), mark = heap.used, size = memory.length / source.rows;
    let open = Array.from({ length: source.rows }, (_, n) => n), right = 0;
    for (let T = 1; T <= limit && open.length; T++) {
      heap.used = mark;
      const own = heap.take(open.length * size), next = (n) => targetOut.ids[n * targetOut.length + T - 1];
      open.forEach((n, at) => own.set(memory.subarray(n * size, (n + 1) * size), at * size));
      const logits = network.classifier.forward(network.decode(chosenRows(targetIn, open, T), own, chosenRows(source, open, source.length)));
      const stillRight = open.filter((n, at) => best(logits.subarray((at * T + T - 1) * V, (at * T + T) * V)) === next(n));
      open = stillRight.filter((n) => next(n) !== EOS);
      right += stillRight.length - open.length;
    }
    return right / source.rows;
  }

  /** The BLEU of the answers to the held-out examples. */
  bleu() {
    const [written, right] = this.answers().map((rows) => rows.map((ids) => this.examples.tokenizer.decode(ids)));
    return bleuOf(written, right);
  }

  /* What the network writes for the held-out examples, and the right answers. */
  answers() {
    const { source, targetOut } = this.examples.held;
    return [this.write(source, targetOut.length + MORE_TOKENS), rowsOfIds(targetOut)];
  }

  /* The shares and the chance of `measure`, from the maps of the last pass over the held-out examples. */
  alignment() {
    const { examples: { right, parts, held }, network } = this, { rows: N, length: S } = held.source, T = held.targetOut.length;
    const lengths = rowsOfIds(held.source).map((row) => row.length), heads = this.config.heads, count = network.decoder.length * heads;
    const shares = new Float64Array(parts.length * count), chance = new Float64Array(parts.length), rows = new Float64Array(parts.length);
    for (let p = 0, at = 0; p < parts.length; p++)
      for (let n = 0; n < N; n++)
        for (let t = 0; t < T; t++) {
          const columns = Array.from(right.subarray(at, (at += S))).flatMap((one, s) => (one ? [s] : []));
          rows[p] += columns.length ? 1 : 0;
          chance[p] += columns.length / lengths[n];
          for (let one = 0; one < count && columns.length; one++) {
            const { weights } = network.decoder[Math.floor(one / heads)].crossAttention;
            for (const s of columns) shares[p * count + one] += weights[((n * heads + (one % heads)) * T + t) * S + s];
          }
        }
    const mean = (sums) => sums.map((sum, at) => sum / Math.max(rows[Math.floor((at * parts.length) / sums.length)], 1));
    return { shares: mean(shares), chance: mean(chance) };
  }

  /**
   * Translate sources greedily: ids of each answer, with <eos> unless cut off. Each token comes from a full pass over the
   * prefix, as in training, so that the mistake acts here too.
   * @param {import("./examples.js").Padded} source @param {number} limit
   */
  write(source, limit) {
    const { network, heap } = this, { V } = network.shape;
    heap.used = this.empty;
    const memory = network.encode(source), mark = heap.used;
    let rows = Array.from({ length: source.rows }, () => [BOS]);
    for (let T = 1; T <= Math.min(limit, MAX_LENGTH - 1) && rows.some((row) => !isOver(row)); T++) {
      heap.used = mark;
      const logits = network.classifier.forward(network.decode(padded(rows), memory, source));
      rows = rows.map((row, b) => [...row, isOver(row) ? PAD : best(logits.subarray((b * T + T - 1) * V, (b * T + T) * V))]);
    }
    return rows.map((row) => row.slice(1).filter((id) => id !== PAD));
  }

  /** The maps [L, H, Q, K] of a teacher-forced pass by kind; both sides end with <eos>. @param {number[]} source @param {number[]} target */
  maps(source, target) {
    const { network, heap } = this, batch = collate([[source, target]]);
    heap.used = this.empty;
    network.forward(batch.source, batch.targetIn);
    const joinedMaps = (sites) => Float32Array.from(sites.flatMap(({ weights }) => [...weights]));
    return {
      encoder: joinedMaps(network.encoder.map((layer) => layer.selfAttention)),
      decoder: joinedMaps(network.decoder.map((layer) => layer.selfAttention)),
      cross: joinedMaps(network.decoder.map((layer) => layer.crossAttention)),
    };
  }

  /** The network in the form that `makeNetwork` of ../transformer.js takes, without the mistake. */
  stored(about = {}) {
    const { D, H, F, V, layers, maxLength, positions, normFirst } = this.network.shape, tensors = {};
    for (const [name, { values, shape }] of Object.entries(this.network.parameters))
      tensors[name] = { shape, kind: /** @type {const} */ ("f32"), values: Float32Array.from(values), scales: null };
    const config = {
      source_vocab_size: V, target_vocab_size: V, d_model: D, num_heads: H, num_encoder_layers: layers, num_decoder_layers: layers,
      dim_feedforward: F, dropout: 0, attention_dropout: null, norm_first: normFirst, layer_norm_eps: 1e-5, qkv_bias: true,
      mask_score: null, learned_positions: positions !== "sinusoids", max_length: maxLength, share_embeddings: true,
      tie_classifier: true, scale_embeddings: true, final_norm: true, activation: "relu", tied_bias: false,
      gated: false, norm: "layer", embedding_norm: false, linear_bias: true, scale_scores: true, head_size: null, decoder_heads: null,
      decoder_feedforward: null, position_table: "paper", relative_buckets: null, relative_distance: 128, scale_output: false,
    };
    return { about, config, tokenizer: this.examples.tokenizer, means: null, lens: null, tensors };
  }
}

/** @param {Examples} examples @param {SmallConfig} config @returns {import("./network.js").Shape} */
function shapeOf(examples, { d_model: D, heads: H, layers, positions, norm_first: normFirst, bug }) {
  return { D, H, F: 2 * D, V: examples.tokenizer.pieces.length, layers, maxLength: MAX_LENGTH, positions, normFirst, bug };
}

/** Start a run. @param {Examples} examples @param {Partial<SmallConfig>} [chosen] @param {boolean} [plain] compute without WebAssembly */
export async function makeRun(examples, chosen = {}, plain = false) {
  const config = { ...DEFAULTS, ...chosen }, { D, H, V, layers, maxLength } = shapeOf(examples, config);
  const weights = D * (V + 2 * maxLength + layers * (20 * D + 32) + 4), L = examples.longest + MORE_TOKENS;
  const numbersOf = (rows, length) => rows * length * (4 * V + layers * (48 * D + 3 * H * length)) + 4 * V * D; // of a pass
  const pass = Math.max(numbersOf(Math.max(BATCH, examples.heldOut.length), L), numbersOf(1, maxLength)); // any example may be typed
  return new SmallRun(await makeHeap(4 * weights + pass, plain, Float64Array), examples, config);
}

/**
 * Return the label-smoothed cross-entropy (§5.4), the mean over the real tokens; the logits [R, V] become their gradients:
 * softmax − (1 − ε) · one-hot − ε/V.
 * @param {Float32Array} logits @param {Int32Array} targets [R] @param {number} smoothing
 */
function crossEntropy(logits, targets, smoothing) {
  const V = logits.length / targets.length, count = targets.reduce((sum, id) => sum + Number(id !== PAD), 0);
  let total = 0;
  for (const [r, target] of targets.entries()) {
    const row = logits.subarray(r * V, (r + 1) * V);
    if (target === PAD) row.fill(0);
    else total += rowLoss(row, target, smoothing, count);
  }
  return total / count;
}

function rowLoss(row, target, smoothing, count) {
  const V = row.length, wanted = row[target];
  let peak = -Infinity, sum = 0, mean = 0;
  for (let v = 0; v < V; v++) if (row[v] > peak) peak = row[v];
  for (let v = 0; v < V; v++) {
    mean += row[v] / V;
    sum += row[v] = Math.exp(row[v] - peak);
  }
  for (let v = 0; v < V; v++) row[v] = (row[v] / sum - smoothing / V) / count;
  row[target] -= (1 - smoothing) / count;
  return peak + Math.log(sum) - (1 - smoothing) * wanted - smoothing * mean;
}

/*
 * The share of answers that a network writes without a mistake, from the logits of a pass that was fed the right ones: a
 * token depends on those before it alone, so it writes an answer just if it predicts each token of it. Writing takes longer.
 */
function exactnessOf(logits, { rows, length, ids }) {
  const V = logits.length / ids.length, isRight = (at) => ids[at] === PAD || best(logits.subarray(at * V, (at + 1) * V)) === ids[at];
  return Array.from({ length: rows }, (_, n) => n * length).filter((start) => Array.from({ length }, (_, t) => start + t).every(isRight)).length / rows;
}

const isOver = (row) => row.at(-1) === EOS || row.at(-1) === PAD;

/** The largest logit's id; the lowest if tied. <pad> and <bos> are never written. */
function best(logits) {
  let found = EOS;
  for (let id = found + 1; id < logits.length; id++) if (logits[id] > logits[found]) found = id;
  return found;
}

/* The first tokens of some rows. */
function chosenRows({ length, ids }, rows, count) {
  const chosen = new Int32Array(rows.length * count);
  for (const [at, n] of rows.entries()) chosen.set(ids.subarray(n * length, n * length + count), at * count);
  return { rows: rows.length, length: count, ids: chosen };
}

/** The rows without padding. @param {import("./examples.js").Padded} padded @returns {number[][]} */
function rowsOfIds({ rows, length, ids }) {
  return Array.from({ length: rows }, (_, n) => [...ids.subarray(n * length, (n + 1) * length)].filter((id) => id !== PAD));
}
