// Takes a network's weights out of the page, where a script element holds them as text: deflated and in base64.

/** @param {string} text base64 @returns {Uint8Array<ArrayBuffer>} @throws for text that is not base64 */
function decode64(text) {
  const array = /** @type {any} */ (Uint8Array); // TypeScript's types lack the newer fromBase64
  if (array.fromBase64) return array.fromBase64(text);
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let at = 0; at < bytes.length; at++) bytes[at] = characters.charCodeAt(at);
  return bytes;
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
    return new Blob([decode64(text)]);
  } catch {
    return damaged();
  }
}

/** @returns {never} */
function damaged() {
  throw new Error("The weights in this file are damaged: copy or download the file again.");
}
