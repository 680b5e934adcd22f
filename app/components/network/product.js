// One heap of float32 and the matrix product on it: WebAssembly SIMD made from bytes here, or plain JavaScript.

/**
 * Arguments of a product: out[r, c] = Σᵢ x[r, i] · w[c, i] + bias[c], for x [rows, inner] and w [outer, inner].
 *
 * Steps are the distances from one row to the next, in numbers; a head's slice of the features has longer ones.
 * @typedef {{x: Float32Array, w: Float32Array, bias?: Float32Array | null, out: Float32Array, rows: number, inner: number,
 *   outer: number, xStep?: number, wStep?: number, outStep?: number}} Product
 */

/** Memory for weights and intermediate results. `take` gives the next free part; setting `used` back frees it. */
export class Heap {
  /** @param {ArrayBuffer} buffer @param {((...numbers: number[]) => void) | null} kernel  null: plain JavaScript */
  constructor(buffer, kernel) {
    this.buffer = buffer;
    this.kernel = kernel;
    this.used = 0;
    this.zeros = this.take(4).fill(0);
  }

  /** Return the next `count` numbers, aligned to 16 bytes and not cleared. Throws a RangeError if there are no more. */
  take(count) {
    const start = this.used;
    if ((start + count) * 4 > this.buffer.byteLength)
      throw new RangeError("The sentence needs more memory than the page has reserved: take a shorter one.");
    this.used = start + 4 * Math.ceil(count / 4);
    return new Float32Array(this.buffer, start * 4, count);
  }

  /** Multiply x [rows, inner] by wᵀ. @param {Product} product */
  product({ x, w, bias = null, out, rows, inner, outer, xStep = inner, wStep = inner, outStep = outer }) {
    const strips = this.kernel && inner % 4 === 0 ? outer - (outer % 4) : 0; // the kernel takes 4 × 4 numbers at a time
    const from = x.byteOffset, to = from + 4 * xStep * rows, added = (bias ?? this.zeros).byteOffset;
    for (let c = 0; c < strips; c += 4) {
      const row = w.byteOffset + 4 * c * wStep, sum = bias ? added + 4 * c : added;
      this.kernel(from, 4 * xStep, to, row, 4 * wStep, 4 * inner, sum, out.byteOffset + 4 * c, 4 * outStep);
    }
    if (strips < outer) plainProduct(strips, { x, w, bias, out, rows, inner, outer, xStep, wStep, outStep });
  }
}

/** Make a heap of `count` numbers. Where WebAssembly is missing or forbidden, or if `plain`, it computes in JavaScript. */
export async function makeHeap(count, plain = false) {
  if (!plain) {
    try {
      const memory = new WebAssembly.Memory({ initial: Math.ceil((4 * count) / 65_536) });
      const { instance } = await WebAssembly.instantiate(kernelBytes(), { on: { memory } });
      return new Heap(memory.buffer, /** @type {any} */ (instance.exports.strip));
    } catch {} // slower, with the same results but for rounding
  }
  return new Heap(new ArrayBuffer(4 * count), null);
}

/* The product's columns from `first` on, four at a time so that each number of x is read once for four. */
function plainProduct(first, { x, w, bias, out, rows, inner, outer, xStep, wStep, outStep }) {
  for (let c = first; c < outer; c += 4) {
    const count = Math.min(4, outer - c);
    // Past the last column, compute that one again; its result is not kept.
    const [w0, w1, w2, w3] = [0, 1, 2, 3].map((i) => (c + Math.min(i, count - 1)) * wStep);
    for (let r = 0; r < rows; r++) {
      let s0 = 0, s1 = 0, s2 = 0, s3 = 0;
      for (let i = 0, at = r * xStep; i < inner; i++, at++) {
        const value = x[at];
        s0 += value * w[w0 + i];
        s1 += value * w[w1 + i];
        s2 += value * w[w2 + i];
        s3 += value * w[w3 + i];
      }
      const to = r * outStep + c;
      out[to] = s0 + (bias ? bias[c] : 0);
      if (count > 1) out[to + 1] = s1 + (bias ? bias[c + 1] : 0);
      if (count > 2) out[to + 2] = s2 + (bias ? bias[c + 2] : 0);
      if (count > 3) out[to + 3] = s3 + (bias ? bias[c + 3] : 0);
    }
  }
}

