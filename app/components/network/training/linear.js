// x ↦ xWᵀ + b with its backward pass, on the matrix product of the heap; see network.js.

/** @typedef {import("../product.js").Heap} Heap */

/** Add x to the numbers of `into`, and return these. */
export function addTo(into, x) {
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
export class TrainedLinear {
  /** @param {import("./network.js").TrainedTransformer} network */
  constructor(network, name, outer, inner) {
    this.heap = network.heap;
    this.weight = network.parameters[`${name}.weight`] ?? network.parameter(`${name}.weight`, outer, inner);
    this.bias = name.startsWith("embeddings.") ? null : network.parameter(`${name}.bias`, outer);
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
