// A heap of float32 numbers, or of doubles, and the matrix product on it: WebAssembly SIMD (assembled below) or plain JavaScript.
// Matrices of bytes stay bytes, because reading memory takes longest: a product unpacks some of their rows at a time.

/**
 * A product: out[r, c] = Σᵢ x[r, i] · w[c, i] + bias[c], for x [rows, inner] and w [outer, inner]. A step is the distance
 * from one row to the next, in numbers. It exceeds the row's length if the rows are one head's slice of the features.
 * @typedef {{x: Float32Array, w: Float32Array | ByteRows, bias?: Float32Array | null, out: Float32Array, rows: number, inner: number,
 *   outer: number, xStep?: number, wStep?: number, outStep?: number}} Product
 */

/** A matrix [rows, inner]: each number is a signed byte times the scale of its row, which float32 holds exactly. */
export class ByteRows {
  /** @param {Int8Array} values @param {Float32Array} scales */
  constructor(values, scales) {
    this.values = values;
    this.scales = scales;
    this.inner = values.length / scales.length;
  }

  /** Write the numbers of rows from `first` on into `to`. @param {number} first @param {Float32Array} to */
  unpack(first, to) {
    const { values, scales, inner } = this;
    for (let at = 0, row = first; at < to.length; row++) {
      const scale = scales[row], start = row * inner;
      for (let i = 0; i < inner; i++) to[at++] = values[start + i] * scale;
    }
    return to;
  }
}

/** One row of a matrix as numbers. @param {Float32Array | ByteRows} matrix */
export const rowOfMatrix = (matrix, row, inner) =>
  matrix instanceof ByteRows ? matrix.unpack(row, new Float32Array(inner)) : matrix.subarray(row * inner, (row + 1) * inner);

const UNPACKED = 1 << 14; // numbers of a matrix of bytes unpacked at a time: they fit a processor's nearest cache, with the inputs

/** Memory for weights and intermediate results. `take` gives the next free part; setting `used` back frees it. */
export class Heap {
  /**
   * @param {ArrayBuffer} buffer @param {Record<"product" | "unpack", (...numbers: number[]) => void> | null} kernels  null: plain JavaScript
   * @param {any} Numbers Float32Array or Float64Array
   */
  constructor(buffer, kernels, Numbers = Float32Array) {
    this.buffer = buffer;
    this.kernel = kernels?.product ?? null;
    this.unpackRows = kernels?.unpack ?? null;
    this.Numbers = Numbers;
    this.used = 0;
    this.zeros = this.take(4).fill(0);
  }

  /** Return the next `count` numbers, aligned to 16 bytes and not cleared. Throws a RangeError if too few are left. @returns {Float32Array} */
  take(count) {
    const start = this.used, bytes = this.Numbers.BYTES_PER_ELEMENT;
    if ((start + count) * bytes > this.buffer.byteLength)
      throw new RangeError("The sentence needs more memory than the page has reserved: shorten it.");
    this.used = start + 4 * Math.ceil(count / 4);
    return new this.Numbers(this.buffer, start * bytes, count);
  }

  /** Take memory for bytes. @param {number} count @returns {Int8Array} */
  takeBytes(count) {
    const { byteOffset } = this.take(Math.ceil(count / this.Numbers.BYTES_PER_ELEMENT));
    return new Int8Array(this.buffer, byteOffset, count);
  }

  /** Multiply x [rows, inner] by wᵀ. @param {Product} product */
  product(product) {
    if (!(product.w instanceof ByteRows)) return void this.numbersProduct(/** @type {any} */ (product));
    const { w, bias = null, out, inner, outer, outStep = outer } = product, most = 4 * Math.ceil(UNPACKED / inner / 4), mark = this.used;
    const part = this.take(most * inner);
    for (let first = 0; first < outer; first += most) {
      const count = Math.min(most, outer - first), unpacked = part.subarray(0, count * inner), isFast = this.unpackRows && inner % 16 === 0;
      if (isFast) this.unpackRows(w.values.byteOffset + first * inner, inner, w.values.byteOffset + (first + count) * inner, w.scales.byteOffset + 4 * first, part.byteOffset);
      else w.unpack(first, unpacked);
      this.numbersProduct({ ...product, w: unpacked, bias: bias && bias.subarray(first), out: out.subarray(first), outer: count, outStep });
    }
    this.used = mark;
  }

