// The checksum of zip files, and of the texts that a page holds.

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let rest = byte;
  for (let bit = 0; bit < 8; bit++) rest = rest & 1 ? 0xedb88320 ^ (rest >>> 1) : rest >>> 1;
  return rest;
});

/** Return the checksum of a file in a zip (CRC-32 of ISO 3309). @param {Uint8Array} bytes */
export function crc32(bytes) {
  let rest = 0xffffffff;
  for (const byte of bytes) rest = CRC_TABLE[(rest ^ byte) & 255] ^ (rest >>> 8);
  return (rest ^ 0xffffffff) >>> 0;
}

/** The names of the texts that differ from their checksum. @param {{name: string, text: string, checksum: number}[]} texts */
export const damagedTexts = (texts) =>
  texts.filter(({ text, checksum }) => crc32(new TextEncoder().encode(text)) !== checksum).map(({ name }) => name);

/**
 * Remove a page's line about an incomplete file, or say what is damaged. Call it last: a script that is cut off never does.
 * @param {string[]} damaged names of damaged parts
 */
export function confirmComplete(damaged) {
  const line = document.getElementById("incomplete");
  if (damaged.length) line.textContent = `This file is damaged (${damaged.join(", ")}): copy or download it again.`;
  else line.remove();
}
