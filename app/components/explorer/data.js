// Decodes the payload: tokens, masks and, per quantity, the numbers of all unmasked cells.

import { asFloats, unpackBits } from "../shared/bytes.js";
import { groupWords, shortLabel } from "../shared/labels.js";
import { displayTokens, tokenItems, wordItems } from "../shared/tokens.js";

/** @type {Kind[]} */
export const KINDS = ["encoder", "decoder", "cross"];

export const ROW_SIDE = { encoder: "source", decoder: "produced", cross: "produced" };

export const COLUMN_SIDE = { encoder: "source", decoder: "fed", cross: "source" };

/**
 * @template T
 * @param {(kind: Kind) => T} valueOf
 */
const byKind = (valueOf) =>
  /** @type {Record<Kind, T>} */ (Object.fromEntries(KINDS.map((kind) => [kind, valueOf(kind)])));

/**
 * Decode a payload into a frozen object. If `before` is of the same sentence, the answers to its requests are kept.
 * @param {Payload} raw
 * @param {Readonly<RecordData> | null} before
 * @returns {Readonly<RecordData>}
 */
export function decodePayload(raw, before = null) {
  const earlier = before?.sentence === raw.sentence ? before : { quantities: {}, exact: new Map(), effects: null, again: null, lens: null };
  const logProbs = asFloats(raw.log_probs);
  const source = displayTokens(raw.source, 1, groupWords(raw.source));
  const produced = withProbabilities(raw.target_out, logProbs);
  const target = displayTokens([raw.target_in[0], ...produced], 0, [[0], ...shifted(groupWords(produced))]);
  // The target row shows <bos> and all produced tokens; decoder rows and columns are slices of it.
  const sides = { source, target, produced: target.slice(1), fed: target.slice(0, -1) };
  const itemsOf = (make) => ({ source: make(source), produced: make(sides.produced), fed: make(sides.fed) });
  const cellsOf = (kind) => sides[ROW_SIDE[kind]].length * sides[COLUMN_SIDE[kind]].length;
  const unmasked = byKind((kind) => unpackBits(raw[`${kind}_mask`], cellsOf(kind)));
  const cells = byKind((kind) => unmaskedCells(unmasked[kind]));
  const weights = decodeWeights(raw);
  return Object.freeze({
    sentence: raw.sentence,
    model: raw.model,
    weightsSha256: raw.weights_sha256,
    sourceText: raw.source_text,
    translation: raw.translation,
    heads: Math.max(...Object.values(weights.heads)),
    headsOf: weights.heads,
    layers: raw.layers,
    sourceLanguage: raw.source_language,
    targetLanguage: raw.target_language,
    search: raw.search,
    givenTarget: raw.given_target,
    checks: raw.checks,
    checked: raw.checked,
    unchecked: raw.unchecked ?? [],
    imported: raw.imported ?? null,
    logProbs,
    logProb: logProbs.length ? logProbs.reduce((sum, logProb) => sum + logProb, 0) : null,
    alternatives: alternativesOf(raw, logProbs),
    sides,
    items: { pieces: itemsOf(tokenItems), words: itemsOf(wordItems) },
    unmasked,
    cells,
    offered: raw.offered,
    quantities: Object.freeze({ ...earlier.quantities, weights, ...decodeQuantities(raw) }),
    exact: earlier.exact,
    together: raw.together ?? null,
    whatIf: raw.what_if ?? null,
    lookedAt: "looked_at_cross" in raw ? byKind((kind) => asIntegers(raw[`looked_at_${kind}`], 65535)) : null,
    effects: earlier.effects,
    again: earlier.again,
    lensOffer: raw.lens_offer ?? null,
    effectsIfAsked: raw.effects_if_asked ?? false,
    lens: earlier.lens,
    /* Records of the other explorers in the group: see together.js. */
    peers: new Map(),
    /* Cache of `mapOf`. */
    maps: new Map(),
  });
}

/**
 * Add what an answer holds to the data of its record.
 * @param {Readonly<RecordData>} data
 * @param {Answer} answer
 * @returns {Readonly<RecordData>}
 */
export const withAnswer = (data, answer) =>
  Object.freeze({
    ...data,
    quantities: Object.freeze({ ...data.quantities, ...decodeQuantities(answer) }),
    exact: new Map([...data.exact, ...decodeExact(data, answer)]),
    effects: decodeEffects(answer) ?? data.effects,
    again: answer.again ?? data.again,
    lens: decodeLens(data, answer) ?? data.lens,
    checks: answer.checks ?? data.checks,
    checked: answer.checked ?? data.checked,
    peers: new Map(),
    maps: new Map(),
  });

/** The kinds that have maps: maps from other tools may lack one. @param {Readonly<RecordData>} data @returns {Kind[]} */
export const kindsOf = ({ layers }) => KINDS.filter((kind) => layers[kind] > 0);

/** Whether the payload has probabilities; without them it holds attention weights alone. @param {Readonly<RecordData>} data */
export const hasProbabilities = ({ logProb }) => logProb !== null;

