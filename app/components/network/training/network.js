// The Transformer with its backward pass: forward as in core/model/transformer.py, and each `backward` its mirror image.
// `forward` keeps what `backward` needs; `backward` takes the gradient of the output, adds the gradients of the weights,
// and returns that of the input. Each module runs once per pass. Modules are made in the order of Python's named_parameters.
//
// Axes: B batch, S source and T target length, R = B·T rows, D d_model, V vocabulary, H head, E = D / H, Q query, K key.
// Tensors are parts of one heap (product.js), row after row; the caller of a pass frees them.

import { TrainedAttention } from "./attention.js";
import { PAD } from "./examples.js";
import { addTo, TrainedLinear } from "./linear.js";

/**
 * @typedef {import("./examples.js").Padded} Padded
 * @typedef {"unscaled" | "over_queries" | "inverted_mask" | "no_causal_mask" | "no_padding_mask" | "swapped" | "shifted" | "reshaped"} Bug
 * @typedef {{shape: number[], values: Float32Array, gradient: Float32Array, first: Float32Array, second: Float32Array}} Parameter  with Adam's moments
 * @typedef {{B?: number, mask?: Uint8Array, memory?: Float32Array, memoryMask?: Uint8Array, dMemory?: Float32Array}} Pass
 * @typedef {{D: number, H: number, F: number, V: number, layers: number, maxLength: number, positions: "sinusoids" | "learned" | "none",
 *   normFirst: boolean, bug: Bug | null}} Shape
 */

const EPS = 1e-5; // of the norms