  /** @param {Omit<Product, "w"> & {w: Float32Array}} product */
  numbersProduct({ x, w, bias = null, out, rows, inner, outer, xStep = inner, wStep = inner, outStep = outer }) {
    const fast = this.kernel && inner % 4 === 0 ? outer - (outer % 4) : 0; // the kernel computes 4 columns at a time, from 4 numbers at a time
    const bytes = this.Numbers.BYTES_PER_ELEMENT, at = (numbers, count = 0) => numbers.byteOffset + bytes * count;
    const ofW = [at(w), bytes * wStep, at(w, fast * wStep), bytes * inner];
    const ofBias = [at(bias ?? this.zeros), bias ? 4 * bytes : 0], ofOut = [at(out), bytes * outStep];
    if (fast) this.kernel(at(x), bytes * xStep, at(x, rows * xStep), ...ofW, ...ofBias, ...ofOut);
    if (fast === outer) return;
    const ofRows = { numbers: x, count: rows, step: xStep, outStep };
    const ofColumns = { numbers: w.subarray(fast * wStep), count: outer - fast, step: wStep, outStep: 1 };
    const sides = rows === 5 ? [ofRows, ofColumns] : [ofColumns, ofRows]; // plainProduct takes five rows of its first side at once
    plainProduct(sides[0], sides[1], inner, out.subarray(fast));
    for (let r = 0; r < rows && bias; r++) for (let c = fast; c < outer; c++) out[r * outStep + c] += bias[c];
  }
}

/** Make a heap of `count` numbers. Where WebAssembly is missing or forbidden, or if `plain`, it computes in JavaScript. */
export async function makeHeap(count, plain = false, /** @type {any} */ Numbers = Float32Array) {
  const bytes = Numbers.BYTES_PER_ELEMENT;
  if (!plain) {
    try {
      const memory = new WebAssembly.Memory({ initial: Math.ceil((bytes * count) / 65_536) });
      const { instance } = await WebAssembly.instantiate(kernelBytes(bytes), { on: { memory } });
      return new Heap(memory.buffer, /** @type {any} */ (instance.exports), Numbers);
    } catch {} // JavaScript is slower; its results differ by rounding only
  }
  return new Heap(new ArrayBuffer(bytes * count), null, Numbers);
}

/*
 * Multiply the rows of `five` by those of `two`, five by two at a time, so that seven numbers are read for ten products.
 * Where rows are missing at the end, the last row of `five` or `two` is computed again.
 */
function plainProduct({ numbers: x, step: xStep, ...five }, { numbers: y, step: yStep, ...two }, inner, out) {
  for (let p = 0, last = five.count - 1; p <= last; p += 5) {
    const p1 = Math.min(p + 1, last), p2 = Math.min(p + 2, last), p3 = Math.min(p + 3, last), p4 = Math.min(p + 4, last);
    const x1 = (p1 - p) * xStep, x2 = (p2 - p) * xStep, x3 = (p3 - p) * xStep, x4 = (p4 - p) * xStep;
    for (let q = 0; q < two.count; q += 2) {
      const more = q + 1 < two.count ? 1 : 0, y1 = more * yStep, at = q * two.outStep, at1 = at + more * two.outStep;
      let a0 = 0, a1 = 0, a2 = 0, a3 = 0, a4 = 0, b0 = 0, b1 = 0, b2 = 0, b3 = 0, b4 = 0;
      for (let i = p * xStep, j = q * yStep, end = i + inner; i < end; i++, j++) {
        const v0 = x[i], v1 = x[i + x1], v2 = x[i + x2], v3 = x[i + x3], v4 = x[i + x4], a = y[j], b = y[j + y1];
        a0 += v0 * a;
        a1 += v1 * a;
        a2 += v2 * a;
        a3 += v3 * a;
        a4 += v4 * a;
        b0 += v0 * b;
        b1 += v1 * b;
        b2 += v2 * b;
        b3 += v3 * b;
        b4 += v4 * b;
      }
      out[p * five.outStep + at] = a0;
      out[p1 * five.outStep + at] = a1;
      out[p2 * five.outStep + at] = a2;
      out[p3 * five.outStep + at] = a3;
      out[p4 * five.outStep + at] = a4;
      out[p * five.outStep + at1] = b0;
      out[p1 * five.outStep + at1] = b1;
      out[p2 * five.outStep + at1] = b2;
      out[p3 * five.outStep + at1] = b3;
      out[p4 * five.outStep + at1] = b4;
    }
  }
}

