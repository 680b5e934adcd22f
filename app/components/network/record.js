// The record of one sentence, as core/translator.py and core/record: search, then one teacher-forced pass, and its checks.

import { NO_EDITS, checkEdits, editsText } from "./edits.js";
import { logProbability, logTotal, search, topLogProbs } from "./search.js";
import { BOS, EOS, UNK, normalise } from "./subwords.js";

const MAX_CHARACTERS = 500; // of an inspected text
const MAX_TOKENS = 100;
const ALTERNATIVES = 5;
/* Rounding to float32 is about 1e-6 at most; real errors are far larger. */
const WEIGHT_LIMIT = 1e-5;
/* A search and a pass sum in another order. */
const LOGIT_LIMIT = 1e-4;
const LANGUAGES = { de: "German", en: "English" };

/** Thrown for invalid input; the message is one line: problem, limit, remedy. */
export class InputError extends Error {}

const counted = (number) => number.toLocaleString("en-US");

const idsOf = (tokens) => tokens.map(({ id }) => id);

/**
 * Translate a text. Throws InputError, as `inspect`.
 * @returns {{source: RecordToken[], hypotheses: import("./search.js").Hypothesis[], text: string}}
 */
export function translate(network, tokenizer, text, { beam = 5, edits = NO_EDITS } = {}) {
  const { source } = taskOf(network, tokenizer, text, null, edits);
  const hypotheses = search(network, idsOf(source), { beam, edits });
  return { source, hypotheses, text: tokenizer.decode(hypotheses[0].ids) };
}

/**
 * Translate a text and record every map; a given `target`, a text or ids with <eos>, replaces the translation.
 *
 * Search and pass run under `edits`. Throws InputError for an empty or over-long text, and for edits that do not apply to
 * the network or the sentence.
 * @returns {PassRecord}
 */
export function inspect(network, tokenizer, text, { beam = 5, edits = NO_EDITS, target = null } = {}) {
  const task = taskOf(network, tokenizer, text, target, edits);
  const source = idsOf(task.source);
  const hypotheses = task.target ? [] : search(network, source, { beam, edits });
  const targetOut = task.target ?? hypotheses[0].ids.map((id) => tokenizer.token(id));
  const { logits, ...pass } = teacherForcedPass(network, source, idsOf(targetOut), edits);
  const decode = task.target ? null : { beam, lengthPenalty: 1 };
  const { about, config } = network;
  const record = {
    id: "", // a hash of the rest, which is asynchronous: see identityOf in offline/npz.js
    model: about.name,
    weightsSha256: about.weights_sha256,
    sourceLanguage: LANGUAGES[about.source_language],
    targetLanguage: LANGUAGES[about.target_language],
    decode,
    search: searchLabel(decode, edits),
    sourceText: normalise(text),
    translation: tokenizer.decode(idsOf(targetOut)),
    source: task.source,
    targetIn: [tokenizer.token(BOS), ...targetOut.slice(0, -1)],
    targetOut,
    heads: config.num_heads,
    layers: { encoder: config.num_encoder_layers, decoder: config.num_decoder_layers, cross: config.num_decoder_layers },
    ...pass,
    alternatives: pass.alternatives.map((row) => row.map(({ id }) => tokenizer.token(id))),
    hypotheses: hypotheses.map((one) => ({ text: tokenizer.decode(one.ids), ...one })),
    edits,
    editsText: editsText(edits),
  };
  return { ...record, checks: checksOf(network, record, logits) };
}

/* Validate and tokenise the arguments; `target` is null unless one is given. */
function taskOf({ config }, tokenizer, text, target, edits) {
  const source = tokensWithin(config, tokenizer, text);
  if (source.length === 1) throw new InputError("nothing to translate: type a sentence");
  if (target === null && !edits.causalMask) throw new InputError("decoding requires the causal mask: give a target");
  if (source.every((_, position) => edits.hiddenSource.includes(position)))
    throw new InputError("all source tokens are hidden: leave at least one visible");
  const [problem] = checkEdits(edits, config, source.length);
  if (problem) throw new InputError(problem);
  if (Array.isArray(target)) return { source, target: target.map((id) => tokenizer.token(id)) };
  return { source, target: target === null ? null : tokensWithin(config, tokenizer, target) };
}

