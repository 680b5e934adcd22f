// Talks to the worker that runs the networks: each question is one message, its answer settles one promise.

const SLOW_MS = 15_000;

/**
 * @typedef {{what: string, fields: object | (() => Promise<object>), moved: string[], deaths: number,
 *   known: string | null, resolve: (answer: any) => void, reject: (error: Error) => void}} Question  known: if a new worker has to
 *   be told the question, the name under which a later one takes its place
 */

/**
 * Start the worker from its script: a classic worker from a Blob, which also works in a page opened from a disk.
 *
 * A worker that has ended is replaced: the new one is told what the old one knew, and is asked the waiting questions again,
 * once. A worker holds a lock while it lives, so that one which only takes long is never replaced.
 * @param {string} script
 * @param {{onRestart?: () => void, onSlow?: () => void}} [listeners]  onSlow: a question has waited for 15 s
 * @returns {{ask: (what: string, fields?: object | (() => Promise<object>), more?: {known?: string, moved?: string[]}) =>
 *   Promise<any>}}  fields: of the question, or a function that makes them each time it is sent; moved: the names of those to
 *   transfer; known: see `Question`
 */
export function startWorker(script, { onRestart = () => {}, onSlow = () => {} } = {}) {
  const address = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  /** @type {Map<number, Question>} */
  const waiting = new Map();
  /** What a new worker has to be told: open networks, and the sentence translated last. @type {Map<string, Question>} */
  const told = new Map();
  let asked = 0;
  let sending = Promise.resolve();
  let worker = begin();

  function begin() {
    const started = new Worker(address, { name: `headlight-${Math.random()}` });
    started.addEventListener("message", ({ data: { lock, ...answer } }) => {
      if (lock) navigator.locks.request(lock, () => ended(started)); // granted once the worker has ended
      else settle(answer);
    });
    started.addEventListener("error", ({ message }) => {
      for (const { reject } of waiting.values()) reject(new Error(`The network stopped (${message}): reload the page.`));
      waiting.clear();
    });
    return started;
  }

  function settle({ id, failed, ...answer }) {
    const question = waiting.get(id);
    if (!question) return; // it was given up
    waiting.delete(id);
    if (failed !== undefined) return void question.reject(new Error(failed));
    if (question.known) {
      told.delete(question.known); // in the order of the latest answers: a network is opened before it translates
      told.set(question.known, question);
    }
    question.resolve(answer);
  }

  function ended(old) {
    if (old !== worker) return;
    worker = null;
    for (const [id, question] of waiting) {
      if (++question.deaths < 2) continue;
      waiting.delete(id);
      if (told.get(question.known) === question) told.delete(question.known);
      question.reject(new Error("The network ended twice while it answered this: shorten the sentence or reload the page."));
    }
    if (waiting.size) restart();
  }

  function restart() {
    worker = begin();
    onRestart();
    const again = [...waiting];
    const isWaiting = new Set(waiting.values());
    for (const question of told.values()) if (!isWaiting.has(question)) send(add(question), question);
    for (const [id, question] of again) send(id, question);
  }

  function add(question) {
    waiting.set(++asked, question);
    return asked;
  }

  /* Questions are sent in order, although the fields of some take time to make. */
  function send(id, question) {
    const to = worker;
    sending = sending.then(async () => {
      try {
        const { fields, moved, what } = question;
        const made = typeof fields === "function" ? await fields() : fields;
        if (to === worker) to.postMessage({ ...made, id, ask: what }, moved.map((name) => made[name]));
      } catch (error) {
        waiting.delete(id);
        question.reject(error);
      }
    });
  }

  const ask = (what, fields = {}, { known = null, moved = [] } = {}) =>
    new Promise((resolve, reject) => {
      if (!worker) restart();
      const question = { what, fields, moved, known, deaths: 0, resolve, reject };
      const id = add(question);
      send(id, question);
      setTimeout(() => waiting.get(id) === question && onSlow(), SLOW_MS);
    });
  return { ask };
}
