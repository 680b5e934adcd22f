// Greedy and beam search with length penalty, as in core/search/beam.py, for one sentence.

import { BOS, EOS } from "./subwords.js";

const NEVER_WRITTEN = 2; // the number of ids that no search writes: <pad> 0 and <bos> 1

/** The maximum output length: the source length + 50 (Vaswani et al. 2017, §6.1), less for short sources. */
const lengthLimit = (sourceLength, maxLength) => Math.min(sourceLength + 50, 2 * sourceLength + 20, maxLength);

/** Return log P / ((5 + length) / 6)^alpha (Wu et al. 2016, eq. 14). */
const penalised = (logProb, length, alpha) => logProb / ((5 + length) / 6) ** alpha;

/** The parts of log Σ exp(x) of a row of logits: the largest, and the sum of exp(x − largest). @param {Float32Array} logits */
export function logTotal(logits) {
  let top = -Infinity;
  for (let id = 0; id < logits.length; id++) if (logits[id] > top) top = logits[id];
  let sum = 0;
  for (let id = 0; id < logits.length; id++) sum += Math.exp(logits[id] - top);
  return { top, sum };
}

/** The log-probability of a logit, in nats, rounded to float32 as in Python. */
export const logProbability = (logit, { top, sum }) => Math.fround(Math.fround(logit - top) - Math.fround(Math.log(sum)));

/**
 * The `count` largest log-probabilities of a row of logits from id `first` on, best first. Of equal ones, the lower id
 * is first.
 * @param {Float32Array} logits @returns {{id: number, logProb: number}[]}
 */
export function topLogProbs(logits, count, first = 0, total = logTotal(logits)) {
  const best = [];
  for (let id = first; id < logits.length; id++) {
    if (best.length === count && logits[id] <= logits[best[count - 1]]) continue;
    let place = best.length < count ? best.length : count - 1;
    for (; place > 0 && logits[best[place - 1]] < logits[id]; place--) best[place] = best[place - 1];
    best[place] = id;
  }
  return best.map((id) => ({ id, logProb: logProbability(logits[id], total) }));
}

/**
 * One finished translation: ids without <bos>, with <eos> unless it hit the length limit. `logProb` is the sum of its
 * tokens' log-probabilities in nats; `score`, which the beam compares, is that sum after the length penalty.
 * @typedef {{ids: number[], logProbs: number[], logProb: number, score: number}} Hypothesis
 */

/**
 * Return the finished hypotheses, best first: one if greedy, else up to `beam`; `alpha` is the length penalty. Each begins with
 * the `forced` ids, whatever their probability.
 * @param {number[]} source ids with <eos> @param {any} [memory] the encoded source, if there is one @returns {Hypothesis[]}
 */
export function search(network, source, { beam, alpha = 1, edits, forced = [] }, memory = undefined) {
  const limit = lengthLimit(source.length, network.config.max_length);
  network.free(memory);
  const cache = network.start(memory ?? network.encode(source, edits), beam, limit);
  return beam === 1 ? [greedy(network, cache, limit, { edits, forced })] : beamSearch(network, cache, limit, { beam, alpha, edits, forced });
}

const START = { ids: [], logProbs: [], logProb: 0 };

const extended = ({ ids, logProbs, logProb }, id, own) =>
  ({ ids: [...ids, id], logProbs: [...logProbs, own], logProb: logProb + own });

/* A forced id as the only continuation: it counts as certain. */
const only = (id) => [{ id, logProb: 0 }];

/* Take the most likely token at each step, after the forced ones, until <eos> or the length limit. */
function greedy(network, cache, limit, { edits, forced }) {
  let written = START;
  for (let token = BOS; token !== EOS && written.ids.length < limit; token = written.ids.at(-1)) {
    const logits = network.step([token], [0], cache, edits), step = written.ids.length;
    const [{ id, logProb }] = step < forced.length ? only(forced[step]) : topLogProbs(logits, 1, NEVER_WRITTEN);
    written = extended(written, id, logProb);
  }
  return { ...written, score: written.logProb };
}

/*
 * Beam search (Sutskever et al. 2014, §3.2). `open` holds the unfinished hypotheses, best first,
 * each with the row of the previous step that it extends.
 */
function beamSearch(network, cache, limit, { beam, alpha, edits, forced }) {
  let open = [{ ...START, row: 0 }], finished = [];
  for (let step = 1; open.length; step++) {
    const tokens = open.map(({ ids }) => ids.at(-1) ?? BOS);
    const logits = network.step(tokens, open.map(({ row }) => row), cache, edits);
    const survivors = [];
    for (const [rank, { row, id, own, total }] of bestCandidates(open, logits, beam, forced[step - 1]).entries()) {
      if (id === EOS || step === limit) { // only the K best may finish: a worse one would displace better open prefixes
        if (rank < beam) finished.push({ ...extended(open[row], id, own), score: penalised(total, step, alpha) });
      } else if (survivors.length < beam) survivors.push({ ...extended(open[row], id, own), row });
    }
    finished = finished.toSorted((a, b) => b.score - a.score).slice(0, beam);
    if (survivors.length && settled(finished, survivors[0].logProb, limit, { beam, alpha })) break;
    open = survivors;
  }
  return finished;
}

/*
 * The best continuations, 2K for a beam of K and at least 5: at most K of them end with <eos>, so
 * at least K can continue. Ties keep their order.
 */
function bestCandidates(open, logits, beam, forced = null) {
  const V = logits.length / open.length, count = Math.max(2 * beam, 5);
  const candidates = open.flatMap(({ logProb }, row) => {
    const own_V = logits.subarray(row * V, (row + 1) * V);
    const best = forced === null ? topLogProbs(own_V, count, NEVER_WRITTEN) : only(forced);
    return best.map(({ id, logProb: own }) => ({ row, id, own, total: logProb + own }));
  });
  return candidates.toSorted((a, b) => b.total - a.total).slice(0, count);
}

/*
 * Whether there are K finished hypotheses and no unfinished one can still beat the best of them:
 * totals only fall, and the length is limited.
 */
const settled = (finished, bestOpen, limit, { beam, alpha }) =>
  finished.length === beam && finished[0].score >= penalised(bestOpen, limit, alpha);
