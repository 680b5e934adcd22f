// The Transformer of Vaswani et al. 2017, as in core/model/transformer.py: the same order, names and axes.
//
// Axes: S source length, T target length, B hypotheses, D d_model, V vocabulary, H head, E = d_k = d_v (the size of one
// head), Q query, K key. Tensors are parts of one heap (product.js), row after row. A network reads one sentence at a
// time, so there is no batch. The arithmetic of edits is in edits.js.

import { makeHeap } from "./product.js";
import { checkEdits, editScores, editWeights, editsAt, NO_EDITS } from "./edits.js";
import { unpackTensor } from "./weights.js";

const PADDING = 0; // the id of <pad>
const MOST_BEAMS = 8; // for which memory is reserved

/**
 * @typedef {import("./edits.js").Edits} Edits
 *
 * Which keys a query may attend to: `columns(row)[k]` is the column of key k in the scores, or −1 if it is masked;
 * `position(row)` is the query's place in its text.
 * @typedef {{columns: (row: number) => Int32Array, position: (row: number) => number}} Mask
 *
 * Keys [K, D], and values transposed to [D, step], so that both products of attention read rows; `step` ≥ K.
 * @typedef {{K: number, step: number, keys: Float32Array, values: Float32Array}} KeysValues
 *
 * What to keep of a pass: set `weights`, `scores` (q·k/√d_k before the mask) or `norms` (‖α · vWᴼ‖ of Kobayashi et al.
 * 2020) to true. `encode` adds `encoder`, and `decode` adds `decoder` and `cross`, each with the chosen quantities:
 * `capture.cross.weights` is a Float32Array [layer, head, query, key].
 * @typedef {{weights?: boolean, scores?: boolean, norms?: boolean, encoder?: any, decoder?: any, cross?: any}} Capture
 *
 * An encoded source: keys and values of each decoder layer's cross-attention, and the mask of source keys.
 * @typedef {{S: number, mask: Mask, cross: KeysValues[], end: number}} Memory
 *
 * The tokens that a search has read: one column in `own` for each, and for each hypothesis the columns of its prefix.
 * @typedef {{memory: Memory, length: number, own: KeysValues[], prefixes: Int32Array[], logits: Float32Array}} Cache
 */

/** x ↦ xWᵀ + b. */
class Linear {
  constructor(network, name) {
    this.heap = network.heap;
    this.weight = network.weights[`${name}.weight`];
    this.bias = network.weights[`${name}.bias`] ?? null;
    [this.outer, this.inner] = network.shapes[`${name}.weight`];
  }

  /** x [T, inner] → `out` [T, outer]. @param {Float32Array} x */
  forward(x, out = this.heap.take((x.length / this.inner) * this.outer)) {
    const { weight: w, bias, inner, outer } = this;
    this.heap.product({ x, w, bias, out, rows: x.length / inner, inner, outer });
    return out;
  }
}

/** Token and position embeddings of both sides, and the output projection (§3.4, §3.5). */
class Embeddings {
  constructor(network) {
    const { config, heap, weights } = network;
    Object.assign(this, { config, heap, weights });
    const target = config.share_embeddings ? "source_table" : "target_table";
    this.scale = config.scale_embeddings ? Math.fround(Math.sqrt(config.d_model)) : 1;
    this.sourceTable = weights["embeddings.source_table.weight"];
    this.targetTable = weights[`embeddings.${target}.weight`];
    this.classifier = new Linear(network, `embeddings.${config.tie_classifier ? target : "classifier"}`);
  }

  /** Return embedding·√d_model (if scaled) + position: ids → [S, D]. @param {number[]} ids @param {Edits} edits */
  source(ids, edits) {
    return this.sum(ids, this.sourceTable, this.positions("source", 0, ids.length, edits));
  }

  /** Embed target ids: → [T, D]. @param {number[]} ids @param {Edits} edits */
  target(ids, edits) {
    return this.sum(ids, this.targetTable, this.positions("target", 0, ids.length, edits));
  }

