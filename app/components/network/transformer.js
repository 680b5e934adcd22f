// The Transformer of Vaswani et al. 2017, as in core/model/transformer.py: the same order, names and axes.
//
// Axes: S source length, T target length, B hypotheses, D d_model, V vocabulary, H head, E = d_k = d_v (the size of one
// head), Q query, K key. Tensors are parts of one heap (product.js), row after row. A network reads one sentence at a
// time, so there is no batch. The arithmetic of edits is in edits.js.

import { activation, Norm, ScoreBias } from "./parts.js";
import { ByteRows, makeHeap, rowOfMatrix } from "./product.js";
import { StateEdits } from "./states.js";
import { checkEdits, headsOf, editScores, editWeights, editsAt, NO_EDITS } from "./edits.js";
import { unpackScales, unpackTensor } from "./weights.js";

const PADDING = 0; // the id of <pad>
const MOST_BEAMS = 8; // memory is reserved for this many hypotheses
const MOST_UNPACKED = 1 << 16; // numbers: what a product of bytes unpacks at a time
const MOST_TOKENS = 256; // and for this many tokens of a side: a page reads 100 at most and writes 50 more

/**
 * @typedef {import("./edits.js").Edits} Edits
 * @typedef {{columns: (row: number) => Int32Array, position: (row: number) => number}} Mask  for the query in a row:
 *   columns(row)[k] is the column of key k in the scores (in a search, the hypotheses share columns), or −1 − column if
 *   the key is masked; position(row) is the query's own position
 * @typedef {{K: number, step: number, keys: Float32Array, values: Float32Array}} KeysValues  keys [K, D], and values
 *   transposed to [D, step], step ≥ K, so that both products of attention read rows
 * @typedef {{weights?: boolean, scores?: boolean, norms?: boolean, states?: Record<Side, Float32Array[]>, outputs?: Record<string, Float32Array>,
 *   encoder?: any, decoder?: any, cross?: any}} Capture
 *   what to keep from a pass: states after the embeddings and after each layer (the lists are filled), the heads' outputs before Wᴼ by
 *   "kind.layer", weights, scores q·k/√d_k before the mask, or norms ‖α · vWᴼ‖ (Kobayashi et al. 2020);
 *   `encode` adds `encoder`, `decode` adds `decoder` and `cross`: {weights: [layer, head, query, key], …}
 * @typedef {{S: number, mask: Mask, cross: KeysValues[], end: number}} Memory  an encoded source as keys and values
 * @typedef {{memory: Memory, length: number, own: KeysValues[], prefixes: Int32Array[], logits: Float32Array}} Cache  of
 *   a search: keys and values of all tokens fed so far, and which of their columns belong to each hypothesis
 */

/** x ↦ xWᵀ + b. */
class Linear {
  constructor({ heap, weights, shapes }, name, bias = `${name}.bias`) {
    this.heap = heap;
    this.weight = weights[`${name}.weight`];
    this.bias = weights[bias] ?? null;
    this.shape = shapes[`${name}.weight`];
  }

  /** x [T, inner] → `out` [T, outer]. @param {Float32Array} x @returns {Float32Array} */
  forward(x, out = this.heap.take((x.length / this.shape[1]) * this.shape[0])) {
    const { weight: w, bias, shape: [outer, inner] } = this;
    this.heap.product({ x, w, bias, out, rows: x.length / inner, inner, outer });
    return out;
  }
}

