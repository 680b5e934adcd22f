// Undoes what Python packed: a header with named byte strings, and masks of one bit a cell.

/* Undoes payload.py's pack(): header length, JSON header, byte strings. */
export function unpack(bytes) {
  const start = 4 + new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  const raw = JSON.parse(new TextDecoder().decode(bytes.subarray(4, start)));
  for (const [name, value] of Object.entries(raw)) {
    if (typeof value?.at !== "number") continue;
    raw[name] = bytes.subarray(start + value.at, start + value.at + value.length);
  }
  return raw;
}

/* Streamlit hands over new bytes with each call, also when only the theme changed. */
export function sameBytes(a, b) {
  if (!a || a.length !== b.length) return false;
  for (let index = 0; index < a.length; index++) if (a[index] !== b[index]) return false;
  return true;
}

export function asFloats(bytes) {
  // A view of 32-bit numbers must start on a multiple of 4; the bytes arrive wherever the message put them.
  const aligned = bytes.byteOffset % 4 === 0 ? bytes : bytes.slice();
  return new Float32Array(aligned.buffer, aligned.byteOffset, aligned.byteLength / 4);
}

/* One byte a cell, 1 for unmasked, from one bit a cell. */
export function unpackBits(bytes, count) {
  return Uint8Array.from({ length: count }, (_, cell) => (bytes[cell >> 3] >> (7 - (cell & 7))) & 1);
}
