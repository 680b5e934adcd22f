// Reads the weights file that app/export/weights.py writes: a JSON header, then packed tensors.
//
// uint32 header length | header {about, config, tokenizer (of the target), source_tokenizer (if it is another), function_words, means, lens, tensors} | tensors, each at a multiple of 16 bytes

import { ByteRows } from "./product.js";

export const CONFIG_KEYS = [
  "source_vocab_size", "target_vocab_size", "d_model", "num_heads", "num_encoder_layers", "num_decoder_layers",
  "dim_feedforward", "dropout", "attention_dropout", "norm_first", "layer_norm_eps", "qkv_bias", "mask_score",
  "learned_positions", "max_length", "share_embeddings", "tie_classifier", "scale_embeddings", "final_norm",
  "activation", "tied_bias", "gated", "norm", "embedding_norm", "linear_bias", "scale_scores", "head_size", "decoder_heads",
  "decoder_feedforward", "position_table", "relative_buckets", "relative_distance", "scale_output",
];

const STORED = { f16: Uint16Array, f32: Float32Array, i8: Int8Array };

/**
 * A tensor as stored: `values` are float16 bits, float32 numbers, or integers times the float16 `scales` of their rows.
 * @typedef {{shape: number[], kind: "f16" | "f32" | "i8", values: Uint16Array | Float32Array | Int8Array,
 *   scales: Uint16Array | null}} StoredTensor
 */

/**
 * Parse a weights file. The tensors are views of its bytes. Throws an Error of one line for a file that it cannot read.
 * @param {Uint8Array} bytes
 * @returns {{about: any, config: any, tokenizer: any, source_tokenizer?: any, means: any, lens: LensFacts | null, imported?: Imported | null, function_words: string[], tensors: Record<string, StoredTensor>}}
 */
export function readWeights(bytes) {
  if (bytes.byteOffset % 4) bytes = bytes.slice(); // views of 2 and 4 bytes need aligned memory
  const { buffer, byteOffset, byteLength } = bytes;
  const start = byteLength < 4 ? Infinity : 4 + new DataView(buffer, byteOffset).getUint32(0, true);
  if (start > byteLength) throw new Error("The weights end before their header does: export the page again.");
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, start)));
  const unknown = Object.keys(header.config).filter((name) => !CONFIG_KEYS.includes(name));
  if (unknown.length) throw new Error(`This page does not know the network's ${unknown.join(", ")}: export the page again.`);
  const view = (kind, at, length) => {
    const Stored = STORED[kind];
    if (!Stored) throw new Error(`This page does not know weights stored as ${kind}: export the page again.`);
    if (start + at + length * Stored.BYTES_PER_ELEMENT > byteLength)
      throw new Error("The weights end before their last tensor does: export the page again.");
    return new Stored(buffer, byteOffset + start + at, length);
  };
  const tensors = {};
  for (const [name, { shape, kind, at, scales }] of Object.entries(header.tensors)) {
    const values = view(kind, at, shape.reduce((count, length) => count * length, 1));
    tensors[name] = { shape, kind, values, scales: kind === "i8" ? view("f16", scales, shape[0]) : null };
  }
  return { ...header, tensors };
}

/** The scales of a matrix of bytes. @param {Pick<StoredTensor, "scales">} tensor @param {Float32Array} to */
export function unpackScales({ scales }, to) {
  widen(scales, to);
  return to;
}

/** Write a stored tensor's numbers into `to`, exactly. @param {StoredTensor} tensor @param {Float32Array} to */
export function unpackTensor({ kind, shape, values, scales }, to) {
  if (kind === "f32") to.set(values);
  if (kind === "f16") widen(/** @type {Uint16Array} */ (values), to);
  if (kind === "i8") new ByteRows(/** @type {Int8Array} */ (values), unpackScales({ scales }, new Float32Array(shape[0]))).unpack(0, to);
}

/*
 * Convert float16 bits to float32: move sign, exponent and fraction to their places, then multiply
 * by 2^112, as the exponents' biases differ by 127 − 15 = 112. Exact for all finite numbers,
 * including subnormal ones.
 */
function widen(halves, to) {
  const bits = new Uint32Array(to.buffer, to.byteOffset, to.length);
  for (let i = 0; i < halves.length; i++) bits[i] = ((halves[i] & 0x8000) << 16) | ((halves[i] & 0x7fff) << 13);
  for (let i = 0; i < to.length; i++) to[i] *= 2 ** 112;
}
