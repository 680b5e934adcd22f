// Multi-head attention with its backward pass, for a batch of sentences; see network.js.

import { addTo, TrainedLinear } from "./linear.js";

/** @typedef {{x: Float32Array, at: number, step: number}} Slice  one head's vectors: E numbers each, from `at`, `step` apart */

/** Write a bᵀ to `out` [Q, K]. @param {Float32Array} out @param {Slice} a of Q vectors @param {Slice} b of K vectors */
function products(out, a, b, Q, K, E) {
  for (let i = 0, p = a.at; i < Q; i++, p += a.step)
    for (let j = 0, q = b.at; j < K; j++, q += b.step) {
      let sum = 0;
      for (let e = 0; e < E; e++) sum += a.x[p + e] * b.x[q + e];
      out[i * K + j] = sum;
    }
}

/**
 * Add W b to a, for `rows` vectors of a and `columns` vectors of b. Consecutive weights of a row are `step` apart, rows
 * `rowStep`; exchanged, these read the transposed matrix.
 * @param {Float32Array} weights @param {Slice} a @param {Slice} b
 */
function mix(weights, rowStep, step, a, b, rows, columns, E) {
  for (let i = 0, p = a.at; i < rows; i++, p += a.step)
    for (let j = 0, q = b.at, at = i * rowStep; j < columns; j++, q += b.step, at += step) {
      const weight = weights[at];
      if (weight !== 0) for (let e = 0; e < E; e++) a.x[p + e] += weight * b.x[q + e];
    }
}

/** Turn `count` scores, `step` apart, into weights, in place; all become 0 if all scores are −∞. */
function softmaxAt(scores, at, step, count) {
  const end = at + step * count;
  let peak = -Infinity, total = 0;
  for (let i = at; i < end; i += step) if (scores[i] > peak) peak = scores[i];
  for (let i = at; i < end; i += step) total += scores[i] = peak === -Infinity ? 0 : Math.exp(scores[i] - peak);
  for (let i = at; i < end && total; i += step) scores[i] /= total;
}

/** Turn the gradients d of weights a into those of the scores, a · (d − Σ a · d), in place. */
function softmaxBack(d, weights, at, step, count) {
  const end = at + step * count;
  let along = 0;
  for (let i = at; i < end; i += step) along += weights[i] * d[i];
  for (let i = at; i < end; i += step) d[i] = weights[i] * (d[i] - along);
}

/** Concat(head_1 … head_h)Wᴼ with head_i = Attention(QWᵢ^Q, KWᵢ^K, VWᵢ^V) (§3.2.2). */
export class TrainedAttention {
  /** @param {import("./network.js").TrainedTransformer} network @param {boolean} isCross */
  constructor(network, name, isCross) {
    const { D, H, bug } = network.shape, [query, key, value, output] = ["query", "key", "value", "output"].map((part) => new TrainedLinear(network, `${name}.${part}`, D, D));
    this.heap = network.heap;
    this.isCross = isCross;
    this.D = D;
    this.H = H;
    this.E = D / H;
    this.bug = bug;
    this.query = bug === "swapped" ? key : query;
    this.key = bug === "swapped" ? query : key;
    this.value = value;
    this.output = output;
    this.scale = bug === "unscaled" ? 1 : 1 / Math.sqrt(this.E);
  }

  /**
   * Attend from x [B·Q, D] to itself, or to the memory [B·K, D]: [B·Q, D]. The `weights` [B, H, Q, K] are kept.
   * @param {Float32Array} x @param {import("./network.js").Pass} pass
   */
  forward(x, { B, mask, memory, memoryMask }) {
    const { heap, D, E, scale, isCross } = this, attended = isCross ? memory : x, allowed = isCross ? memoryMask : mask;
    const Q = (this.Q = x.length / D / B), K = (this.K = attended.length / D / B), z = heap.take(x.length).fill(0);
    this.q = this.query.forward(x);
    this.k = this.key.forward(attended);
    this.v = this.value.forward(attended);
    this.weights = heap.take(B * this.H * Q * K);
    this.eachHead((b, weights, ofQueries, ofKeys, ofOutput) => {
      products(weights, ofQueries(this.q), ofKeys(this.k), Q, K, E); // 2. QKᵀ
      for (let at = 0; at < weights.length; at++) weights[at] = allowed[b * Q * K + at] ? weights[at] * scale : -Infinity; // 1. scale, 3. mask
      this.eachSoftmax((at, step, count) => softmaxAt(weights, at, step, count)); // 4. softmax
      mix(weights, K, 1, ofOutput(z), ofKeys(this.v), Q, K, E); // 5. ·V
    });
    return this.output.forward(z);
  }

  /** Return the gradient of x; add that of the memory to `dMemory`. @param {Float32Array} d @param {import("./network.js").Pass} pass */
  backward(d, { dMemory }) {
    const { heap, q, k, v, Q, K, E, scale } = this, dz = this.output.backward(d);
    const [dq, dk, dv] = [q, k, v].map((x) => heap.take(x.length).fill(0)), dWeights = heap.take(Q * K);
    this.eachHead((_, weights, ofQueries, ofKeys, ofOutput) => {
      mix(weights, 1, K, ofKeys(dv), ofOutput(dz), K, Q, E); // dV = Aᵀ dZ
      products(dWeights, ofOutput(dz), ofKeys(v), Q, K, E); // dA = dZ Vᵀ
      this.eachSoftmax((at, step, count) => softmaxBack(dWeights, weights, at, step, count));
      for (let at = 0; at < dWeights.length; at++) dWeights[at] *= scale;
      mix(dWeights, K, 1, ofQueries(dq), ofKeys(k), Q, K, E); // dQ = dS K
      mix(dWeights, 1, K, ofKeys(dk), ofQueries(q), K, Q, E); // dK = dSᵀ Q
    });
    const dx = this.query.backward(dq), dAttended = addTo(this.key.backward(dk), this.value.backward(dv));
    if (!this.isCross) return addTo(dx, dAttended);
    addTo(dMemory, dAttended);
    return dx;
  }

  /* Run for each head with its weights [Q, K], and functions from an array to the head's vectors. */
  eachHead(run) {
    const { D, H, E, Q, K, weights } = this;
    const split = (b, h, length) => (x) => ({ x, at: b * length * D + h * E, step: D }); // its own slice of the features
    const reshaped = (b, h, length) => (x) => ({ x, at: b * length * D + h * length * E, step: E }); // by mistake, of the tokens
    const of = this.bug === "reshaped" ? reshaped : split;
    for (let b = 0, at = 0; at < weights.length; b++)
      for (let h = 0; h < H; h++, at += Q * K) run(b, weights.subarray(at, at + Q * K), of(b, h, Q), of(b, h, K), split(b, h, Q));
  }

  /* Run over the rows of a head's map [Q, K]; by mistake, over its columns. */
  eachSoftmax(run) {
    const { Q, K } = this;
    if (this.bug === "over_queries") for (let k = 0; k < K; k++) run(k, K, Q);
    else for (let q = 0; q < Q; q++) run(q * K, 1, K);
  }
}