  /** Embed one target token of each hypothesis at `position`: → [B, D]. @param {number[]} ids @param {Edits} edits */
  targetToken(ids, position, edits) {
    return this.sum(ids, this.targetTable, this.positions("target", position, 1, edits));
  }

  /* Embedding + position; a single position serves all rows. <pad> becomes 0, whatever its row holds. */
  sum(ids, table_VD, positions_TD) {
    const D = this.config.d_model, x_TD = this.heap.take(ids.length * D);
    for (let t = 0; t < ids.length; t++)
      for (let i = 0; i < D; i++) {
        const embedding = ids[t] === PADDING ? 0 : Math.fround(table_VD[ids[t] * D + i] * this.scale);
        x_TD[t * D + i] = embedding + positions_TD[(t * D + i) % positions_TD.length];
      }
    return x_TD;
  }

  /**
   * Return the encodings of `length` positions from `start`, [length, D]: learned ones, or those of §3.5,
   * PE(pos, 2i) = sin(pos / 10000^(2i/D)) and PE(pos, 2i+1) = cos of the same angle. Edits move and scale them.
   * @param {"source" | "target"} side @param {Edits} edits
   */
  positions(side, start, length, edits = NO_EDITS) {
    const { scale, stretch, shift, order } = edits[`${side}Positions`];
    const D = this.config.d_model, learned = this.weights[`embeddings.${side}_positions.weight`];
    const found_TD = new Float32Array(length * D);
    for (let t = 0; t < length; t++) {
      const pos = stretch * (order[start + t] ?? start + t) + shift;
      if (learned && !(pos >= 0 && pos * D < learned.length)) {
        const last = `this model's table ends at ${learned.length / D - 1}, so shift by less`;
        throw new RangeError(`position ${pos} was never learned: ${last}`);
      }
      for (let i = 0; i < D; i += 2) {
        const angle = pos * 10_000 ** (-i / D);
        const [sin, cos] = learned ? learned.subarray(pos * D + i) : [Math.sin(angle), Math.cos(angle)].map(Math.fround);
        found_TD[t * D + i] = scale * sin;
        found_TD[t * D + i + 1] = scale * cos;
      }
    }
    return found_TD;
  }

  /** Project hidden states [T, D] to logits [T, V]; tied: by the target table (§3.4). */
  classify(hidden, out) {
    return this.classifier.forward(hidden, out);
  }
}

/** Let every query attend to all tokens but <pad> and hidden ones. @param {number[]} ids @param {Edits} edits @returns {Mask} */
function paddingMask(ids, edits, hidden = []) {
  const columns = Int32Array.from(ids, (id, k) => ((id === PADDING && edits.paddingMask) || hidden.includes(k) ? -1 : k));
  return { columns: () => columns, position: (row) => row };
}

/** Let query t attend to keys 0…t (§3.2.3), except <pad>. @param {number[]} ids @param {Edits} edits @returns {Mask} */
function targetMask(ids, edits) {
  const mask = paddingMask(ids, edits);
  if (!edits.causalMask) return mask;
  return { ...mask, columns: (row) => mask.columns(row).map((column, k) => (k <= row ? column : -1)) };
}

/**
 * Turn the scores of one query [K] into weights, in place (§3.2.1, eq. 1); a masked score is −∞. A query with every key
 * masked gets zeros or, in a network whose masked scores are finite (`maskScore`), attends to all keys equally.
 */
function softmax(scores_K, maskScore) {
  let peak = -Infinity, total = 0;
  for (const score of scores_K) if (score > peak) peak = score;
  if (peak === -Infinity) return scores_K.fill(maskScore === null ? 0 : 1 / scores_K.length);
  for (let k = 0; k < scores_K.length; k++) total += scores_K[k] = Math.exp(scores_K[k] - peak);
  for (let k = 0; k < scores_K.length; k++) scores_K[k] /= total;
  return scores_K;
}

