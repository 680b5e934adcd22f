// x ↦ xWᵀ + b with its backward pass, on the matrix product of the heap; see network.js.

/** @typedef {import("../product.js").Heap} Heap */

/** Add x to the numbers of `into`, and return these. */
export function addTo(into, x) {
  for (let i = 0; i < into.length; i++) into[i] += x[i];
  return into;
}

/** x [R, columns] → its transpose [columns, R]. @param {Heap} heap */
function transposed(heap, x, columns) {
  const rows = x.length / columns, out = heap.take(x.length);
  for (let c = 0, to = 0; c < columns; c++) for (let r = 0, from = c; r < rows; r++, from += columns) out[to++] = x[from];
  return out;
}

/** x ↦ xWᵀ + b. */
export class TrainedLinear {
  /** @param {import("./network.js").TrainedTransformer} network */
  constructor(network, name, outer, inner) {
    this.heap = network.heap;
    this.weight = network.parameter(`${name}.weight`, outer, inner);
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
    const { heap, weight, bias, x } = this, [outer, inner] = weight.shape, rows = d.length / outer;
    const dx = heap.take(rows * inner), mark = heap.used, dW = heap.take(outer * inner);
    heap.product({ x: transposed(heap, d, outer), w: transposed(heap, x, inner), out: dW, rows: outer, inner: rows, outer: inner });
    addTo(weight.gradient, dW);
    if (bias) for (let at = 0; at < d.length; at += outer) for (let i = 0; i < outer; i++) bias.gradient[i] += d[at + i];
    heap.product({ x: d, w: transposed(heap, weight.values, inner), out: dx, rows, inner: outer, outer: inner });
    heap.used = mark;
    return dx;
  }
}