/* Tokenise one side's text, with <eos>, within the limits of the network and of drawing. */
function tokensWithin(config, tokenizer, text) {
  const characters = [...text];
  if (characters.length > MAX_CHARACTERS)
    throw new InputError(
      `${counted(characters.length)} characters are too many: the limit is ${MAX_CHARACTERS}, try one sentence at a time`,
    );
  const half = characters.findIndex((character) => !character.isWellFormed());
  if (half >= 0) {
    const code = characters[half].charCodeAt(0).toString(16).toUpperCase();
    throw new InputError(`character ${half + 1} is half a surrogate pair (U+${code}), which is not valid text: delete it`);
  }
  const tokens = tokenizer.encode(text);
  const limit = Math.min(MAX_TOKENS, config.max_length - 1);
  if (tokens.length > limit)
    throw new InputError(`${tokens.length} tokens are too many: the limit is ${limit}, try one sentence at a time`);
  return [...tokens, tokenizer.token(EOS)];
}

/* Such as "greedy", "beam 5, edited" or "given target". */
function searchLabel(decode, edits) {
  const label = decode === null ? "given target" : decode.beam === 1 ? "greedy" : `beam ${decode.beam}`;
  return label + (editsText(edits) ? ", edited" : "");
}

/*
 * Feed source and target once and keep everything. It is exact because of causality: row t of a full pass sees the same
 * tokens as step t of decoding.
 */
function teacherForcedPass(network, source, target, edits) {
  network.free();
  const targetIn = [BOS, ...target.slice(0, -1)];
  const capture = /** @type {any} */ ({ weights: true });
  const logits = network.decode(targetIn, network.encode(source, edits, capture), edits, capture);
  const rows = rowsOf(logits, target.length);
  const totals = rows.map(logTotal);
  const alternatives = rows.map((row, t) => topLogProbs(row, ALTERNATIVES, 0, totals[t]));
  return {
    encoder: capture.encoder.weights,
    decoder: capture.decoder.weights,
    cross: capture.cross.weights,
    masks: masksOf(source.length, target.length, edits),
    sourcePositions: network.embeddings.positions("source", 0, source.length, edits),
    targetPositions: network.embeddings.positions("target", 0, target.length, edits),
    logProbs: Float32Array.from(target, (id, t) => logProbability(rows[t][id], totals[t])),
    alternatives,
    alternativeLogProbs: Float32Array.from(alternatives.flat(), ({ logProb }) => logProb),
    logits: logits.slice(),
  };
}

const rowsOf = (logits, count) => {
  const V = logits.length / count;
  return Array.from({ length: count }, (_, t) => logits.subarray(t * V, (t + 1) * V));
};

/** The masks [query, key] by kind, 1 = may attend, from the lengths: no future in the decoder, no hidden source. */
function masksOf(S, T, { causalMask, hiddenSource }) {
  const filled = (queries, keys, attends) => Uint8Array.from({ length: queries * keys }, (_, cell) => attends(Math.floor(cell / keys), cell % keys));
  const visible = (_, key) => Number(!hiddenSource.includes(key));
  return {
    encoder: filled(S, S, visible),
    decoder: filled(T, T, (query, key) => Number(!causalMask || key <= query)),
    cross: filled(T, S, visible),
  };
}

/* The shape [layer, head, query, key] of a kind's maps. */
function shapeOf({ layers, heads, source, targetOut }, kind) {
  const queries = kind === "encoder" ? source.length : targetOut.length;
  const keys = kind === "decoder" ? targetOut.length : source.length;
  return [layers[kind], heads, queries, keys];
}

/*
 * The cells that may hold weight, [layer, head, query, key], as core/record/softmax.py: neither masked nor cut. In a row
 * set by hand these are its nonzero weights.
 */
function unmaskedCells(record, kind) {
  const [layers, heads, queries, keys] = shapeOf(record, kind);
  const mask = record.masks[kind];
  const rowAt = ({ layer, head, query }) => ((layer * heads + head) * queries + query) * keys;
  const cells = new Uint8Array(layers * heads * mask.length);
  for (let map = 0; map < layers * heads; map++) cells.set(mask, map * mask.length);
  const each = (index, count) => (index === null ? Array(count).keys() : index < count ? [index] : []);
  for (const edge of record.edits.edges.filter((one) => one.kind === kind && one.factor === 0))
    for (const layer of each(edge.layer, layers))
      for (const head of each(edge.head, heads))
        for (const query of each(edge.query, queries))
          for (const key of each(edge.key, keys)) cells[rowAt({ layer, head, query }) + key] = 0;
  for (const row of record.edits.rows.filter((one) => one.kind === kind && one.query < queries))
    for (let key = 0; key < keys; key++)
      cells[rowAt(row) + key] = Number(row.weights[key] > 0 && mask[row.query * keys + key] === 1);
  return cells;
}