/** Concat(head_1 … head_h)Wᴼ with head_i = Attention(QWᵢ^Q, KWᵢ^K, VWᵢ^V) (§3.2.2). */
class MultiHeadAttention {
  constructor(network, kind, layer, name) {
    const { heap, config, weights } = network, D = config.d_model, H = config.num_heads;
    Object.assign(this, { heap, config, kind, layer, D, H, E: D / H });
    this.means_HD = weights[`means.${kind}`]?.subarray(layer * H * D, (layer + 1) * H * D); // of the heads, for mean ablation
    [this.query, this.key, this.value, this.output] = ["query", "key", "value", "output"].map(
      (part) => new Linear(network, `${name}.${part}`),
    );
  }

  /** Reserve memory for the keys and values of K tokens. @returns {KeysValues} */
  room(K) {
    const step = 4 * Math.ceil(K / 4); // whole vectors for the product; the numbers past K stay 0
    return { K: 0, step, keys: this.heap.take(K * this.D), values: this.heap.take(this.D * step).fill(0) };
  }

  /** Project memory [S, D] to keys and values and append them to `to`. @param {Float32Array} x_SD */
  keysValues(x_SD, to = this.room(x_SD.length / this.D)) {
    const { D, heap } = this, S = x_SD.length / D, v_SD = this.value.forward(x_SD);
    this.key.forward(x_SD, to.keys.subarray(to.K * D, (to.K + S) * D));
    for (let s = 0; s < S; s++) for (let i = 0; i < D; i++) to.values[i * to.step + to.K + s] = v_SD[s * D + i];
    to.K += S;
    return to;
  }

  /**
   * Attend from x [Q, D] to keys and values: softmax(QKᵀ/√d_k)V of each head (§3.2.1, eq. 1), then Wᴼ: [Q, D].
   * @param {KeysValues} memory @param {Mask} mask @param {Edits} edits @param {Capture} [capture]
   */
  attend(x_QD, { K, step, keys, values }, mask, edits, capture) {
    const { D, H, E, heap } = this, Q = x_QD.length / D, K4 = 4 * Math.ceil(K / 4);
    const own = edits === NO_EDITS ? null : editsAt(edits, this.kind, this.layer);
    const q_QD = this.query.forward(x_QD), heads_QD = heap.take(Q * D), weights_QK = heap.take(Q * K4);
    for (let i = 0; i < q_QD.length; i++) q_QD[i] /= Math.sqrt(E); // 1. scale
    for (let h = 0; h < H; h++) {
      const q = q_QD.subarray(h * E), k = keys.subarray(h * E), v = values.subarray(h * E * step), z = heads_QD.subarray(h * E);
      const keep = (name, numbers) => capture?.[name] && this.keep(capture, name, h, Q, K, numbers);
      heap.product({ x: q, xStep: D, w: k, wStep: D, out: weights_QK, outStep: K4, rows: Q, inner: E, outer: K }); // 2. QKᵀ
      keep("scores", (query, key) => weights_QK[query * K4 + key]);
      for (let row = 0; row < Q; row++) this.weigh(weights_QK.subarray(row * K4, (row + 1) * K4), row, mask, h, own);
      keep("weights", (query, key) => weights_QK[query * K4 + key]);
      heap.product({ x: weights_QK, xStep: K4, w: v, wStep: step, out: z, outStep: D, rows: Q, inner: K4, outer: E }); // 5. ·V
      if (capture?.norms) {
        const length_K = this.valueLengths(v, step, K, h, own);
        keep("norms", (query, key) => weights_QK[query * K4 + key] * length_K[key]);
      }
    }
    if (own) this.silence(heads_QD, own);
    const output_QD = this.output.forward(heads_QD);
    if (own) this.addMeans(output_QD, own);
    return output_QD;
  }

  /* The scores of one query, a row of QKᵀ, become its weights. @param {Mask} mask */
  weigh(row, query, mask, head, own) {
    const columns_K = mask.columns(query), position = mask.position(query), K = columns_K.length;
    const scores_K = new Float64Array(K);
    for (let k = 0; k < K; k++) scores_K[k] = columns_K[k] < 0 ? -Infinity : row[columns_K[k]]; // 3. mask
    if (own) editScores(scores_K, own, head, position);
    softmax(scores_K, own ? null : this.config.mask_score); // 4. softmax
    if (own) editWeights(scores_K, columns_K, own, head, position);
    row.fill(0);
    for (let k = 0; k < K; k++) if (columns_K[k] >= 0) row[columns_K[k]] = scores_K[k];
  }