/** Layer normalisation of each vector [R, D]: (x − mean) / √(variance + eps) · weight + bias. */
class TrainedNorm {
  /** @param {TrainedTransformer} network */
  constructor(network, name) {
    this.heap = network.heap;
    this.weight = network.parameter(`${name}.weight`, network.shape.D);
    this.bias = network.parameter(`${name}.bias`, network.shape.D);
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
  /** @param {TrainedTransformer} network */
  constructor(network, name) {
    const { D, F } = network.shape;
    this.inner = new TrainedLinear(network, `${name}.inner`, F, D);
    this.outer = new TrainedLinear(network, `${name}.outer`, D, F);
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

/** An encoder layer: self-attention, then feed-forward; a decoder layer attends to the encoder's output in between (§3.1). */
class TrainedLayer {
  /** @param {TrainedTransformer} network */
  constructor(network, name, isDecoder) {
    this.normFirst = network.shape.normFirst;
    this.selfAttention = new TrainedAttention(network, `${name}.self_attention`, false);
    this.crossAttention = isDecoder ? new TrainedAttention(network, `${name}.cross_attention`, true) : null;
    const sublayers = [this.selfAttention, this.crossAttention, new TrainedFeedForward(network, `${name}.feed_forward`)].filter((one) => one);
    this.sublayers = sublayers.map((sublayer, i) => ({ sublayer, norm: new TrainedNorm(network, `${name}.norm${i + 1}`) }));
  }

  /** x becomes LayerNorm(x + Sublayer(x)) (§3.1); with `normFirst`, x + Sublayer(LayerNorm(x)). @param {Float32Array} x @param {Pass} pass */
  forward(x, pass) {
    for (const { sublayer, norm } of this.sublayers)
      x = this.normFirst ? addTo(sublayer.forward(norm.forward(x), pass), x) : norm.forward(addTo(sublayer.forward(x, pass), x));
    return x;
  }

  /** @param {Float32Array} d @param {Pass} pass */
  backward(d, pass) {
    for (const { sublayer, norm } of this.sublayers.toReversed()) {
      const inner = this.normFirst ? d : norm.backward(d), dx = sublayer.backward(inner, pass);
      d = addTo(this.normFirst ? norm.backward(dx) : dx, inner);
    }
    return d;
  }
}

/** Token and position embeddings of one side (§3.4, §3.5); both sides share the table. */
class TrainedEmbeddings {
  /** @param {TrainedTransformer} network @param {"source" | "target"} side */
  constructor(network, side) {
    const { D, maxLength, positions, bug } = network.shape;
    this.heap = network.heap;
    this.table = network.parameters["embeddings.source_table.weight"];
    this.learned = positions === "sinusoids" ? null : network.parameter(`embeddings.${side}_positions.weight`, maxLength, D);
    this.isTrained = positions === "learned";
    this.shift = bug === "shifted" ? 1 : 0;
    const Rounded = this.shift ? Float64Array : Float32Array; // Python rounds its table, but not the rows that a mistake moves
    this.positions = this.learned?.values ?? Rounded.from(sinusoids(maxLength + 1, D));
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
function sinusoids(length, D) {
  return Array.from({ length: length * D }, (_, at) => {
    const i = at % D, angle = Math.floor(at / D) * 10_000 ** (-(i - (i % 2)) / D);
    return i % 2 ? Math.cos(angle) : Math.sin(angle);
  });
}

/** Encoder, decoder and output projection, which is the table of embeddings (figure 1). */
export class TrainedTransformer {
  /** @param {import("../product.js").Heap} heap @param {Shape} shape */
  constructor(heap, shape) {
    this.heap = heap;
    this.shape = shape;
    /** @type {Record<string, Parameter>} */
    this.parameters = {};
    this.classifier = new TrainedLinear(this, "embeddings.source_table", shape.V, shape.D);
    this.source = new TrainedEmbeddings(this, "source");
    this.target = new TrainedEmbeddings(this, "target");
    this.encoder = Array.from({ length: shape.layers }, (_, i) => new TrainedLayer(this, `encoder.${i}`, false));
    this.encoderNorm = new TrainedNorm(this, "encoder_norm");
    this.decoder = Array.from({ length: shape.layers }, (_, i) => new TrainedLayer(this, `decoder.${i}`, true));
    this.decoderNorm = new TrainedNorm(this, "decoder_norm");
  }

  /** Make a parameter; its numbers are 0. @param {string} name @param {number[]} shape @returns {Parameter} */
  parameter(name, ...shape) {
    const numbers = () => this.heap.take(shape.reduce((count, length) => count * length, 1)).fill(0);
    return (this.parameters[name] = { shape, values: numbers(), gradient: numbers(), first: numbers(), second: numbers() });
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
    const pass = { B: source.rows, mask: this.mask(source, source.length, false) };
    return this.encoderNorm.forward(this.encoder.reduce((x, layer) => layer.forward(x, pass), this.source.forward(source)));
  }

  /** Target ids → hidden states [B·T, D]. @param {Padded} target @param {Float32Array} memory @param {Padded} source */
  decode(target, memory, source) {
    const { rows: B, length: T } = target, pass = { B, mask: this.mask(target, T, true), memory, memoryMask: this.mask(source, T, false) };
    return this.decoderNorm.forward(this.decoder.reduce((x, layer) => layer.forward(x, pass), this.target.forward(target)));
  }

  /** Teacher-forced pass: → logits [B·T, V]. @param {Padded} source @param {Padded} target */
  forward(source, target) {
    this.memory = this.encode(source);
    return this.classifier.forward(this.decode(target, this.memory, source));
  }

  /** Set the gradients of all parameters, from that of the logits of `forward`. @param {Float32Array} d [B·T, V] */
  backward(d) {
    for (const { gradient } of Object.values(this.parameters)) gradient.fill(0);
    const pass = { dMemory: this.heap.take(this.memory.length).fill(0) };
    const back = (layers, g) => layers.reduceRight((dx, layer) => layer.backward(dx, pass), g);
    this.target.backward(back(this.decoder, this.decoderNorm.backward(this.classifier.backward(d))));
    this.source.backward(back(this.encoder, this.encoderNorm.backward(pass.dMemory)));
  }
}
