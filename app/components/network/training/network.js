// The Transformer with its backward pass: forward as in core/model/transformer.py, and each `backward` its mirror image.
// `forward` keeps what `backward` needs; `backward` takes the gradient of the output, adds the gradients of the weights,
// and returns that of the input. Each module runs once per pass.
//
// Axes: B batch, S source and T target length, R = B·T rows, D d_model, V vocabulary, H head, E = D / H, Q query, K key.
// Tensors are parts of one heap (product.js), row after row; whoever runs a pass frees them.

import { PAD } from "./examples.js";

/**
 * @typedef {import("../product.js").Heap} Heap
 * @typedef {import("./examples.js").Padded} Padded
 * @typedef {"unscaled" | "over_queries" | "inverted_mask" | "no_causal_mask" | "no_padding_mask" | "swapped" | "shifted" | "reshaped"} Bug
 * @typedef {{values: Float32Array, gradient: Float32Array, shape: number[]}} Parameter
 * @typedef {{D: number, H: number, F: number, V: number, layers: number, maxLength: number, positions: "sinusoids" | "learned" | "none",
 *   normFirst: boolean, bug: Bug | null}} Shape
 */

const EPS = 1e-5; // of the norms

/** Add x to the numbers of `into`, and return these. */
function addTo(into, x) {
  for (let i = 0; i < into.length; i++) into[i] += x[i];
  return into;
}

/** x [R, columns] → its transpose [columns, R], with rows of `step` numbers, the last ones 0. @param {Heap} heap */
function transposed(heap, x, columns, step) {
  const rows = x.length / columns, out = heap.take(columns * step);
  for (let c = 0; c < columns; c++) {
    const at = c * step;
    for (let r = 0, from = c; r < rows; r++, from += columns) out[at + r] = x[from];
    out.fill(0, at + rows, at + step);
  }
  return out;
}

/** x ↦ xWᵀ + b. */
class TrainedLinear {
  /** @param {TrainedTransformer} network */
  constructor(network, name) {
    this.heap = network.heap;
    this.weight = network.parameters[`${name}.weight`];
    this.bias = network.parameters[`${name}.bias`] ?? null;
  }

  /** x [R, inner] → [R, outer]. @param {Float32Array} x */
  forward(x) {
    const [outer, inner] = this.weight.shape, rows = x.length / inner, out = this.heap.take(rows * outer);
    this.x = x;
    this.heap.product({ x, w: this.weight.values, bias: this.bias?.values, out, rows, inner, outer });
    return out;
  }

  /** dW = dᵀx, db = Σ d, dx = dW. @param {Float32Array} d [R, outer] */
  backward(d) {
    const { heap, weight, bias, x } = this, [outer, inner] = weight.shape, rows = d.length / outer, step = 4 * Math.ceil(rows / 4);
    const dx = heap.take(rows * inner), mark = heap.used;
    const [d_OR, x_IR] = [transposed(heap, d, outer, step), transposed(heap, x, inner, step)], dW = heap.take(outer * inner);
    heap.product({ x: d_OR, w: x_IR, out: dW, rows: outer, inner: step, outer: inner });
    addTo(weight.gradient, dW);
    if (bias) for (let at = 0; at < d.length; at += outer) for (let i = 0; i < outer; i++) bias.gradient[i] += d[at + i];
    const wide = 4 * Math.ceil(outer / 4), W_IO = transposed(heap, weight.values, inner, wide);
    heap.product({ x: rowsOf(heap, d, outer, wide), w: W_IO, out: dx, rows, inner: wide, outer: inner });
    heap.used = mark;
    return dx;
  }
}

/** Rows of `step` numbers instead of `length`, the last ones 0. @param {Heap} heap */
function rowsOf(heap, x, length, step) {
  if (step === length) return x;
  const out = heap.take((x.length / length) * step).fill(0);
  for (let r = 0; r * length < x.length; r++) out.set(x.subarray(r * length, (r + 1) * length), r * step);
  return out;
}

/** Layer normalisation of each vector [R, D]: (x − mean) / √(variance + eps) · weight + bias. */
class TrainedNorm {
  /** @param {TrainedTransformer} network */
  constructor(network, name) {
    this.heap = network.heap;
    this.weight = network.parameters[`${name}.weight`];
    this.bias = network.parameters[`${name}.bias`];
  }

