// Inspects one sentence, as core/translator.py does: a search, then a recorded teacher-forced pass.

import { checksOf } from "./checks.js";
import { NO_EDITS, editsText, headsOf } from "./edits.js";
import { taskOf } from "./input.js";
import { logProbability, logTotal, search, topLogProbs } from "./search.js";
import { BOS, idsOf } from "./subwords.js";

const ALTERNATIVES = 5; // most probable tokens recorded per step

/**
 * Translate a text. Throws InputError like `taskOf`, and RangeError like `network.encode`.
 * @returns {{source: RecordToken[], hypotheses: import("./search.js").Hypothesis[], text: string}}
 */
export function translate(network, tokenizers, text, { beam = 5, edits = NO_EDITS } = {}) {
  const { source } = taskOf(network, tokenizers, text, null, edits);
  const hypotheses = search(network, idsOf(source), { beam, edits, forced: tokenizers.target.forced });
  return { source, hypotheses, text: tokenizers.target.decode(hypotheses[0].ids) };
}

/**
 * Translate a text and record every map, under `edits`. A given `target` (a text, or ids with
 * <eos>) replaces the search. `makeChecks` can run after the record is shown: it encodes again and
 * decodes twice.
 *
 * Throws InputError like `taskOf`, and RangeError like `network.encode`.
 * @returns {{record: PassRecord, makeChecks: () => Check[]}}
 */
export function inspectUnchecked(network, tokenizers, text, { beam = 5, edits = NO_EDITS, target = null } = {}) {
  const task = taskOf(network, tokenizers, text, target, edits), { target: tokenizer } = tokenizers, source = idsOf(task.source), capture = { weights: true };
  network.free();
  const memory = network.encode(source, edits, capture); // for the search and the pass
  const hypotheses = task.target ? [] : search(network, source, { beam, edits, forced: tokenizer.forced }, memory);
  const targetOut = task.target ?? hypotheses[0].ids.map((id) => tokenizer.token(id));
  const { logits, ...pass } = teacherForcedPass(network, memory, idsOf(targetOut), edits, capture);
  const decode = task.target ? null : { beam, lengthPenalty: 1 }, { about, config } = network;
  const record = {
    id: "", // the caller sets it with the asynchronous identityOf in npz.js
    model: about.name,
    weightsSha256: about.weights_sha256,
    sourceLanguage: about.source_language, targetLanguage: about.target_language,
    decode,
    search: searchLabel(decode, edits),
    sourceText: text,
    translation: tokenizer.decode(idsOf(targetOut)),
    source: task.source,
    targetIn: [tokenizer.token(BOS), ...targetOut.slice(0, -1)],
    targetOut,
    heads: { encoder: headsOf(config, "encoder"), decoder: headsOf(config, "decoder"), cross: headsOf(config, "cross") },
    layers: { encoder: config.num_encoder_layers, decoder: config.num_decoder_layers, cross: config.num_decoder_layers },
    ...pass,
    alternatives: pass.alternatives.map((row) => row.map(({ id }) => tokenizer.token(id))),
    hypotheses: hypotheses.map((one) => ({ text: tokenizer.decode(one.ids), ...one })),
    edits, editsText: editsText(edits), checks: [],
  };
  return { record, makeChecks: () => checksOf(network, record, logits, tokenizer.forced.length) };
}

/* Such as "greedy", "beam 5, edited" or "given target". */
function searchLabel(decode, edits) {
  const label = decode === null ? "given target" : decode.beam === 1 ? "greedy" : `beam ${decode.beam}`;
  return label + (editsText(edits) ? ", edited" : "");
}

/* Feed the target once and keep everything. Because of causality, row t sees the same tokens as step t of decoding. */
function teacherForcedPass(network, memory, target, edits, capture) {
  network.free(memory);
  const logits = network.decode([BOS, ...target.slice(0, -1)], memory, edits, capture);
  const rows = rowsOf(logits, target.length), totals = rows.map(logTotal);
  const alternatives = rows.map((row, t) => topLogProbs(row, ALTERNATIVES, 0, totals[t]));
  return {
    encoder: capture.encoder.weights, decoder: capture.decoder.weights, cross: capture.cross.weights,
    masks: masksOf(memory.S, target.length, edits),
    sourcePositions: network.embeddings.positions("source", 0, memory.S, edits),
    targetPositions: network.embeddings.positions("target", 0, target.length, edits),
    logProbs: Float32Array.from(target, (id, t) => logProbability(rows[t][id], totals[t])),
    alternatives,
    alternativeLogProbs: Float32Array.from(alternatives.flat(), ({ logProb }) => logProb),
    logits: logits.slice(),
  };
}

/* The logits [T, V] as rows. */
const rowsOf = (logits, T) => Array.from({ length: T }, (_, t) => logits.subarray((t * logits.length) / T, ((t + 1) * logits.length) / T));

/*
 * Return the masks [query, key] by kind, 1 = may attend: later tokens are masked in the decoder,
 * hidden source tokens in the other kinds.
 */
function masksOf(S, T, { causalMask, hiddenSource }) {
  const mask = (queries, keys, attends) =>
    Uint8Array.from({ length: queries * keys }, (_, cell) => Number(attends(Math.floor(cell / keys), cell % keys)));
  const isVisible = (_, key) => !hiddenSource.includes(key);
  const isPast = (query, key) => !causalMask || key <= query;
  return { encoder: mask(S, S, isVisible), decoder: mask(T, T, isPast), cross: mask(T, S, isVisible) };
}

/**
 * Ablate one head at a time, as `headsOff` does. Return how much that changes each target token's
 * log-probability, in nats.
 * @param {PassRecord} record
 * @param {() => Promise<void>} pause called after each head; nothing else may run the network meanwhile
 * @returns {Promise<Record<Kind, Float32Array>>} [layer, head, target token]; negative where the head helped
 */
export async function headEffects(network, record, pause = async () => {}) {
  const { layers, edits } = record;
  const [source, targetIn, written] = [record.source, record.targetIn, record.targetOut].map(idsOf);
  network.free();
  const memory = network.encode(source, edits); // shared by all heads of the decoder
  const unedited = targetLogProbs(network.decode(targetIn, memory, edits), written);
  const effects = /** @type {Record<Kind, Float32Array>} */ ({});
  for (const [kind, count] of Object.entries(layers)) {
    const heads = record.heads[kind];
    effects[kind] = new Float32Array(count * heads * written.length);
    for (let map = 0; map < count * heads; map++) {
      const off = { kind, layer: Math.floor(map / heads), head: map % heads };
      const own = Object.freeze({ ...edits, headsOff: [...edits.headsOff, off] });
      const logits = network.decode(targetIn, kind === "encoder" ? network.encode(source, own) : memory, own);
      network.free(memory);
      const changes = targetLogProbs(logits, written).map((logProb, t) => logProb - unedited[t]);
      effects[kind].set(changes, map * written.length);
      await pause();
    }
  }
  return effects;
}

/* Log-probabilities in float64, because float32 holds a number near −10 only to about 1e-6. */
const targetLogProbs = (logits, target) =>
  rowsOf(logits, target.length).map((row, t) => {
    const { top, sum } = logTotal(row);
    return row[target[t]] - top - Math.log(sum);
  });