/*
 * The checks that need no Python, with the fields of RecordCheck. `logits` are those of the recorded pass, [T, V].
 */
function checksOf(network, record, logits) {
  const { edits, layers } = record;
  const edited = record.editsText ? ", as changed by the edits" : "";
  let [rows, deviation, masked, violations] = [0, 0, 0, 0];
  for (const kind of Object.keys(layers)) {
    const keys = shapeOf(record, kind)[3];
    const cells = unmaskedCells(record, kind);
    for (let at = 0; at < cells.length; at += keys) {
      let [sum, open] = [0, 0];
      for (let cell = at; cell < at + keys; cell++) {
        sum += record[kind][cell];
        open += cells[cell];
        if (!cells[cell] && record[kind][cell] !== 0) violations++;
      }
      masked += keys - open;
      if (open) [rows, deviation] = [rows + 1, Math.max(deviation, Math.abs(sum - 1))];
    }
  }
  const checks = [
    check("Every row sums to 1", deviation, WEIGHT_LIMIT, `The sum of each of ${counted(rows)} rows with an unmasked cell. Shown: the largest deviation from 1.`),
    check(
      "A masked cell is exactly 0",
      violations,
      0,
      `${counted(masked)} cells are masked: padding and later target tokens${edited}. Shown: the number of violations.`,
    ),
  ];
  const targetIn = idsOf(record.targetIn);
  network.free();
  const memory = network.encode(idsOf(record.source), edits);
  checks.push(
    check(
      "Recording leaves the output unchanged",
      largestDifference(network.decode(targetIn, memory, edits), logits, logits.length),
      0,
      "The same pass without recording gives the same logits to the last bit. Shown: the largest difference.",
    ),
  );
  if (edits.causalMask) checks.push(causalCheck(network, record, memory, logits));
  if (record.hypotheses.length) checks.push(searchCheck(record));
  return checks;
}

const check = (name, figure, limit, words) => ({ name, passed: figure <= limit, figure, limit, words });

/* Replace the last token that is fed: no earlier row may notice. */
function causalCheck(network, { targetIn, edits }, memory, logits) {
  const ids = idsOf(targetIn);
  const earlier = ids.length - 1;
  const changed = network.decode([...ids.slice(0, -1), ids.at(-1) === UNK ? EOS : UNK], memory, edits);
  const figure = largestDifference(changed, logits, (earlier * logits.length) / ids.length);
  const words = `The last token that the decoder is fed was replaced. Shown: the largest change of a logit in the ${counted(earlier)} rows before it.`;
  return check("A later token changes no earlier row", figure, 0, words);
}

/* The search saw one token after the other and kept keys and values; the pass saw all tokens at once. */
function searchCheck({ hypotheses: [{ ids, logProb }], logProbs }) {
  const figure = Math.abs(logProb - logProbs.reduce((sum, one) => sum + one, 0)) / ids.length;
  const words = `The log-probability of the translation by the search, token by token, and by this pass over all ${counted(ids.length)} tokens. Shown: the difference per token, in nats.`;
  return check("Search and pass agree", figure, LOGIT_LIMIT, words);
}

/* The largest difference of the first `count` numbers; NaN stays NaN, which fails any limit. */
function largestDifference(some, others, count) {
  let largest = 0;
  for (let i = 0; i < count; i++) largest = Math.max(largest, Math.abs(some[i] - others[i]));
  return largest;
}

/**
 * Ablate every head by itself, as by `headsOff`: the change in each target token's log-probability, in nats.
 * @param {PassRecord} record
 * @param {() => Promise<void>} pause called after each head; nothing else may run the network meanwhile
 * @returns {Promise<Record<Kind, Float32Array>>} [layer, head, target token]; negative where the head helped
 */
export async function headEffects(network, record, pause = async () => {}) {
  const { layers, heads, edits } = record;
  const [source, targetIn, written] = [record.source, record.targetIn, record.targetOut].map(idsOf);
  network.free();
  const memory = network.encode(source, edits); // shared by all heads of the decoder
  const unedited = targetLogProbs(network.decode(targetIn, memory, edits), written);
  const effects = /** @type {Record<Kind, Float32Array>} */ ({});
  for (const [kind, count] of Object.entries(layers)) {
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

/* Log-probabilities in float64, because float32 would round −10 to about 1e-6. */
function targetLogProbs(logits, target) {
  return rowsOf(logits, target.length).map((row, t) => {
    const { top, sum } = logTotal(row);
    return row[target[t]] - top - Math.log(sum);
  });
}