/*
 * The kernels: two WebAssembly functions. unpack(from, rowBytes, end, scales, to) does what ByteRows.unpack does, for rows of whole
 * vectors of bytes:
 *
 *   do {                                                          // a row
 *     scale = scales[0], in all lanes; stop = from + rowBytes
 *     do {                                                        // 16 bytes
 *       to[0…15] = from[0…15] · scale; from += 16 bytes; to += 16 numbers
 *     } while (from < stop)
 *     scales += 1
 *   } while (from < end)
 *
 * product(x, xStep, xEnd, w, wStep, wEnd, inner, bias, biasStep, out, outStep) has
 * steps, ends, inner and i in bytes, for numbers of `size` bytes. It computes four columns of two rows at a time; if a last row is left over, it is computed twice.
 *
 *   do {                                                          // four columns: w, w1, w2, w3 are wStep apart
 *     row = x; to = out; ahead = w3 + wStep < wEnd ? w3 + wStep : w
 *     do {                                                        // two rows
 *       more = row + xStep < xEnd; row1 = row + more · xStep; a = 0; i = 0
 *       do {
 *         read ahead[4 · i]                                       // memory is slow: fetch the next four columns meanwhile
 *         a[r][c] += row[r][i … i+15] · w[c][i … i+15]            // r = 0, 1; c = 0…3; 16 bytes: four products at once, or two of doubles
 *       } while ((i += 16) < inner)
 *       to[0…3] = sums of the numbers in each a[0][c], + bias[0…3]; to += more · outStep; the same for a[1]
 *     } while ((to += outStep), (row = row1 + xStep) < xEnd)
 *     out += 4 numbers; bias += biasStep
 *   } while ((w = w3 + wStep) < wEnd)
 *
 * The bytes follow the WebAssembly specification, §5 (binary format).
 */
