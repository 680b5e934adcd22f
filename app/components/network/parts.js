// Parts that networks of other families have in place of the paper's, as in core/model/parts.py, which names their sources.

/* 1 − erf(x) for x ≥ 0, to 1.5e-7 (Abramowitz & Stegun 1964, 7.1.26). */
function upperError(x) {
  const t = 1 / (1 + 0.3275911 * x);
  return t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))) * Math.exp(-x * x);
}

const FUNCTIONS = {
  relu: (x) => (x < 0 ? 0 : x),
  silu: (x) => x / (1 + Math.exp(-x)),
  gelu: (x) => x * (x < 0 ? 0.5 * upperError(-x * Math.SQRT1_2) : 1 - 0.5 * upperError(x * Math.SQRT1_2)),
  gelu_tanh: (x) => x / (1 + Math.exp(-2 * Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))), // (1 + tanh y)/2 = 1/(1 + e^−2y)
};

/** A function that applies an activation of a feed-forward layer in place. @param {string} name @returns {(x: Float32Array) => void} */
export function activation(name) {
  const f = FUNCTIONS[name];
  if (!f) throw new Error(`This page does not know the activation ${name}: export the page again.`);
  return (x) => {
    for (let i = 0; i < x.length; i++) x[i] = f(x[i]);
  };
}

/* What a norm divides a vector of D numbers by, from the sum of the squared deviations from their mean, or of their squares (rms). */
const SPREADS = {
  layer: (squares, D, eps) => Math.sqrt(squares / D + eps),
  rms: (squares, D, eps) => Math.sqrt(squares / D + eps),
  deviation: (squares, D, eps) => Math.sqrt(squares / (D - 1)) + eps,
};

/**
 * Normalisation of each vector [T, D]: (x − mean) / spread · weight + bias. The spread is √(variance + eps) (layer: Ba et al. 2016),
 * √(mean of x² + eps) without a mean and a bias (rms), or the deviation of n − 1 values, plus eps (deviation).
 */
export class Norm {
  constructor({ heap, weights, config }, name, { kind = config.norm, factor = 1 } = {}) {
    this.heap = heap;
    this.weight = weights[`${name}.weight`];
    this.bias = weights[`${name}.bias`] ?? new Float32Array(config.d_model);
    this.isCentred = kind !== "rms";
    this.spread = SPREADS[kind];
    if (!this.spread) throw new Error(`This page does not know the norm ${kind}: export the page again.`);
    this.eps = config.layer_norm_eps;
    this.factor = factor;
  }

  forward(x, out = this.heap.take(x.length)) {
    const { weight, bias, factor } = this, D = weight.length;
    for (let at = 0; at < x.length; at += D) {
      let sum = 0, squares = 0;
      for (let i = 0; i < D; i++) sum += x[at + i];
      const mean = this.isCentred ? sum / D : 0;
      for (let i = 0; i < D; i++) squares += (x[at + i] - mean) ** 2;
      const spread = this.spread(squares, D, this.eps) / factor;
      for (let i = 0; i < D; i++) out[at + i] = ((x[at + i] - mean) / spread) * weight[i] + bias[i];
    }
    return out;
  }
}

/** One bias per head and bucket of distance, which all self-attentions of a stack add to their scores (T5: Raffel et al. 2020, §2.1). */
export class ScoreBias {
  constructor({ weights, config }, side) {
    const { relative_buckets: count, relative_distance: farthest, max_length: most } = config, weight = weights[`${side}_bias.weight`];
    const heads = weight.length / count, bucket = (distance) => bucketOf(distance, count, farthest, side === "decoder");
    /* By head: the bias of each distance from −(most − 1) on. */
    this.ofHead = Array.from({ length: heads }, (_, h) => Float32Array.from({ length: 2 * most - 1 }, (__, i) => weight[bucket(i - most + 1) * heads + h]));
    this.zero = most - 1;
  }

  /** Add the biases to the scores of one query, a row. @param {Float32Array} row_K @param {Int32Array} columns_K @param {number} query its position */
  add(row_K, columns_K, query, head) {
    const ofDistance = this.ofHead[head], first = this.zero - query;
    for (let k = 0; k < columns_K.length; k++) row_K[columns_K[k] < 0 ? -1 - columns_K[k] : columns_K[k]] += ofDistance[first + k];
  }
}

/*
 * The bucket of a distance, key minus query: half of the buckets are for distances below their number, the others for growing
 * ranges, by the logarithm in float32, whose rounding decides at the edges. In an encoder, later keys have half of all buckets.
 */
function bucketOf(distance, count, farthest, causal) {
  const size = causal ? count : Math.floor(count / 2), exact = Math.floor(size / 2);
  const first = !causal && distance > 0 ? size : 0, steps = causal ? Math.max(-distance, 0) : Math.abs(distance);
  if (steps < exact) return first + steps;
  const { fround } = Math, share = fround(fround(Math.log(fround(steps / exact))) / fround(Math.log(farthest / exact)));
  return first + Math.min(exact + Math.trunc(fround(share * (size - exact))), size - 1);
}