/** Token and position embeddings of both sides, and the output projection (§3.4, §3.5). */
class Embeddings {
  constructor(network) {
    const { config, weights } = network, target = config.share_embeddings ? "source_table" : "target_table";
    this.network = network;
    this.scale = config.scale_embeddings ? Math.fround(Math.sqrt(config.d_model)) : 1;
    this.tables = { source: weights["embeddings.source_table.weight"], target: weights[`embeddings.${target}.weight`] };
    this.classifier = config.tie_classifier
      ? new Linear(network, `embeddings.${target}`, "embeddings.tied_bias")
      : new Linear(network, "embeddings.classifier");
    /* In fairseq's table, as in M2M100, the positions begin at 2 and the rates fall to 10000^−1 (Ott et al. 2019). */
    this.first = config.position_table === "fairseq" ? 2 : 0;
    this.rates = Float64Array.from({ length: config.d_model / 2 }, (_, i) => 10_000 ** ((-2 * i) / (config.d_model - this.first)));
    const norm = (side) => (config.embedding_norm ? new Norm(network, `embeddings.${side}_norm`, { kind: "layer" }) : null);
    this.norms = { source: norm("source"), target: norm("target") };
  }

  /**
   * Return embedding·√d_model (if scaled) + position: ids → [T, D]. The embedding of <pad> is 0,
   * whatever its row of the table holds.
   * @param {"source" | "target"} side @param {number[]} ids @param {Edits} edits
   */
  embed(side, ids, edits, positions_TD = this.positions(side, 0, ids.length, edits)) {
    const { heap, config } = this.network, D = config.d_model, table_VD = this.tables[side], x_TD = heap.take(ids.length * D);
    for (const [t, id] of ids.entries()) {
      const row_D = rowOfMatrix(table_VD, id, D), scale = id === PADDING ? 0 : this.scale;
      for (let i = 0, at = t * D; i < D; i++, at++) x_TD[at] = Math.fround(row_D[i] * scale) + positions_TD[at % positions_TD.length]; // in a step, one position for all
    }
    return this.norms[side]?.forward(x_TD, x_TD) ?? x_TD;
  }

  /**
   * Return the encodings of `length` positions from `start`, [length, D], as edits move and scale
   * them. They are learned, or follow §3.5: PE(pos, 2i) = sin(pos / 10000^(2i/D)), and
   * PE(pos, 2i+1) is the cosine of that angle; or there are none, as in T5. Throws a RangeError if edits change what
   * is not there, or move a position out of a learned table.
   * @param {"source" | "target"} side @param {Edits} edits
   */
  positions(side, start, length, edits = NO_EDITS) {
    const { weights, config } = this.network, D = config.d_model, { scale, stretch, shift, order } = edits[`${side}Positions`];
    const learned = weights[`embeddings.${side}_positions.weight`], found_TD = new Float32Array(length * D);
    if (config.position_table === "none") {
      const isChanged = scale !== 1 || stretch !== 1 || shift !== 0 || order.length > 0;
      if (isChanged) throw new RangeError("this network adds no positions to its embeddings: none can be changed");
      return found_TD;
    }
    for (let t = 0; t < length; t++) {
      const pos = stretch * (order[start + t] ?? start + t) + shift, last = learned?.length / D - 1;
      if (learned && !(pos >= 0 && pos <= last))
        throw new RangeError(`position ${pos} was never learned: this model's table holds 0 to ${last}, so shift or stretch by less`);
      for (let i = 0; i < D; i++) {
        const angle = (pos + this.first) * this.rates[i >> 1], encoding = learned ? learned[pos * D + i] : i % 2 ? Math.cos(angle) : Math.sin(angle);
        found_TD[t * D + i] = scale * Math.fround(encoding);
      }
    }
    return found_TD;
  }

  /**
   * Project hidden states [T, D] to logits [T, V], by the target's embedding table if it is tied
   * (§3.4).
   */
  classify(hidden, out = undefined) {
    return this.classifier.forward(hidden, out);
  }
}

/** Let queries attend to all tokens except <pad> and hidden ones. @param {number[]} ids @param {Edits} edits @returns {Mask} */
function paddingMask(ids, edits, hidden = edits.hiddenSource) {
  const columns_K = Int32Array.from(ids, (id, k) => ((id === PADDING && edits.paddingMask) || hidden.includes(k) ? -1 - k : k));
  return { columns: () => columns_K, position: (row) => row };
}