  forward(x) {
    const { heap, weight: { values: weight }, bias: { values: bias } } = this, D = weight.length, out = heap.take(x.length);
    this.normal = heap.take(x.length); // (x − mean) / deviation
    this.deviation = heap.take(x.length / D);
    for (let r = 0, at = 0; at < x.length; r++, at += D) {
      let sum = 0, squares = 0;
      for (let i = 0; i < D; i++) sum += x[at + i];
      const mean = sum / D;
      for (let i = 0; i < D; i++) squares += (x[at + i] - mean) ** 2;
      const deviation = (this.deviation[r] = Math.sqrt(squares / D + EPS));
      for (let i = 0; i < D; i++) out[at + i] = (this.normal[at + i] = (x[at + i] - mean) / deviation) * weight[i] + bias[i];
    }
    return out;
  }

  /** With n the normalised vector and g = d · weight: dx = (g − mean(g) − n · mean(g · n)) / deviation. */
  backward(d) {
    const { heap, weight, bias, normal } = this, D = weight.values.length, dx = heap.take(d.length);
    for (let r = 0, at = 0; at < d.length; r++, at += D) {
      let sum = 0, along = 0;
      for (let i = 0; i < D; i++) {
        const g = d[at + i] * weight.values[i];
        sum += g;
        along += g * normal[at + i];
        weight.gradient[i] += d[at + i] * normal[at + i];
        bias.gradient[i] += d[at + i];
      }
      for (let i = 0; i < D; i++)
        dx[at + i] = (d[at + i] * weight.values[i] - sum / D - (normal[at + i] * along) / D) / this.deviation[r];
    }
    return dx;
  }
}

/** max(0, xW₁ + b₁)W₂ + b₂ at each position (§3.3). */
class TrainedFeedForward {
  constructor(network, name) {
    this.inner = new TrainedLinear(network, `${name}.inner`);
    this.outer = new TrainedLinear(network, `${name}.outer`);
  }

  forward(x) {
    const inner = this.inner.forward(x);
    for (let i = 0; i < inner.length; i++) if (inner[i] < 0) inner[i] = 0;
    return this.outer.forward(inner);
  }

  backward(d) {
    const inner = this.outer.x, dInner = this.outer.backward(d);
    for (let i = 0; i < inner.length; i++) if (inner[i] <= 0) dInner[i] = 0;
    return this.inner.backward(dInner);
  }
}

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

/** Add W b to a. @param {Float32Array} weights [Q, K] @param {Slice} a of Q vectors @param {Slice} b of K vectors */
function mix(weights, a, b, Q, K, E) {
  for (let i = 0, p = a.at; i < Q; i++, p += a.step)
    for (let j = 0, q = b.at; j < K; j++, q += b.step) {
      const weight = weights[i * K + j];
      if (weight !== 0) for (let e = 0; e < E; e++) a.x[p + e] += weight * b.x[q + e];
    }
}