  /* Ablated heads add nothing to the output projection, or their mean over a sample. @param {SiteEdits} own */
  silence(heads_QD, { off, mean }) {
    const { D, E } = this;
    for (const h of [...off, ...mean])
      for (let at = h * E; at < heads_QD.length; at += D) heads_QD.fill(0, at, at + E);
  }

  addMeans(output_QD, { mean }) {
    const { D, means_HD } = this;
    for (const h of mean) for (let i = 0; i < output_QD.length; i++) output_QD[i] += means_HD[h * D + (i % D)];
  }

  /* ‖vWᴼ‖ of each key: how long its contribution to the output is at a weight of 1, [K]. */
  valueLengths(v, step, K, head, own) {
    const { D, E, heap } = this, length_K = new Float64Array(K);
    if (own?.off.has(head) || own?.mean.has(head)) return length_K;
    const v_KE = heap.take(K * E), w = this.output.weight.subarray(head * E), out = heap.take(K * D);
    for (let i = 0; i < K * E; i++) v_KE[i] = v[(i % E) * step + Math.floor(i / E)];
    heap.product({ x: v_KE, w, wStep: D, out, rows: K, inner: E, outer: D });
    return length_K.map((_, k) => Math.hypot(...out.subarray(k * D, (k + 1) * D)));
  }

  /* Copy one head's numbers [Q, K] into the maps of this kind, [layer, head, query, key]. @param {Capture} capture */
  keep(capture, name, head, Q, K, numberAt) {
    const { kind, layer, config, H } = this;
    const layers = kind === "encoder" ? config.num_encoder_layers : config.num_decoder_layers;
    const maps = (capture[kind] ??= {}), map = (maps[name] ??= new Float32Array(layers * H * Q * K));
    let at = (layer * H + head) * Q * K;
    for (let query = 0; query < Q; query++) for (let key = 0; key < K; key++) map[at++] = numberAt(query, key);
  }
}

/** max(0, xW₁ + b₁)W₂ + b₂ at each position (§3.3). */
class FeedForward {
  constructor(network, name) {
    this.inner = new Linear(network, `${name}.inner`);
    this.outer = new Linear(network, `${name}.outer`);
  }

  forward(x) {
    const inner = this.inner.forward(x);
    for (let i = 0; i < inner.length; i++) if (inner[i] < 0) inner[i] = 0;
    return this.outer.forward(inner);
  }
}

/** Layer normalisation of each vector [T, D] (Ba et al. 2016): (x − mean) / √(variance + eps) · weight + bias. */
class LayerNorm {
  constructor(network, name) {
    this.heap = network.heap;
    this.weight = network.weights[`${name}.weight`];
    this.bias = network.weights[`${name}.bias`];
    this.eps = network.config.layer_norm_eps;
  }

  forward(x, out = this.heap.take(x.length)) {
    const { weight, bias, eps } = this, D = weight.length;
    for (let at = 0; at < x.length; at += D) {
      let mean = 0, variance = 0;
      for (let i = 0; i < D; i++) mean += x[at + i] / D;
      for (let i = 0; i < D; i++) variance += (x[at + i] - mean) ** 2 / D;
      const deviation = Math.sqrt(variance + eps);
      for (let i = 0; i < D; i++) out[at + i] = ((x[at + i] - mean) / deviation) * weight[i] + bias[i];
    }
    return out;
  }
}

/** Base of both layers: a residual connection and a norm around each sublayer. */
class Layer {
  constructor(network) {
    this.heap = network.heap;
    this.normFirst = network.config.norm_first;
  }

  /** x becomes LayerNorm(x + Sublayer(x)) (§3.1); `norm_first` normalises the input instead. */
  residual(x, norm, sublayer) {
    const mark = this.heap.used;
    if (this.normFirst) add(x, sublayer(norm.forward(x)));
    else norm.forward(add(x, sublayer(x)), x);
    this.heap.used = mark; // nothing of the sublayer is needed again
  }
}