/** Let query t attend to keys 0…t (§3.2.3) except <pad>. @param {number[]} ids @param {Edits} edits @returns {Mask} */
function causalMask(ids, edits) {
  const columns_K = paddingMask(ids, edits, []).columns(0), last = (row) => (edits.causalMask ? row : ids.length);
  const rows = ids.map((_, row) => columns_K.map((column, k) => (k <= last(row) ? column : -1 - k)));
  return { columns: (row) => rows[row], position: (row) => row };
}

/**
 * Turn the scores of one query [K] into weights, in place (§3.2.1, eq. 1). Masked scores arrive as −∞. If every key is
 * masked, the weights are 0 or, in a network trained with a finite score for masked keys (`maskScore`), all equal.
 */
function softmax(scores_K, maskScore) {
  let peak = -Infinity, total = 0;
  for (let k = 0; k < scores_K.length; k++) if (scores_K[k] > peak) peak = scores_K[k];
  if (peak === -Infinity) return scores_K.fill(maskScore === null ? 0 : 1 / scores_K.length);
  for (let k = 0; k < scores_K.length; k++) total += scores_K[k] = Math.exp(scores_K[k] - peak);
  for (let k = 0; k < scores_K.length; k++) scores_K[k] /= total;
  return scores_K;
}

/** Concat(head_1 … head_h)Wᴼ with head_i = Attention(QWᵢ^Q, KWᵢ^K, VWᵢ^V) (§3.2.2). */
class MultiHeadAttention {
  constructor(network, kind, layer, name) {
    this.network = network;
    this.heap = network.heap;
    this.kind = kind;
    this.layer = layer;
    this.H = headsOf(network.config, kind);
    this.query = new Linear(network, `${name}.query`);
    this.key = new Linear(network, `${name}.key`);
    this.value = new Linear(network, `${name}.value`);
    this.output = new Linear(network, `${name}.output`);
    this.D = this.query.shape[0]; // H · E: the width of all heads, in most networks d_model
  }

  /** Reserve memory for the keys and values of K tokens. @returns {KeysValues} */
  room(K) {
    const step = 4 * Math.ceil(K / 4); // whole vectors for the product; the numbers past K stay 0
    return { K: 0, step, keys: this.heap.take(K * this.D), values: this.heap.take(this.D * step).fill(0) };
  }

  /** Project memory [S, D] to keys and values and append them to `to`. @param {Float32Array} x_SD */
  keysValues(x_SD, to = this.room(x_SD.length / this.key.shape[1])) {
    const { D } = this, S = x_SD.length / this.key.shape[1], v_SD = this.value.forward(x_SD);
    this.key.forward(x_SD, to.keys.subarray(to.K * D, (to.K + S) * D));
    for (let s = 0; s < S; s++) for (let i = 0; i < D; i++) to.values[i * to.step + to.K + s] = v_SD[s * D + i];
    to.K += S;
    return to;
  }

