// Two words' probabilities as one state is pushed further and further, beside random directions, as core/experiments/push_curve.py.

import { NO_EDITS } from "./edits.js";
import { BOS, idsOf } from "./subwords.js";

const STEPS = 16;
const LONGEST = 1.5; // the largest strength, in lengths of the state
const SEEDS = 20;
const LIKELY = 200; // words that may replace another
const SIMILAR = 40; // of them

/**
 * Strengths rise from 0 by a round number to about `LONGEST` times the state's length.
 * @param {import("./transformer.js").Transformer} network @param {PassRecord} record
 * @param {import("./edits.js").Push} push its strength is ignored @param {number} step of the target token
 * @param {() => Promise<void>} pause called between directions; nothing else may run the network meanwhile
 */
export async function pushCurve(network, { source, targetOut }, push, step, pause = async () => {}) {
  const { side, layer, position } = push, D = network.config.d_model;
  const fed = [BOS, ...idsOf(targetOut).slice(0, step)], states = { encoder: [], decoder: [] };
  const chances = (edits, capture = undefined) => {
    network.free();
    const logits_TV = network.decode(fed, network.encode(idsOf(source), edits, capture), edits, capture);
    const logits_V = logits_TV.subarray(logits_TV.length - network.config.target_vocab_size);
    const peak = logits_V.reduce((most, logit) => Math.max(most, logit), -Infinity);
    const total = logits_V.reduce((sum, logit) => sum + Math.exp(logit - peak), 0);
    return [push.old ?? push.new, push.new].map((id) => Math.exp(logits_V[id] - peak) / total);
  };
  const before = chances(NO_EDITS, { states });
  const length = Math.hypot(...states[side][layer].subarray(position * D, (position + 1) * D));
  const unit = Number(((LONGEST * length) / STEPS).toPrecision(1));
  const strengths = Array.from({ length: STEPS + 1 }, (_, k) => k * unit);
  const places = { side, layer, position }, curves = [];
  for (const one of [{ ...places, old: push.old, new: push.new }, ...Array.from({ length: SEEDS }, (_, seed) => ({ ...places, seed }))]) {
    curves.push(strengths.map((strength) => (strength ? chances({ ...NO_EDITS, pushes: [{ ...one, strength }] }) : before)));
    await pause();
  }
  const [[old, to], ...random] = curves.map((curve) => [0, 1].map((word) => curve.map((both) => both[word])));
  return { strengths, length, old, new: to, random_old: random.map(([one]) => one), random_new: random.map(([, one]) => one) };
}

/**
 * Target ids that may replace the one at `step`, most similar first, each with a function that
 * runs the network once more, for the most probable id after it: of the `LIKELY` most probable ids after the same prefix, by the
 * cosine of centred output vectors.
 * @param {import("./transformer.js").Transformer} network @param {PassRecord} record @param {number} step
 * @returns {[number, () => number][]}
 */
export function replacements(network, { source, targetOut }, step) {
  const { d_model: D, target_vocab_size: V } = network.config, prefix = [BOS, ...idsOf(targetOut).slice(0, step)];
  network.free();
  const memory = network.encode(idsOf(source));
  const following = (fed) => network.decode(fed, memory).slice((fed.length - 1) * V);
  const logits_V = following(prefix), { weight } = network.embeddings.classifier, mean = new Float64Array(D), { id } = targetOut[step];
  const likely = [...logits_V.keys()].toSorted((a, b) => logits_V[b] - logits_V[a]).slice(0, LIKELY);
  for (let at = 0; at < V * D; at++) mean[at % D] += weight[at] / V;
  const cosine = (v) => {
    let [product, square] = [0, 0];
    for (let i = 0; i < D; i++) {
      const one = weight[v * D + i] - mean[i];
      product += one * (weight[id * D + i] - mean[i]);
      square += one * one;
    }
    return product / Math.sqrt(square || 1);
  };
  const similar = likely.filter((v) => v !== id).map((v) => ({ v, cosine: cosine(v) })).toSorted((a, b) => b.cosine - a.cosine);
  const bestAfter = (v) => {
    const after = following([...prefix, v]);
    return after.indexOf(Math.max(...after));
  };
  return similar.slice(0, SIMILAR).map(({ v }) => [v, () => bestAfter(v)]);
}
