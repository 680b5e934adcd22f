// Decodes packed payloads: named byte strings behind a JSON header, and bit masks.

/* Inverse of `pack` in explorer/payload.py: header length, JSON header, byte strings. */
export function unpack(bytes) {
  const start = 4 + new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  const raw = JSON.parse(new TextDecoder().decode(bytes.subarray(4, start)));
  for (const [name, value] of Object.entries(raw)) {
    if (typeof value?.at !== "number") continue;
    raw[name] = bytes.subarray(start + value.at, start + value.at + value.length);
  }
  return raw;
}

/* Streamlit passes a new byte array on every render, even when only the theme changed. */
export function sameBytes(a, b) {
  if (!a || a.length !== b.length) return false;
  for (let index = 0; index < a.length; index++) if (a[index] !== b[index]) return false;
  return true;
}

export function asFloats(bytes) {
  // A Float32Array needs 4-byte alignment; copy when the message is unaligned.
  const aligned = bytes.byteOffset % 4 === 0 ? bytes : bytes.slice();
  return new Float32Array(aligned.buffer, aligned.byteOffset, aligned.byteLength / 4);
}

/* Expand one bit per cell to one byte per cell (1: unmasked). */
export function unpackBits(bytes, count) {
  return Uint8Array.from({ length: count }, (_, cell) => (bytes[cell >> 3] >> (7 - (cell & 7))) & 1);
}