  /**
   * Attend from x [Q, D] to keys and values: softmax(QKᵀ/√d_k)V of each head (§3.2.1, eq. 1), then Wᴼ: [Q, D].
   * @param {KeysValues} memory @param {Mask} mask @param {Edits} edits @param {Capture} capture
   */
  attend(x_QD, memory, mask, edits, capture) {
    const { D, H, heap } = this, { K, step, keys, values } = memory;
    const q_QD = this.query.forward(x_QD), Q = q_QD.length / D, E = D / H, K4 = 4 * Math.ceil(K / 4);
    const z_QD = heap.take(Q * D), weights_QK = heap.take(Q * K4), root = this.network.config.scale_scores ? Math.sqrt(E) : 1;
    const own = editsAt(edits, this.kind, this.layer), bias = this.kind === "cross" ? null : this.network.scoreBias[this.kind];
    for (let i = 0; i < q_QD.length; i++) q_QD[i] /= root; // 1. scale
    for (let h = 0; h < H; h++) {
      const q = q_QD.subarray(h * E), k = keys.subarray(h * E), v = values.subarray(h * E * step), z = z_QD.subarray(h * E);
      heap.product({ x: q, xStep: D, w: k, wStep: D, out: weights_QK, outStep: K4, rows: Q, inner: E, outer: K }); // 2. QKᵀ
      for (let row = 0; bias && row < Q; row++) bias.add(weights_QK.subarray(row * K4, (row + 1) * K4), mask.columns(row), mask.position(row), h);
      if (capture?.scores) this.keep("scores", h, Q, K, weights_QK, capture);
      for (let row = 0; row < Q; row++) this.weigh(weights_QK.subarray(row * K4, (row + 1) * K4), mask, row, h, own);
      if (capture?.weights) this.keep("weights", h, Q, K, weights_QK, capture);
      if (capture?.norms) this.keep("norms", h, Q, K, weights_QK, capture, this.lengths(h, memory, own));
      heap.product({ x: weights_QK, w: v, wStep: step, out: z, outStep: D, rows: Q, inner: K4, outer: E }); // 5. ·V
    }
    this.network.stateEdits.changeHeads(z_QD, this.kind, this.layer, edits, own, capture, mask.position);
    for (const h of own?.silent ?? []) for (let at = h * E; at < z_QD.length; at += D) z_QD.fill(0, at, at + E);
    const output_QD = this.output.forward(z_QD);
    for (const h of own?.mean ?? []) {
      const wide = output_QD.length / Q, mean_D = this.network.weights[`means.${this.kind}`].subarray((this.layer * H + h) * wide);
      for (let i = 0; i < output_QD.length; i++) output_QD[i] += mean_D[i % wide];
    }
    return output_QD;
  }

  /* Turn the scores of one query, a row of QKᵀ, into its weights, in place. @param {Mask} mask */
  weigh(row_K, mask, row, head, own) {
    const columns_K = mask.columns(row), scores_K = this.network.row.subarray(0, columns_K.length);
    for (let k = 0; k < scores_K.length; k++) scores_K[k] = columns_K[k] < 0 ? -Infinity : row_K[columns_K[k]]; // 3. mask
    if (own) editScores(scores_K, own, head, mask.position(row));
    softmax(scores_K, own?.changesWeights ? null : this.network.config.mask_score); // 4. softmax
    if (own) editWeights(scores_K, own, head, mask.position(row), columns_K);
    row_K.fill(0);
    for (let k = 0; k < scores_K.length; k++) row_K[columns_K[k] < 0 ? -1 - columns_K[k] : columns_K[k]] = scores_K[k];
  }

  /* ‖vWᴼ‖ of each key: the length of its contribution to the output at a weight of 1, [K]; 0 in an ablated head. */
  lengths(head, { K, step, values }, own) {
    const { D, H, heap } = this, E = D / H, wide = this.output.shape[0], mark = heap.used;
    const whole = this.output.weight, w = (whole instanceof ByteRows ? whole.unpack(0, heap.take(wide * D)) : whole).subarray(head * E);
    const v_KE = heap.take(K * E), out = heap.take(K * wide);
    for (let i = 0; i < K * E; i++) v_KE[i] = own?.silent.includes(head) ? 0 : values[(head * E + (i % E)) * step + Math.floor(i / E)];
    heap.product({ x: v_KE, w, wStep: D, out, rows: K, inner: E, outer: wide });
    heap.used = mark;
    return Float64Array.from({ length: K }, (_, k) => Math.hypot(...out.subarray(k * wide, (k + 1) * wide)));
  }

  /* Copy one head's numbers, times the keys' `factors_K`, into the maps of this kind, [layer, head, query, key]. */
  keep(name, head, Q, K, numbers_QK, capture, factors_K = null) {
    const { kind, layer, H, network } = this, maps = (capture[kind] ??= {}), step = numbers_QK.length / Q;
    const layers = (kind === "encoder" ? network.encoder : network.decoder).length;
    const map = (maps[name] ??= new Float32Array(layers * H * Q * K)).subarray((layer * H + head) * Q * K);
    for (let q = 0; q < Q; q++) for (let k = 0; k < K; k++) map[q * K + k] = numbers_QK[q * step + k] * (factors_K?.[k] ?? 1);
  }
}

