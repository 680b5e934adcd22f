// Talks to the worker that runs the networks: each question is one message, its answer settles one promise.
//
// Questions {id, ask, …} and answers {id, …}, or {id, failed: one line}; `direction` is that of an opened network:
//   open {direction, weights: ArrayBuffer, sha256} → {}; refuses weights with another hash
//   translate {direction, text, target: string | null, beam, edits, view: Link | null, request: number | null}
//     → {payload: packed Payload of the edited pass, translation: of the pass without edits}; without a view, the payload
//     suggests one; `request` becomes `what_if.request`. Questions after this one are about this sentence.
//   again {} → {translation: the network's own under the edits}; asked once the edited pass is painted
//   answer {name, value} → {answer: packed Answer}, which also says why a request failed
//   npz {} → {npz: Uint8Array, name: of the file}
//   inspect {direction, text, beam, edits} → {record: {source, target, ids, logProbs, maps}}; changes nothing above

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
