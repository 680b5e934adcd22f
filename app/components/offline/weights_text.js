// Takes a network's weights out of the page, where a script element holds them as text: deflated, and five letters for four bytes.

const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;,=>?@^_:{|}~"; // of base 85, as in export/weights.py

/**
 * @param {string} text  after the number of bytes left out at the end: blocks of five digits, the highest first, each a word of four bytes
 * @returns {Uint8Array<ArrayBuffer>}
 */
function decode85(text) {
  const letters = new TextEncoder().encode(text), valueOf = new Uint8Array(256).fill(255), blocks = (letters.length - 1) / 5;
  for (let digit = 0; digit < DIGITS.length; digit++) valueOf[DIGITS.charCodeAt(digit)] = digit;
  const words = new Uint32Array(Math.ceil(blocks));
  let bits = 0; // of all digits: 128 is set if a letter is none
  for (let block = 0, at = 1; block < blocks; block++, at += 5) {
    const a = valueOf[letters[at]], b = valueOf[letters[at + 1]], c = valueOf[letters[at + 2]], d = valueOf[letters[at + 3]], e = valueOf[letters[at + 4]];
    bits |= a | b | c | d | e;
    words[block] = Math.imul(((a * 85 + b) * 85 + c) * 85 + d, 85) + e;
  }
  if (bits & 128 || !Number.isInteger(blocks)) throw new RangeError("not digits of base 85");
  return new Uint8Array(words.buffer, 0, words.byteLength - Number(text[0]));
}

const inflated = (deflated) => new Response(deflated.stream().pipeThrough(new DecompressionStream("deflate"))).arrayBuffer();

/**
 * Wait until the browser has read the whole page: the element may be below the running script.
 * @returns {Promise<void>}
 */
const wholePage = () =>
  new Promise((resolve) => {
    if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", () => resolve(), { once: true });
    else resolve();
  });

/* The deflated weights by direction, for a worker that takes another's place. */
const taken = new Map();

/**
 * Return the bytes of a direction's weights and drop their text, which takes as much memory as the network.
 * @param {string} direction
 * @returns {Promise<ArrayBuffer>}
 * @throws {Error} one line, if the text is damaged
 */
export async function takeWeights(direction) {
  if (!taken.has(direction)) taken.set(direction, await deflatedWeights(direction));
  return inflated(taken.get(direction)).catch(damaged);
}

async function deflatedWeights(direction) {
  const id = `weights-${direction}`;
  if (!document.getElementById(id)?.nextSibling) await wholePage(); // the element is missing or incomplete
  const node = document.getElementById(id);
  const text = node?.textContent.trim() ?? "";
  node?.remove();
  try {
    return new Blob([decode85(text)]);
  } catch {
    return damaged();
  }
}

/** @returns {never} */
function damaged() {
  throw new Error("The weights in this file are damaged: copy or download the file again.");
}
