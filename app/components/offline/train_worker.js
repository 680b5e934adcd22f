// The worker that trains: a network, and perhaps a second one without the change beside it. It is told what to do by messages.

import { Tokenizer } from "../network/subwords.js";
import { Examples, FEW } from "../network/training/examples.js";
import { bestHead, History } from "../network/training/history.js";
import { learnedTokenizer, pastedPairs } from "../network/training/pairs.js";
import { makeRun } from "../network/training/run.js";
import { runPayload } from "../network/training/snapshots.js";
import { checkpointOf } from "./checkpoint.js";

const LAST_STEP = 500;
const REPAINT_MS = 650; // between two pictures, of which training has what measuring leaves
const MOST_OFFERED = 20; // examples

const FAST = 4; // times fewer points are measured

/** @type {{turn: number, about: any, sides: string[], names: string[], histories: History[], shown: number, running: boolean, fast: boolean, problem: string}} */
let training = null;

const hasEnded = () => stepNumber() >= LAST_STEP || training.problem !== "";

let timer = 0;
let overhead = 0, stepMs = 0; // what measuring and packing took last, and a step
const workSoon = () => {
  clearTimeout(timer);
  timer = setTimeout(work);
};

const isDue = (step) => step % (training.histories[0].every * (training.fast ? FAST : 1)) === 0;
const stepNumber = () => training.histories[0].run.stepNumber;

/* A diverged network has nothing to measure. */
const measure = () => training.problem || training.histories.forEach((history) => history.add());

/* Take some steps and show them; whatever was asked in the meantime comes before the next ones. */
function work() {
  if (!training.running) return;
  advance(REPAINT_MS - overhead);
  const started = performance.now();
  measure();
  if (hasEnded()) training.running = false;
  tell();
  overhead = performance.now() - started;
  workSoon();
}

/* Take steps for about this long, at least one, and none after one at which a point is due. */
function advance(ms) {
  const end = performance.now() + ms;
  try {
    do {
      const started = performance.now();
      for (const { run } of training.histories) run.step();
      stepMs = performance.now() - started;
    } while (!hasEnded() && !isDue(stepNumber()) && performance.now() + stepMs < end);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    training.problem = error.message;
  }
}

/** Report the state and the pictures; `refused`: why the last command was not carried out. */
function tell(refused = "") {
  const { turn, about, names, histories, shown, running, problem } = training, history = histories[shown];
  const other = histories.length > 1 ? { name: names[1 - shown], past: histories[1 - shown] } : null;
  const { last: { step, exact } } = history, { parts, heldOut, isHeldOut } = history.run.examples;
  const best = parts.map((part, at) => ({ part, ...bestHead(history, at) }));
  const payload = runPayload(history, about, other), measured = histories.map(({ last }) => ({ exact: last.exact, loss: last.loss }));
  const examples = heldOut.slice(0, MOST_OFFERED).map(({ source }) => source);
  const outcome = { running, over: hasEnded(), seconds: history.run.seconds, problem, refused, few: isHeldOut ? 0 : FEW };
  const state = { turn, step, exact, best, measured, ...outcome, examples, ...history.shown(), payload };
  self.postMessage(state, { transfer: [payload.buffer] });
}

const commands = {
  start: async ({ turn, task, tokenizer, pasted, configs, about, sides, names }) => {
    const pairs = tokenizer ? null : pastedPairs(pasted);
    const examples = new Examples(task, tokenizer ? new Tokenizer(tokenizer) : learnedTokenizer(pairs.flat()), pairs);
    const histories = [];
    for (const config of configs) histories.push(new History(await makeRun(examples, config)));
    training = { turn, about, sides, names, histories, shown: 0, running: false, fast: false, problem: "" };
  },
  run: ({ on }) => {
    training.running = on && !hasEnded();
    if (on) workSoon();
    else measure();
  },
  step: () => {
    advance(0);
    measure();
  },
  show: ({ shown }) => (training.shown = shown),
  file: async ({ use }) => {
    const { turn, sides, histories, shown } = training, bytes = await checkpointOf(histories[shown], { sides, steps: LAST_STEP });
    self.postMessage({ turn, use, bytes }, { transfer: [bytes.buffer] });
  },
  fast: ({ on }) => (training.fast = on),
  watch: ({ source }) => training.histories.forEach((history) => history.watch(source)),
};

let latest = Promise.resolve();
self.addEventListener("message", ({ data }) => {
  latest = latest.then(async () => {
    if (!training && data.ask !== "start") return;
    let refused = "";
    try {
      await commands[data.ask](data);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      refused = error.message;
    }
    if (training) tell(refused);
    else self.postMessage({ turn: data.turn, refused }, {});
  });
});