function add(x, y) {
  for (let i = 0; i < x.length; i++) x[i] += y[i];
  return x;
}

/** Self-attention, then feed-forward (§3.1). */
class EncoderLayer extends Layer {
  constructor(network, layer) {
    super(network);
    const name = `encoder.${layer}`;
    this.selfAttention = new MultiHeadAttention(network, "encoder", layer, `${name}.self_attention`);
    this.feedForward = new FeedForward(network, `${name}.feed_forward`);
    [this.norm1, this.norm2] = [1, 2].map((i) => new LayerNorm(network, `${name}.norm${i}`));
  }

  forward(x_SD, sourceMask, edits, capture) {
    const attention = this.selfAttention;
    this.residual(x_SD, this.norm1, (x) => attention.attend(x, attention.keysValues(x), sourceMask, edits, capture));
    this.residual(x_SD, this.norm2, (x) => this.feedForward.forward(x));
  }
}

/** Masked self-attention, cross-attention to the encoder's output, then feed-forward (§3.1). */
class DecoderLayer extends Layer {
  constructor(network, layer) {
    super(network);
    const name = `decoder.${layer}`;
    this.selfAttention = new MultiHeadAttention(network, "decoder", layer, `${name}.self_attention`);
    this.crossAttention = new MultiHeadAttention(network, "cross", layer, `${name}.cross_attention`);
    this.feedForward = new FeedForward(network, `${name}.feed_forward`);
    [this.norm1, this.norm2, this.norm3] = [1, 2, 3].map((i) => new LayerNorm(network, `${name}.norm${i}`));
  }

  /** In a whole pass x is all of the target; in a step, new tokens, and `own` the keys and values read before. */
  forward(x_TD, source, targetMask, sourceMask, edits, capture, own) {
    const attention = this.selfAttention, cross = this.crossAttention;
    this.residual(x_TD, this.norm1, (x) => attention.attend(x, attention.keysValues(x, own), targetMask, edits, capture));
    this.residual(x_TD, this.norm2, (x) => cross.attend(x, source, sourceMask, edits, capture));
    this.residual(x_TD, this.norm3, (x) => this.feedForward.forward(x));
  }
}

/** Encoder, decoder and output projection (figure 1). */
export class Transformer {
  /** @param {{about: any, config: any}} stored as `readWeights` returns it @param {import("./product.js").Heap} heap */
  constructor({ about, config, tensors }, heap) {
    Object.assign(this, { about, config, heap, weights: {}, shapes: {} });
    for (const [name, tensor] of Object.entries(tensors)) {
      this.shapes[name] = tensor.shape;
      this.weights[name] = heap.take(tensor.values.length);
      unpackTensor(tensor, this.weights[name]);
    }
    this.embeddings = new Embeddings(this);
    this.encoder = Array.from({ length: config.num_encoder_layers }, (_, i) => new EncoderLayer(this, i));
    this.decoder = Array.from({ length: config.num_decoder_layers }, (_, i) => new DecoderLayer(this, i));
    const norm = (name) => (config.final_norm ? new LayerNorm(this, name) : { forward: (x) => x });
    [this.encoderNorm, this.decoderNorm] = [norm("encoder_norm"), norm("decoder_norm")];
    this.first = heap.used;
  }

  /** Encode source ids, which end with <eos>. The memory is valid until `free`. @param {number[]} ids @returns {Memory} */
  encode(ids, edits = NO_EDITS, capture = undefined) {
    this.check(ids, edits, ids.length);
    const { heap, embeddings } = this, S = ids.length, mask = paddingMask(ids, edits, edits.hiddenSource);
    const cross = this.decoder.map((layer) => layer.crossAttention.room(S)), end = heap.used;
    const x_SD = embeddings.source(ids, edits);
    for (const layer of this.encoder) layer.forward(x_SD, mask, edits, capture);
    const memory_SD = this.encoderNorm.forward(x_SD);
    for (const [i, layer] of this.decoder.entries()) layer.crossAttention.keysValues(memory_SD, cross[i]);
    heap.used = end;
    return { S, mask, cross, end };
  }

