// Packs numbers, bit masks and payloads into bytes; the inverse of shared/bytes.js.

/** Numbers as little-endian bytes, without a copy. @param {Float32Array | Uint8Array | Uint16Array | Uint32Array | Float64Array} numbers */
export const bytesOf = (numbers) => new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength);

const single = new Float32Array(1), bitsOfSingle = new Uint32Array(single.buffer);

/** The bits of the nearest 16-bit float to a number; those of the largest one for a larger number. @param {number} number */
export function halfOf(number) {
  single[0] = Math.min(Math.abs(number), 65_504);
  const sign = number < 0 ? 0x8000 : 0;
  if (single[0] < 2 ** -14) return sign + Math.round(single[0] * 2 ** 24);
  return sign + ((bitsOfSingle[0] - 0x38000000 + 0xfff + ((bitsOfSingle[0] >> 13) & 1)) >> 13);
}

/* One bit per cell, the first in the highest bit. */
export function packBits(mask) {
  const bits = new Uint8Array((mask.length + 7) >> 3);
  mask.forEach((unmasked, cell) => (bits[cell >> 3] |= unmasked << (7 - (cell & 7))));
  return bits;
}

/**
 * Serialise a payload: header length, JSON header, byte strings; header and byte strings are padded to multiples of 4.
 * The inverse of `unpack` in shared/bytes.js.
 * @returns {Uint8Array<ArrayBuffer>}
 */
export function packPayload(data) {
  const header = {};
  const blobs = [];
  let at = 0;
  for (const [name, value] of Object.entries(data)) {
    if (!(value instanceof Uint8Array)) {
      header[name] = value;
      continue;
    }
    header[name] = { at, length: value.length };
    blobs.push([at, value]);
    at += Math.ceil(value.length / 4) * 4;
  }
  const text = new TextEncoder().encode(JSON.stringify(header));
  const start = 4 + Math.ceil(text.length / 4) * 4;
  const packed = new Uint8Array(start + at);
  new DataView(packed.buffer).setUint32(0, start - 4, true);
  packed.fill(0x20, 4, start).set(text, 4);
  for (const [offset, blob] of blobs) packed.set(blob, start + offset);
  return packed;
}