/** max(0, xW₁ + b₁)W₂ + b₂ at each position (§3.3), or with another activation; a gated one times xV (Shazeer 2020, eq. 6). */
class FeedForward {
  constructor(network, name) {
    this.activate = activation(network.config.activation);
    this.inner = new Linear(network, `${name}.inner`);
    this.gate = network.config.gated ? new Linear(network, `${name}.gate`) : null;
    this.outer = new Linear(network, `${name}.outer`);
  }

  forward(x) {
    const inner = this.inner.forward(x);
    this.activate(inner);
    const gate = this.gate?.forward(x);
    for (let i = 0; gate && i < inner.length; i++) inner[i] *= gate[i];
    return this.outer.forward(inner);
  }
}

/** Base of both layers: a residual connection and a norm around each sublayer. */
class Layer {
  constructor(network, name, norms) {
    this.heap = network.heap;
    this.normFirst = network.config.norm_first;
    this.feedForward = new FeedForward(network, `${name}.feed_forward`);
    this.norms = Array.from({ length: norms }, (_, i) => new Norm(network, `${name}.norm${i + 1}`));
  }

  /** x becomes LayerNorm(x + Sublayer(x)) (§3.1); with `norm_first`, x + Sublayer(LayerNorm(x)). */
  residual(x, norm, sublayer) {
    const mark = this.heap.used;
    if (this.normFirst) add(x, sublayer(norm.forward(x)));
    else norm.forward(add(x, sublayer(x)), x);
    this.heap.used = mark; // free what the sublayer allocated
  }
}

function add(x, y) {
  for (let i = 0; i < x.length; i++) x[i] += y[i];
  return x;
}

/** Self-attention, then feed-forward (§3.1). */
class EncoderLayer extends Layer {
  constructor(network, layer) {
    super(network, `encoder.${layer}`, 2);
    this.selfAttention = new MultiHeadAttention(network, "encoder", layer, `encoder.${layer}.self_attention`);
  }

  forward(x_SD, sourceMask, edits, capture) {
    const attention = this.selfAttention, [norm1, norm2] = this.norms;
    this.residual(x_SD, norm1, (x) => attention.attend(x, attention.keysValues(x), sourceMask, edits, capture));
    this.residual(x_SD, norm2, (x) => this.feedForward.forward(x));
  }
}

/** Masked self-attention, cross-attention to the encoder's output, then feed-forward (§3.1). */
class DecoderLayer extends Layer {
  constructor(network, layer) {
    super(network, `decoder.${layer}`, 3);
    this.selfAttention = new MultiHeadAttention(network, "decoder", layer, `decoder.${layer}.self_attention`);
    this.crossAttention = new MultiHeadAttention(network, "cross", layer, `decoder.${layer}.cross_attention`);
  }

  /**
   * In a search step, `own` caches the keys and values of earlier tokens, and those of x are
   * appended to it. A whole pass leaves it out.
   */
  forward(x_TD, memory, targetMask, sourceMask, edits, capture, own) {
    const attention = this.selfAttention, cross = this.crossAttention, [norm1, norm2, norm3] = this.norms;
    this.residual(x_TD, norm1, (x) => attention.attend(x, attention.keysValues(x, own), targetMask, edits, capture));
    this.residual(x_TD, norm2, (x) => cross.attend(x, memory, sourceMask, edits, capture));
    this.residual(x_TD, norm3, (x) => this.feedForward.forward(x));
  }
}

/** @param {Float32Array} x @param {Capture | undefined} capture @param {Side} side */
function keepState(x, capture, side) {
  capture?.states?.[side].push(x.slice());
}