  /**
   * Decode target ids, which begin with <bos>, to next-token logits [T, V]; row t depends on tokens 0…t only. The logits
   * are valid until the next call of any method.
   * @param {number[]} ids @param {Memory} memory
   */
  decode(ids, memory, edits = NO_EDITS, capture = undefined) {
    this.check(ids, edits, memory.S);
    const { heap, embeddings } = this, mark = heap.used, mask = targetMask(ids, edits);
    const x_TD = embeddings.target(ids, edits);
    for (const [i, layer] of this.decoder.entries())
      layer.forward(x_TD, memory.cross[i], mask, memory.mask, edits, capture);
    const logits_TV = embeddings.classify(this.decoderNorm.forward(x_TD));
    heap.used = mark;
    return logits_TV;
  }

  // End of the forward pass; the rest serves decoding step by step.

  /** Start a search of up to `beams` hypotheses and `limit` steps. @param {Memory} memory @returns {Cache} */
  start(memory, beams, limit) {
    const own = this.decoder.map((layer) => layer.selfAttention.room(beams * limit));
    return { memory, length: 0, own, prefixes: [], logits: this.heap.take(beams * this.config.target_vocab_size) };
  }

  /**
   * Feed one token per hypothesis, which extends hypothesis `parents[b]` of the step before (ignored in the first step).
   * Returns the logits [B, V] of the next tokens, valid until the next step.
   * @param {number[]} ids @param {number[]} parents @param {Cache} cache
   */
  step(ids, parents, cache, edits = NO_EDITS) {
    const { heap, embeddings } = this, mark = heap.used, { memory, own, length } = cache, first = own[0].K;
    cache.prefixes = parents.map((parent, b) => Int32Array.of(...(length ? cache.prefixes[parent] : []), first + b));
    const ownMask = { columns: (b) => cache.prefixes[b], position: () => length };
    const sourceMask = { ...memory.mask, position: () => length };
    const x_BD = embeddings.targetToken(ids, length, edits);
    for (const [i, layer] of this.decoder.entries())
      layer.forward(x_BD, memory.cross[i], ownMask, sourceMask, edits, undefined, own[i]);
    const out = cache.logits.subarray(0, ids.length * this.config.target_vocab_size);
    const logits_BV = embeddings.classify(this.decoderNorm.forward(x_BD), out);
    heap.used = mark;
    cache.length += 1;
    return logits_BV;
  }

  /** Forget every memory and search; with `memory`, only what came after it. @param {Memory} [memory] */
  free(memory) {
    this.heap.used = memory?.end ?? this.first;
  }

  check(ids, edits, S) {
    const { max_length: most } = this.config;
    if (ids.length > most) throw new RangeError(`${ids.length} tokens are too many: the limit is ${most}`);
    const [problem] = edits === NO_EDITS ? [] : checkEdits(edits, this.config, S);
    if (problem) throw new RangeError(problem);
    const [mean] = edits.headsMean;
    if (mean && !this.weights[`means.${mean.kind}`])
      throw new RangeError("The page was exported without the means of the heads: switch heads off instead.");
  }
}

/** Unpack weights (see `readWeights`) into a network; `plain` avoids WebAssembly. @returns {Promise<Transformer>} */
export async function makeNetwork(stored, { plain = false } = {}) {
  const { d_model: D, dim_feedforward: F, target_vocab_size: V, max_length: M, num_decoder_layers: L } = stored.config;
  const weights = Object.values(stored.tensors).reduce((count, { values }) => count + values.length + 4, 0);
  const pass = M * (V + F + M + 12 * D), kept = 2 * L * D * M * (2 + MOST_BEAMS), step = MOST_BEAMS * (V + F + MOST_BEAMS * M + 12 * D);
  return new Transformer(stored, await makeHeap(weights + pass + kept + step + 1024, plain));
}