/*
 * The kernel: one WebAssembly function, strip(x, xStep, xEnd, w, wStep, inner, bias, out, outStep), all in bytes, which
 * computes four neighbouring columns of every row:
 *
 *   do {                                              // rows
 *     a[0…3] = 0; i = 0
 *     do a[c] += x[i … i+3] · w[c][i … i+3]           // four products at once; c = 0…3
 *     while ((i += 16) < inner)
 *     out[0…3] = (the sum of the four numbers in each a[c]) + bias[0…3]
 *   } while ((out += outStep), (x += xStep) < xEnd)
 *
 * The bytes follow the WebAssembly 2.0 specification, §5 (binary format).
 */
function kernelBytes() {
  const [x, xStep, xEnd, w, wStep, inner, bias, out, outStep] = Array(9).keys(); // parameters are the first locals
  const i = 9, row = [w, 10, 11, 12], a = [13, 14, 15, 16], numbers = 17; // then own ones: i32 to 12, v128 from 13
  const get = (local) => [0x20, local], set = (local) => [0x21, local], tee = (local) => [0x22, local];
  const plus = 0x6a, lessThan = 0x49, end = 0x0b; // i32.add, i32.lt_u
  const repeat = (body, condition) => [0x03, 0x40, ...body, ...condition, 0x0d, 0, end]; // loop … br_if 0 end
  const load = [0xfd, 0, 4, 0], store = [0xfd, 11, 4, 0]; // v128, aligned to 2⁴ bytes, offset 0
  const zero = [0xfd, 12, ...Array(16).fill(0)]; // v128.const
  const times = [0xfd, 0xe6, 1], add = [0xfd, 0xe4, 1]; // f32x4
  const pick = (...lanes) => [0xfd, 13, ...lanes.flatMap((lane) => [0, 1, 2, 3].map((byte) => 4 * lane + byte))]; // shuffle
  const halves = (left, right, low, high) => [...left, ...right, ...pick(...low), ...left, ...right, ...pick(...high), ...add];
  const pair = (p, q) => halves(get(p), get(q), [0, 4, 1, 5], [2, 6, 3, 7]); // p₀+p₂, q₀+q₂, p₁+p₃, q₁+q₃
  const code = [
    ...[1, 2, 3].flatMap((c) => [...get(row[c - 1]), ...get(wStep), plus, ...set(row[c])]),
    ...repeat(
      [
        ...a.flatMap((sum) => [...zero, ...set(sum)]),
        0x41, 0, ...set(i), // i = 0
        ...repeat(
          [
            ...get(x), ...get(i), plus, ...load, ...set(numbers),
            ...a.flatMap((sum, c) => [
              ...get(numbers), ...get(row[c]), ...get(i), plus, ...load, ...times, ...get(sum), ...add, ...set(sum),
            ]),
          ],
          [...get(i), 0x41, 16, plus, ...tee(i), ...get(inner), lessThan],
        ),
        ...pair(a[0], a[1]), ...set(a[0]), ...pair(a[2], a[3]), ...set(a[2]),
        ...get(out), ...halves(get(a[0]), get(a[2]), [0, 1, 4, 5], [2, 3, 6, 7]), ...get(bias), ...load, ...add, ...store,
        ...get(out), ...get(outStep), plus, ...set(out),
      ],
      [...get(x), ...get(xStep), plus, ...tee(x), ...get(xEnd), lessThan],
    ),
    end,
  ];
  const name = (text) => [text.length, ...new TextEncoder().encode(text)];
  const size = (count) => (count < 128 ? [count] : [(count & 127) | 128, count >> 7]); // LEB128
  const section = (id, ...content) => [id, ...size(content.length), ...content];
  const body = [2, 4, 0x7f, 5, 0x7b, ...code]; // two groups of locals: four i32, five v128
  return new Uint8Array([
    0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0, // "\0asm", version 1
    ...section(1, 1, 0x60, 9, ...Array(9).fill(0x7f), 0), // one type: nine i32 to nothing
    ...section(2, 1, ...name("on"), ...name("memory"), 2, 0, 1), // import a memory of at least one page
    ...section(3, 1, 0), // one function of type 0
    ...section(7, 1, ...name("strip"), 0, 0), // export it
    ...section(10, 1, ...size(body.length), ...body),
  ]);
}