/** Encoder, decoder and output projection (figure 1). */
export class Transformer {
  /** @param {any} stored from `readWeights` @param {import("./product.js").Heap} heap */
  constructor({ about, config, tensors }, heap) {
    this.about = about;
    this.config = config;
    this.heap = heap;
    this.weights = {};
    this.shapes = {};
    for (const [name, tensor] of Object.entries(tensors)) {
      this.shapes[name] = tensor.shape;
      this.weights[name] = weightsOn(heap, name, tensor);
    }
    const norm = (name, more = {}) => (config.final_norm ? new Norm(this, name, more) : { forward: (x) => x });
    const bias = (side) => (config.relative_buckets ? new ScoreBias(this, side) : null);
    this.scoreBias = { encoder: bias("encoder"), decoder: bias("decoder") };
    this.embeddings = new Embeddings(this);
    this.encoder = Array.from({ length: config.num_encoder_layers }, (_, i) => new EncoderLayer(this, i));
    this.encoderNorm = norm("encoder_norm");
    this.decoder = Array.from({ length: config.num_decoder_layers }, (_, i) => new DecoderLayer(this, i));
    this.decoderNorm = norm("decoder_norm", { factor: config.scale_output ? config.d_model ** -0.5 : 1 });
    this.row = new Float64Array(config.max_length); // scores of a query
    this.stateEdits = new StateEdits(this);
    this.empty = heap.used;
  }

  /**
   * Encode source ids, which end with <eos>, to a memory valid until `free`. Throws a RangeError if tokens or edits do not fit.
   * @param {number[]} ids @param {Edits} edits @param {Capture} [capture] @returns {Memory}
   */
  encode(ids, edits = NO_EDITS, capture = undefined) {
    this.check(ids, edits, ids.length);
    this.stateEdits.prepare(edits);
    const cross = this.decoder.map((layer) => layer.crossAttention.room(ids.length)), end = this.heap.used;
    const mask = paddingMask(ids, edits), x_SD = this.embeddings.embed("source", ids, edits);
    this.stateEdits.change(x_SD, "encoder", 0, edits);
    keepState(x_SD, capture, "encoder");
    for (const [i, layer] of this.encoder.entries()) {
      layer.forward(x_SD, mask, edits, capture);
      this.stateEdits.change(x_SD, "encoder", i + 1, edits);
      keepState(x_SD, capture, "encoder");
    }
    const memory_SD = this.encoderNorm.forward(x_SD);
    for (const [i, layer] of this.decoder.entries()) layer.crossAttention.keysValues(memory_SD, cross[i]);
    this.heap.used = end;
    return { S: ids.length, mask, cross, end };
  }

  /**
   * Decode target ids, which begin with <bos>, to next-token logits [T, V], valid until the next call; unless
   * edits remove the causal mask, row t depends on tokens 0…t only. Throws what `encode` throws.
   * @param {number[]} ids @param {Memory} memory @param {Edits} edits @param {Capture} [capture]
   */
  decode(ids, memory, edits = NO_EDITS, capture = undefined) {
    this.check(ids, edits, memory.S);
    const start = this.heap.used, mask = causalMask(ids, edits), x_TD = this.embeddings.embed("target", ids, edits);
    this.stateEdits.change(x_TD, "decoder", 0, edits);
    keepState(x_TD, capture, "decoder");
    for (const [i, layer] of this.decoder.entries()) {
      layer.forward(x_TD, memory.cross[i], mask, memory.mask, edits, capture);
      this.stateEdits.change(x_TD, "decoder", i + 1, edits);
      keepState(x_TD, capture, "decoder");
    }
    const logits_TV = this.embeddings.classify(this.decoderNorm.forward(x_TD));
    this.heap.used = start;
    return logits_TV;
  }

  // Below: decoding step by step (core/model/decoding.py), memory, and checks of the arguments.

  /** Start a search of up to `beams` hypotheses and `limit` steps. @param {Memory} memory @returns {Cache} */
  start(memory, beams, limit) {
    const own = this.decoder.map((layer) => layer.selfAttention.room(beams * limit));
    return { memory, length: 0, own, prefixes: [], logits: this.heap.take(beams * this.config.target_vocab_size) };
  }

