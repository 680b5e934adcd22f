// Takes a network's weights out of the page, where a script element holds them as text: deflated, and five letters for four bytes.

const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;,=>?@^_:{|}~"; // of base 85, as in export/weights.py

/** @param {string} text  blocks of five digits, the highest first, after the number of bytes left out at the end @returns {Uint8Array<ArrayBuffer>} */
function decode85(text) {
  const letters = new TextEncoder().encode(text), valueOf = new Uint8Array(256).fill(255);
  for (let digit = 0; digit < DIGITS.length; digit++) valueOf[DIGITS.charCodeAt(digit)] = digit;
  const blocks = (letters.length - 1) / 5, words = new DataView(new ArrayBuffer(4 * Math.ceil(blocks)));
  let worst = 0;
  for (let block = 0, at = 1; block < blocks; block++) {
    let number = 0;
    for (const end = at + 5; at < end; at++) {
      const digit = valueOf[letters[at]];
      worst = Math.max(worst, digit);
      number = number * 85 + digit;
    }
    words.setUint32(4 * block, number);
  }
  if (worst >= DIGITS.length || !Number.isInteger(blocks)) throw new RangeError("not digits of base 85");
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
