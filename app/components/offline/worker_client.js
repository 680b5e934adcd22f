// Talks to the worker that runs the networks: each question is one message, its answer settles one promise.

/**
 * Start the worker from its script: a classic worker from a Blob, which also works in a page opened from a disk.
 * @param {string} script
 * @returns {{ask: (what: string, fields?: object, moved?: Transferable[]) => Promise<any>}}
 */
export function startWorker(script) {
  const worker = new Worker(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
  const waiting = new Map();
  let asked = 0;
  worker.addEventListener("message", ({ data: { id, failed, ...answer } }) => {
    const { resolve, reject } = waiting.get(id);
    waiting.delete(id);
    if (failed === undefined) resolve(answer);
    else reject(new Error(failed));
  });
  worker.addEventListener("error", ({ message }) => {
    for (const { reject } of waiting.values()) reject(new Error(`The network stopped (${message}): reload the page.`));
    waiting.clear();
  });
  const ask = (what, fields = {}, moved = []) =>
    new Promise((resolve, reject) => {
      waiting.set(++asked, { resolve, reject });
      worker.postMessage({ ...fields, id: asked, ask: what }, moved);
    });
  return { ask };
}