function kernelBytes(size) {
  const [x, xStep, xEnd, w, wStep, wEnd, inner, bias, biasStep, out, outStep] = Array(11).keys(); // parameters are locals
  const [row, row1, more, to, ahead, i, w1, w2, w3] = [11, 12, 13, 14, 15, 16, 17, 18, 19], columns = [w, w1, w2, w3]; // i32 …
  const a = [[20, 21, 22, 23], [24, 25, 26, 27]], numbers = [28, 29], weights = 30; // … and v128
  const get = (local) => [0x20, local], set = (local) => [0x21, local], tee = (local) => [0x22, local];
  const plus = 0x6a, mul = 0x6c, lessThan = 0x49, select = 0x1b, drop = 0x1a, end = 0x0b; // of i32: add, mul, lt_u
  const constant = (number) => [0x41, number]; // i32.const
  const sumOf = (p, q) => [...get(p), ...get(q), plus], increase = (local, by) => [...sumOf(local, by), ...set(local)];
  const ifMore = (start, step) => [...get(start), ...get(more), ...get(step), mul, plus];
  const repeat = (body, condition) => [0x03, 0x40, ...body, ...condition, 0x0d, 0, end]; // loop … br_if 0 end
  const loadFrom = (offset) => [0xfd, 0, 4, offset], load = loadFrom(0), store = (offset) => [0xfd, 11, 4, offset]; // v128, aligned to 2⁴ bytes
  const zero = [0xfd, 12, ...Array(16).fill(0)]; // v128.const
  const times = [0xfd, size === 4 ? 0xe6 : 0xf2, 1], add = [0xfd, size === 4 ? 0xe4 : 0xf0, 1]; // f32x4 or f64x2
  const pick = (...lanes) => [0xfd, 13, ...lanes.flatMap((lane) => Array.from({ length: size }, (_, byte) => size * lane + byte))]; // shuffle
  const halves = (p, q, low, high) => [...get(p), ...get(q), ...pick(...low), ...get(p), ...get(q), ...pick(...high), ...add];
  const pair = (p, q) => [...halves(p, q, [0, 4, 1, 5], [2, 6, 3, 7]), ...set(p)]; // p = p₀+p₂, q₀+q₂, p₁+p₃, q₁+q₃
  const sums = ([p, q, r, s]) => [...pair(p, q), ...pair(r, s), ...halves(p, r, [0, 1, 4, 5], [2, 3, 6, 7])];
  const doubles = (p, q) => halves(p, q, [0, 2], [1, 3]), total = (of) => (size === 4 ? [sums(of)] : [doubles(of[0], of[1]), doubles(of[2], of[3])]);
  const write = (of) => total(of).flatMap((sum, half) => [...get(to), ...sum, ...get(bias), ...loadFrom(16 * half), ...add, ...store(16 * half)]);
  const loadAt = (start, into) => [...sumOf(start, i), ...load, ...set(into)];
  const multiply = (r, c) => [...get(numbers[r]), ...get(weights), ...times, ...get(a[r][c]), ...add, ...set(a[r][c])];
  const products = [
    ...get(ahead), ...get(i), ...constant(4), mul, plus, ...load, drop,
    ...loadAt(row, numbers[0]), ...loadAt(row1, numbers[1]),
    ...columns.flatMap((column, c) => [...loadAt(column, weights), ...multiply(0, c), ...multiply(1, c)]),
  ];
  const twoRows = [
    ...sumOf(row, xStep), ...get(xEnd), lessThan, ...set(more), ...ifMore(row, xStep), ...set(row1),
    ...a.flat().flatMap((local) => [...zero, ...set(local)]), ...constant(0), ...set(i),
    ...repeat(products, [...get(i), ...constant(16), plus, ...tee(i), ...get(inner), lessThan]),
    ...write(a[0]), ...ifMore(to, outStep), ...set(to), ...write(a[1]), ...increase(to, outStep),
  ];
  const fourColumns = [
    ...[1, 2, 3].flatMap((c) => [...sumOf(columns[c - 1], wStep), ...set(columns[c])]),
    ...get(x), ...set(row), ...get(out), ...set(to),
    ...sumOf(w3, wStep), ...tee(ahead), ...get(w), ...get(ahead), ...get(wEnd), lessThan, select, ...set(ahead),
    ...repeat(twoRows, [...sumOf(row1, xStep), ...tee(row), ...get(xEnd), lessThan]),
    ...get(out), ...constant(4 * size), plus, ...set(out), ...increase(bias, biasStep),
  ];
  const code = [...repeat(fourColumns, [...sumOf(w3, wStep), ...tee(w), ...get(wEnd), lessThan]), end];
  const name = (text) => [text.length, ...new TextEncoder().encode(text)];
  const length = (count) => [(count & 127) | 128, count >> 7]; // LEB128 of two bytes
  const section = (id, ...content) => [id, ...length(content.length), ...content];
  const body = [2, 9, 0x7f, 11, 0x7b, ...code]; // two groups of locals: nine i32, eleven v128
  const [from, rowBytes, stopAll, scales, into] = Array(5).keys(), [scale, read, stop] = [12, 13, 11];
  const simd = (...bytes) => [0xfd, ...bytes], widen16 = [simd(0x87, 1), simd(0x88, 1)], widen32 = [simd(0xa7, 1), simd(0xa8, 1)], asFloat = simd(0xfa, 1);
  const unpackSixteen = [
    ...get(from), ...load, ...set(read),
    ...widen16.flatMap((half, h) => widen32.flatMap((quarter, q) => [
      ...get(into), ...get(read), ...half, ...quarter, ...asFloat, ...get(scale), ...times, ...store(32 * h + 16 * q),
    ])),
    ...get(into), ...constant(32), plus, ...constant(32), plus, ...set(into), // a constant of one byte is below 64
  ];
  const unpackRow = [
    ...get(scales), ...simd(9, 2, 0), ...set(scale), ...sumOf(from, rowBytes), ...set(stop),
    ...repeat(unpackSixteen, [...get(from), ...constant(16), plus, ...tee(from), ...get(stop), lessThan]),
    ...get(scales), ...constant(4), plus, ...set(scales),
  ];
  const unpackBody = [2, 1, 0x7f, 2, 0x7b, ...repeat(unpackRow, [...get(from), ...get(stopAll), lessThan]), end];
  return new Uint8Array([
    0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0, // "\0asm", version 1
    ...section(1, 1, 0x60, 11, ...Array(11).fill(0x7f), 0), // one type: eleven i32 to nothing
    ...section(2, 1, ...name("on"), ...name("memory"), 2, 0, 1), // import a memory of at least one page
    ...section(3, 2, 0, 0), // two functions of type 0
    ...section(7, 2, ...name("product"), 0, 0, ...name("unpack"), 0, 1), // export them
    ...section(10, 2, ...length(body.length), ...body, ...length(unpackBody.length), ...unpackBody),
  ]);
}