/** Add Wᵀ a to b. @param {Float32Array} weights [Q, K] @param {Slice} a of Q vectors @param {Slice} b of K vectors */
function mixBack(weights, a, b, Q, K, E) {
  for (let i = 0, p = a.at; i < Q; i++, p += a.step)
    for (let j = 0, q = b.at; j < K; j++, q += b.step) {
      const weight = weights[i * K + j];
      if (weight !== 0) for (let e = 0; e < E; e++) b.x[q + e] += weight * a.x[p + e];
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
class TrainedAttention {
  /** @param {TrainedTransformer} network */
  constructor(network, name) {
    const { D, H, bug } = network.shape, linear = (part) => new TrainedLinear(network, `${name}.${part}`);
    this.heap = network.heap;
    this.D = D;
    this.H = H;
    this.E = D / H;
    this.bug = bug;
    const query = linear("query"), key = linear("key");
    this.query = bug === "swapped" ? key : query;
    this.key = bug === "swapped" ? query : key;
    this.value = linear("value");
    this.output = linear("output");
    this.scale = bug === "unscaled" ? 1 : 1 / Math.sqrt(this.E);
  }

  /**
   * Attend from x [B·Q, D] to memory [B·K, D]: [B·Q, D]. The `weights` [B, H, Q, K] are kept.
   * @param {Float32Array} x @param {Float32Array} memory @param {Uint8Array} allowed [B, Q, K] @param {number} B
   */
  forward(x, memory, allowed, B) {
    const { heap, D, H, E, scale } = this, Q = x.length / D / B, K = memory.length / D / B;
    this.B = B;
    this.Q = Q;
    this.K = K;
    this.q = this.query.forward(x);
    this.k = this.key.forward(memory);
    this.v = this.value.forward(memory);
    this.weights = heap.take(B * H * Q * K);
    const z = heap.take(x.length).fill(0);
    this.eachHead((b, h, weights) => {
      const v = this.split(this.v, b, h, K);
      products(weights, this.split(this.q, b, h, Q), this.split(this.k, b, h, K), Q, K, E); // 2. QKᵀ
      for (let at = 0; at < weights.length; at++) weights[at] = allowed[b * Q * K + at] ? weights[at] * scale : -Infinity; // 1. scale, 3. mask
      this.eachSoftmax((at, step, count) => softmaxAt(weights, at, step, count)); // 4. softmax
      mix(weights, this.sideBySide(z, b, h), v, Q, K, E); // 5. ·V
    });
    return this.output.forward(z);
  }

  /** Return the gradients of x and of the memory. */
  backward(d) {
    const { heap, q, k, v, Q, K, E, scale } = this, dz = this.output.backward(d);
    const [dq, dk, dv] = [q, k, v].map((x) => heap.take(x.length).fill(0)), dWeights = heap.take(Q * K);
    this.eachHead((b, h, weights) => {
      const dHead = this.sideBySide(dz, b, h), of = (x, length) => this.split(x, b, h, length);
      mixBack(weights, dHead, of(dv, K), Q, K, E); // dV = Aᵀ dZ
      products(dWeights, dHead, of(v, K), Q, K, E); // dA = dZ Vᵀ
      this.eachSoftmax((at, step, count) => softmaxBack(dWeights, weights, at, step, count));
      for (let i = 0; i < dWeights.length; i++) dWeights[i] *= scale;
      mix(dWeights, of(dq, Q), of(k, K), Q, K, E); // dQ = dS K
      mixBack(dWeights, of(q, Q), of(dk, K), Q, K, E); // dK = dSᵀ Q
    });
    const dx = this.query.backward(dq), dMemory = this.key.backward(dk);
    return [dx, addTo(dMemory, this.value.backward(dv))];
  }

  /* Give each head its own slice of the features; by mistake, its own slice of the tokens. @returns {Slice} */
  split(x, b, h, length) {
    const { D, E } = this, start = b * length * D;
    return this.bug === "reshaped" ? { x, at: start + h * length * E, step: E } : { x, at: start + h * E, step: D };
  }

  /* A head's slice of the heads' outputs, which are side by side. @returns {Slice} */
  sideBySide(z, b, h) {
    return { x: z, at: b * this.Q * this.D + h * this.E, step: this.D };
  }

  eachHead(run) {
    const size = this.Q * this.K;
    for (let b = 0, at = 0; b < this.B; b++)
      for (let h = 0; h < this.H; h++, at += size) run(b, h, this.weights.subarray(at, at + size));
  }

  /* Run over the rows of a head's map [Q, K]; by mistake, over its columns. */
  eachSoftmax(run) {
    const { Q, K } = this;
    if (this.bug === "over_queries") for (let k = 0; k < K; k++) run(k, K, Q);
    else for (let q = 0; q < Q; q++) run(q * K, 1, K);
  }
}

/** Base of both layers: a residual connection and a norm around each sublayer. */
class TrainedLayer {
  constructor(network, name, norms) {
    this.normFirst = network.shape.normFirst;
    this.selfAttention = new TrainedAttention(network, `${name}.self_attention`);
    this.feedForward = new TrainedFeedForward(network, `${name}.feed_forward`);
    this.norms = Array.from({ length: norms }, (_, i) => new TrainedNorm(network, `${name}.norm${i + 1}`));
  }

  /** Return LayerNorm(x + Sublayer(x)) (§3.1); with `normFirst`, x + Sublayer(LayerNorm(x)). */
  residual(x, norm, sublayer) {
    return this.normFirst ? addTo(sublayer(norm.forward(x)), x) : norm.forward(addTo(sublayer(x), x));
  }

  residualBack(d, norm, sublayerBack) {
    if (this.normFirst) return addTo(norm.backward(sublayerBack(d)), d);
    const inner = norm.backward(d);
    return addTo(sublayerBack(inner), inner);
  }

  selfBack(d) {
    const [dx, dMemory] = this.selfAttention.backward(d);
    return addTo(dx, dMemory);
  }
}

/** Self-attention, then feed-forward (§3.1). */
class TrainedEncoderLayer extends TrainedLayer {
  constructor(network, layer) {
    super(network, `encoder.${layer}`, 2);
  }

  forward(x, mask, B) {
    const [norm1, norm2] = this.norms;
    x = this.residual(x, norm1, (y) => this.selfAttention.forward(y, y, mask, B));
    return this.residual(x, norm2, (y) => this.feedForward.forward(y));
  }

  backward(d) {
    const [norm1, norm2] = this.norms;
    d = this.residualBack(d, norm2, (g) => this.feedForward.backward(g));
    return this.residualBack(d, norm1, (g) => this.selfBack(g));
  }
}

/** Masked self-attention, cross-attention to the encoder's output, then feed-forward (§3.1). */
class TrainedDecoderLayer extends TrainedLayer {
  constructor(network, layer) {
    super(network, `decoder.${layer}`, 3);
    this.crossAttention = new TrainedAttention(network, `decoder.${layer}.cross_attention`);
  }

  forward(x, memory, mask, ofSource, B) {
    const [norm1, norm2, norm3] = this.norms;
    x = this.residual(x, norm1, (y) => this.selfAttention.forward(y, y, mask, B));
    x = this.residual(x, norm2, (y) => this.crossAttention.forward(y, memory, ofSource, B));
    return this.residual(x, norm3, (y) => this.feedForward.forward(y));
  }

  /** Add the memory's gradient to `dMemory`; return that of x. */
  backward(d, dMemory) {
    const [norm1, norm2, norm3] = this.norms;
    d = this.residualBack(d, norm3, (g) => this.feedForward.backward(g));
    d = this.residualBack(d, norm2, (g) => {
      const [dx, more] = this.crossAttention.backward(g);
      addTo(dMemory, more);
      return dx;
    });
    return this.residualBack(d, norm1, (g) => this.selfBack(g));
  }
}

/** Token and position embeddings of one side (§3.4, §3.5); both sides share the table. */
class TrainedEmbeddings {
  /** @param {TrainedTransformer} network @param {"source" | "target"} side */
  constructor(network, side) {
    const { shape: { D, maxLength, positions, bug }, parameters, heap } = network;
    this.heap = heap;
    this.table = parameters["embeddings.source_table.weight"];
    this.learned = parameters[`embeddings.${side}_positions.weight`];
    this.isTrained = positions === "learned";
    this.positions = this.learned?.values ?? sinusoidTable(maxLength + 1, D);
    this.shift = bug === "shifted" ? 1 : 0;
    this.scale = Math.sqrt(D);
  }

  /** Return embedding·√d_model + position: [R, D]; the embedding of <pad> is 0. @param {Padded} padded */
  forward({ ids, length }) {
    const { table, positions, scale, shift } = this, D = table.shape[1], out = this.heap.take(ids.length * D);
    if ((length + shift) * D > positions.length) throw new RangeError(`position ${length + shift - 1} was never learned: take shorter lines`);
    this.ids = ids;
    this.length = length;
    for (const [r, id] of ids.entries())
      for (let i = 0; i < D; i++)
        out[r * D + i] = (id === PAD ? 0 : table.values[id * D + i] * scale) + positions[((r % length) + shift) * D + i];
    return out;
  }

  backward(d) {
    const { table, learned, scale, shift, ids, length } = this, D = table.shape[1];
    for (const [r, id] of ids.entries())
      for (let i = 0; i < D; i++) {
        if (id !== PAD) table.gradient[id * D + i] += d[r * D + i] * scale;
        if (this.isTrained) learned.gradient[((r % length) + shift) * D + i] += d[r * D + i];
      }
  }
}

/** PE(pos, 2i) = sin(pos / 10000^(2i/D)); PE(pos, 2i+1) is the cosine of that angle (§3.5). */
function sinusoidTable(length, D) {
  return Float32Array.from({ length: length * D }, (_, at) => {
    const i = at % D, angle = Math.floor(at / D) * 10_000 ** (-(i - (i % 2)) / D);
    return i % 2 ? Math.cos(angle) : Math.sin(angle);
  });
}

/** Encoder, decoder and output projection, which is the table of embeddings (figure 1). */
export class TrainedTransformer {
  /** @param {Heap} heap @param {Shape} shape */
  constructor(heap, shape) {
    this.heap = heap;
    this.shape = shape;
    const names = parameterShapes(shape), count = names.reduce((sum, [, one]) => sum + size(one), 0);
    this.values = heap.take(count).fill(0);
    this.gradients = heap.take(count);
    /** @type {Record<string, Parameter>} */
    this.parameters = {};
    let at = 0;
    for (const [name, one] of names) {
      const part = (numbers) => numbers.subarray(at, at + size(one));
      this.parameters[name] = { values: part(this.values), gradient: part(this.gradients), shape: one };
      at += size(one);
    }
    this.source = new TrainedEmbeddings(this, "source");
    this.target = new TrainedEmbeddings(this, "target");
    this.encoder = Array.from({ length: shape.layers }, (_, i) => new TrainedEncoderLayer(this, i));
    this.decoder = Array.from({ length: shape.layers }, (_, i) => new TrainedDecoderLayer(this, i));
    this.encoderNorm = new TrainedNorm(this, "encoder_norm");
    this.decoderNorm = new TrainedNorm(this, "decoder_norm");
    this.classifier = new TrainedLinear(this, "embeddings.source_table");
  }

  /** Return [B, Q, K]: 1 where a query may attend to a key. @param {Padded} keys @param {number} Q @param {boolean} isCausal */
  mask({ ids, rows, length: K }, Q, isCausal) {
    const { bug } = this.shape, allowed = new Uint8Array(rows * Q * K);
    for (let at = 0; at < allowed.length; at++) {
      const k = at % K, q = Math.floor(at / K) % Q, b = Math.floor(at / K / Q);
      const isToken = ids[b * K + k] !== PAD || bug === "no_padding_mask", isPast = k <= q || !isCausal || bug === "no_causal_mask";
      allowed[at] = Number((isToken && isPast) !== (bug === "inverted_mask"));
    }
    return allowed;
  }

  /** Source ids → memory [B·S, D]. @param {Padded} source */
  encode(source) {
    const mask = this.mask(source, source.length, false);
    return this.encoderNorm.forward(this.encoder.reduce((x, layer) => layer.forward(x, mask, source.rows), this.source.forward(source)));
  }

  /** Target ids → hidden states [B·T, D]. @param {Padded} target @param {Float32Array} memory @param {Padded} source */
  decode(target, memory, source) {
    const mask = this.mask(target, target.length, true), ofSource = this.mask(source, target.length, false);
    const through = (x, layer) => layer.forward(x, memory, mask, ofSource, target.rows);
    return this.decoderNorm.forward(this.decoder.reduce(through, this.target.forward(target)));
  }

  /** Teacher-forced pass: → logits [B·T, V]. @param {Padded} source @param {Padded} target */
  forward(source, target) {
    this.memory = this.encode(source);
    return this.classifier.forward(this.decode(target, this.memory, source));
  }

  /** Set `gradients` to those of all weights, from that of the logits of `forward`. @param {Float32Array} d [B·T, V] */
  backward(d) {
    this.gradients.fill(0);
    const dMemory = this.heap.take(this.memory.length).fill(0), back = (g, layer) => layer.backward(g, dMemory);
    this.target.backward(this.decoder.reduceRight(back, this.decoderNorm.backward(this.classifier.backward(d))));
    this.source.backward(this.encoder.reduceRight(back, this.encoderNorm.backward(dMemory)));
  }
}

const size = (shape) => shape.reduce((count, length) => count * length, 1);

/** Names and shapes of all weights, in the order of `named_parameters` in Python. @param {Shape} shape @returns {[string, number[]][]} */
export function parameterShapes({ D, F, V, layers, maxLength, positions }) {
  const linear = (name, outer, inner) => [[`${name}.weight`, [outer, inner]], [`${name}.bias`, [outer]]];
  const attention = (name) => ["query", "key", "value", "output"].flatMap((part) => linear(`${name}.${part}`, D, D));
  const norm = (name) => [[`${name}.weight`, [D]], [`${name}.bias`, [D]]];
  const layer = (name, attentions, norms) => [
    ...attentions.flatMap((one) => attention(`${name}.${one}_attention`)),
    ...linear(`${name}.feed_forward.inner`, F, D), ...linear(`${name}.feed_forward.outer`, D, F),
    ...norms.flatMap((one) => norm(`${name}.norm${one}`)),
  ];
  const stack = (side, ...parts) => [...Array.from({ length: layers }, (_, i) => layer(`${side}.${i}`, ...parts)).flat(), ...norm(`${side}_norm`)];
  const tables = positions === "sinusoids" ? [] : ["source", "target"].map((side) => [`embeddings.${side}_positions.weight`, [maxLength, D]]);
  return [["embeddings.source_table.weight", [V, D]], ...tables, ...stack("encoder", ["self"], [1, 2]), ...stack("decoder", ["self", "cross"], [1, 2, 3])];
}