/* Convert nats to a probability, rounded to six decimals: more than a bar can show. */
const probabilityOf = (logProb) => Number(Math.exp(Math.min(0, logProb)).toFixed(6));

/** Return the produced tokens with their probabilities. @param {SentToken[]} tokens @param {Float32Array} logProbs */
export const withProbabilities = (tokens, logProbs) => tokens.map((token, t) => ({ ...token, probability: probabilityOf(logProbs[t]) }));

/*
 * The most probable tokens of each step. The token written is always included; if necessary it is added in place of the
 * last one, since a token of a given target may be unlikely. Without probabilities there are none.
 */
function alternativesOf({ target_out, alternatives, alternative_log_probs }, logProbs) {
  const others = asFloats(alternative_log_probs);
  return target_out.map((own, t) => {
    if (!logProbs.length) return [];
    const row = alternatives[t].map((token, k) => ({ token, logProb: others[t * alternatives[t].length + k] }));
    const added = !row.some(({ token }) => token.id === own.id);
    if (added) row.splice(-1, 1, { token: own, logProb: logProbs[t] }); // also if there are no alternatives
    return row.map(({ token, logProb }) => {
      const written = token.id === own.id;
      return { label: shortLabel(token), probability: probabilityOf(logProb), written, added: written && added };
    });
  });
}

/* The words of the target row, which starts with <bos>. */
const shifted = (words) => words.map((word) => word.map((index) => index + 1));

const unmaskedCells = (mask) => Uint32Array.from(mask.keys()).filter((cell) => mask[cell]);

/* Effect of ablating each head on each token's log-probability, in nats: per kind [layer, head, target token]. */
function decodeEffects(raw) {
  if (!raw.effects) return null;
  return byKind((kind) => asFloats(raw[`effects_${kind}`]));
}

/* What the states say: see `lens_answer` in payload.py. */
function decodeLens({ sides }, answer) {
  if (!answer.lens) return null;
  const sideOf = (side, positions) => {
    const [ids, logitIds, probabilities, ranks] = ["ids", "logit_ids", "probabilities", "ranks"].map((name) => asFloats(answer[`lens_${side}_${name}`]));
    return { ids, logitIds, probabilities, ranks, positions, best: ids.length / (answer.lens.rates[side].length * positions) };
  };
  return { ...answer.lens, encoder: sideOf("encoder", sides.source.length), decoder: sideOf("decoder", sides.produced.length) };
}

/** @param {Payload} raw */
const decodeWeights = (raw) =>
  decodeMaps(raw, "", { levels: raw.levels, heads: raw.heads, range: byKind(() => [0, 1]), error: raw.error });

/** @param {Payload | Answer} raw */
const decodeQuantities = (raw) =>
  Object.fromEntries(Object.entries(raw.quantities ?? {}).map(([name, sent]) => [name, decodeMaps(raw, `${name}_`, sent)]));

const decodeMaps = (raw, prefix, /** @type {SentQuantity} */ { levels, heads, range, error }) => ({
  heads: byKind((kind) => heads[kind] ?? heads),
  kinds: byKind((kind) => decodeNumbers(raw[prefix + kind], levels, range[kind], error)),
});

/*
 * A number is `offset + step * code`, at most `error` away from the true one. The error is half a step in two bytes and a
 * whole step in one byte (see payload.py). In float32 it is 0, unless the payload says otherwise.
 */
function decodeNumbers(bytes, levels, [lo, hi], error = 0) {
  if (levels === null) return { codes: asFloats(bytes), offset: 0, step: 1, error, lo, hi };
  const step = (hi - lo) / levels;
  return { codes: asIntegers(bytes, levels), offset: lo, step, error: levels > 255 ? step / 2 : step, lo, hi };
}

/**
 * Exact numbers of some maps, keyed by `exactName`.
 * @param {Readonly<RecordData>} data
 * @param {Answer} answer
 * @returns {Map<string, Float32Array>}
 */
function decodeExact({ layers, headsOf, quantities, cells }, { exact, exact_numbers: bytes }) {
  if (!exact) return new Map();
  const { quantity, kind } = exact;
  const rows = (quantities[quantity]?.heads ?? headsOf)[kind];
  const places = (one, count) => (one === null ? [...Array(count).keys()] : [one]);
  const names = places(exact.layer, layers[kind]).flatMap((layer) =>
    places(exact.head, rows).map((head) => exactName(quantity, kind, layer, head)),
  );
  const numbers = asFloats(bytes);
  const count = cells[kind].length;
  return new Map(names.map((name, place) => [name, numbers.subarray(place * count, (place + 1) * count)]));
}

export const exactName = (quantity, kind, layer, head) => [quantity, kind, layer, head].join();

function asIntegers(bytes, levels) {
  if (levels <= 255) return bytes;
  // A Uint16Array needs 2-byte alignment; copy when the message is unaligned.
  const even = bytes.byteOffset % 2 === 0 ? bytes : bytes.slice();
  return new Uint16Array(even.buffer, even.byteOffset, even.byteLength / 2);
}