  /**
   * Feed one token per hypothesis. Hypothesis b extends `parents[b]` of the previous step (ignored in the first step).
   * Returns the logits [B, V] of the next tokens, valid until the next step.
   * @param {number[]} ids @param {number[]} parents @param {Cache} cache @param {Edits} edits
   */
  step(ids, parents, cache, edits = NO_EDITS) {
    const start = this.heap.used, { memory, own, length } = cache, column = own[0].K, position = () => length;
    cache.prefixes = parents.map((parent, b) => Int32Array.of(...(length ? cache.prefixes[parent] : []), column + b));
    const mask = { columns: (b) => cache.prefixes[b], position }, sourceMask = { ...memory.mask, position };
    const x_BD = this.embeddings.embed("target", ids, edits, this.embeddings.positions("target", length, 1, edits));
    this.stateEdits.change(x_BD, "decoder", 0, edits, position);
    for (const [i, layer] of this.decoder.entries()) {
      layer.forward(x_BD, memory.cross[i], mask, sourceMask, edits, undefined, own[i]);
      this.stateEdits.change(x_BD, "decoder", i + 1, edits, position);
    }
    const out = cache.logits.subarray(0, ids.length * this.config.target_vocab_size);
    this.embeddings.classify(this.decoderNorm.forward(x_BD), out);
    this.heap.used = start;
    cache.length += 1;
    return out;
  }

  /**
   * Free every memory and cache; with `memory`, only those made after it.
   * @param {Memory} [memory]
   */
  free(memory) {
    this.heap.used = memory?.end ?? this.empty;
  }

  check({ length }, edits, S) {
    const most = this.config.max_length, isMissing = edits.headsMean.length && !this.weights["means.encoder"];
    const [problem] = length > most ? [`${length} tokens are too many: the limit is ${most}`] : checkEdits(edits, this.config, S);
    if (problem) throw new RangeError(problem);
    if (isMissing) throw new RangeError("the means of the heads are not on this page: switch heads off instead");
    if (edits.pushes.some((one) => !("seed" in one)) && !this.weights["lens.encoder"])
      throw new RangeError("the network's Jacobian lens is not on this page: export the page from a checkpoint that has one");
  }
}

/* Whether a tensor stays bytes: the matrices of layers and the tables of tokens, which are nearly all weights. */
const staysBytes = (name, kind) => kind === "i8" && /^(?:encoder|decoder)\.|_table\.|classifier/.test(name);

/* A tensor's numbers on the heap. @returns {Float32Array | ByteRows} */
function weightsOn(heap, name, tensor) {
  const { kind, shape, values } = tensor;
  if (!staysBytes(name, kind)) {
    const numbers = heap.take(values.length);
    unpackTensor(tensor, numbers);
    return numbers;
  }
  const bytes = heap.takeBytes(values.length), scales = unpackScales(tensor, heap.take(shape[0]));
  bytes.set(/** @type {Int8Array} */ (values));
  return new ByteRows(bytes, scales);
}

/** Unpack weights (see `readWeights`) into a network; `plain` computes without WebAssembly. @returns {Promise<Transformer>} */
export async function makeNetwork(stored, { plain = false } = {}) {
  const { target_vocab_size: V, max_length, num_decoder_layers: L } = stored.config, M = Math.min(max_length, MOST_TOKENS);
  const tensors = Object.entries(stored.tensors);
  const weights = tensors.reduce((count, [name, { kind, values, shape }]) => count + 8 + (staysBytes(name, kind) ? values.length / 4 + shape[0] : values.length), 0);
  const widest = (part) => Math.max(...tensors.filter(([name]) => name.endsWith(part)).map(([, { shape }]) => shape[0]));
  const [F, D] = [2 * widest(".inner.weight"), Math.max(widest(".query.weight"), stored.config.d_model)]; // a gated layer has two
  const pass = M * (V + F + M + 12 * D), memories = 2 * L * D * M * (2 + MOST_BEAMS);
  const step = MOST_BEAMS * (2 * V + F + MOST_BEAMS * M + 12 * D);
  return new Transformer(stored, await makeHeap(weights + pass + memories + step + MOST_UNPACKED, plain));
}
