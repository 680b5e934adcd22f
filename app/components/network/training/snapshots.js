// A run in the form that the training component reads, as app/components/training/payload.py makes it of a small run.
//
// Axes: P points, L layers, H heads, Q queries, K keys. Measures are [P, L, H].

import { bytesOf, halfOf, packBits, packPayload } from "../../shared/packing.js";

const SHARE = 0.3, MARGIN = 0.1; // of a role: the least mean weight, and how much more than by chance and untrained
const FOUND = 0.5; // the share of its weight with which a head finds a part of the target

/* By kind, in the order shown: the roles on one example's maps, with their short names, meanings and cells. The row of `first` is the first counted. */
const PREVIOUS = (q) => q - 1, NEXT = (q) => q + 1, ITSELF = (q) => q;
const ROLES = {
  encoder: [
    { name: "previous token", short: "previous token", meaning: "weight on the token before the one being read", keyOf: PREVIOUS },
    { name: "next token", short: "next token", meaning: "weight on the token after the one being read", keyOf: NEXT },
    { name: "itself", short: "itself", meaning: "weight on the token being read", keyOf: ITSELF },
    { name: "<eos>", short: "<eos>", meaning: "weight on <eos>, the last source token", keyOf: (q, K) => K - 1 },
  ],
  decoder: [
    { name: "itself", short: "token just fed in", meaning: "weight on the token before the one being produced, from the third row on", keyOf: ITSELF, first: 2 },
    { name: "previous token", short: "2 back", meaning: "weight on the token two places before the one produced", keyOf: PREVIOUS },
    { name: "<bos>", short: "<bos>", meaning: "weight on <bos>, the first token fed in", keyOf: () => 0 },
  ],
  cross: [],
};
/* Those that saved snapshots hold, in their order. */
const SAVED_ROLES = {
  encoder: ROLES.encoder.filter(({ keyOf }) => keyOf !== NEXT),
  decoder: [ROLES.decoder[1], ROLES.decoder[0], ROLES.decoder[2]],
  cross: [ROLES.encoder[3]],
};

const KINDS = /** @type {Kind[]} */ (Object.keys(ROLES));

/* The queries and keys of a sentence's maps. @returns {Record<Kind, [number, number]>} */
function sizesOf({ source: { length: S }, target_out: { length: T } }) {
  return { encoder: [S, S], decoder: [T, T], cross: [T, S] };
}

/** Join the points' numbers to one array. @param {(number[] | Float32Array | Float64Array)[]} parts */
const stacked = (parts) => Float32Array.from(parts.flatMap((part) => [...part]));

/**
 * The payload of a run; `compared` is another run at the same points, or null.
 * @param {import("./history.js").History} past
 * @param {{name: string, languages: string[]}} about
 * @param {{name: string, past: import("./history.js").History} | null} compared
 */
export function runPayload(past, about, compared) {
  const { points, run: { config, network } } = past, tokens = past.tokens(), measured = points.map((point) => point.measured);
  const sizes = sizesOf(tokens);
  const data = {
    ...about, heads: config.heads, layers: Object.fromEntries(KINDS.map((kind) => [kind, network[kind === "encoder" ? kind : "decoder"].length])),
    steps: measured.map(({ step }) => step),
    loss: measured.map(({ loss }) => loss),
    quality: {
      title: "right", meaning: `Share of unseen examples that the network translates without a mistake, counted every ${past.every} steps.`,
      values: measured.map(({ exact }) => exact), share: true,
    },
    compared: compared && { name: compared.name, loss: compared.past.points.map((one) => one.measured.loss), quality: compared.past.points.map((one) => one.measured.exact) },
    live: true, sentences: [{ ...tokens, source_text: textOf(tokens.source), translation: textOf(tokens.target_out) }],
    measures: {}, marks: [], opened: { sentence: 0, step: null, kind: "cross", layer: 0, head: 0 },
  };
  for (const kind of KINDS) {
    const maps = points.map((point) => point.maps[kind]), [Q, K] = sizes[kind];
    const measures = [entropyOf(kind, maps, Q, K), ...ROLES[kind].map((role) => roleOf(kind, role, maps, Q, K)), ...(kind === "cross" ? partsOfRun(past) : [])];
    const [layers, heads] = [data.layers[kind], config.heads], rows = (level) => Array.from({ length: layers }, (_, l) => [...level.subarray(l * heads, (l + 1) * heads)]);
    data.measures[kind] = measures.map(({ name, short, meaning, chance, level }) => ({ name, short, meaning, chance, level: level && rows(level) }));
    data.marks.push(...measures.flatMap((measure) => marksOf(kind, measure, points.length, heads)));
    measures.forEach(({ values }, n) => (data[`measure_${kind}_${n}`] = bytesOf(values)));
    Object.assign(data, packedMaps(kind, maps, Q, K));
  }
  return packPayload(data);
}

/**
 * The arrays of a healthy run's attention snapshots, as core/record/attention_snapshots.py saves them: name, shape, numbers.
 * @param {import("./history.js").History} past
 * @param {number[]} bleu  at each point
 * @param {number} every  keep one point of this many, with the last
 * @returns {[string, number[], Uint8Array | Int32Array | Float32Array | Uint16Array][]}
 */
export function snapshotArrays(past, bleu, every) {
  const isKept = (_, at) => (past.points.length - 1 - at) % every === 0, points = past.points.filter(isKept), P = points.length;
  const tokens = past.tokens(), sentence = Object.fromEntries(Object.entries(tokens).map(([side, of]) => [side, of.map(({ piece }) => piece)]));
  const words = new TextEncoder().encode(JSON.stringify({ format: 1, sentences: [sentence] })), measured = points.map((point) => point.measured);
  const ofKind = KINDS.flatMap((kind) => {
    const maps = points.map((point) => point.maps[kind]), [Q, K] = sizesOf(tokens)[kind], H = past.run.config.heads, L = maps[0].length / (H * Q * K);
    const roles = SAVED_ROLES[kind].map((role) => roleOf(kind, role, maps, Q, K).values);
    const byPoint = points.map((_, p) => roles.flatMap((values) => [...values.subarray(p * L * H, (p + 1) * L * H)]));
    return /** @type {ReturnType<typeof snapshotArrays>} */ ([
      [`entropy_${kind}`, [P, L, H], entropyOf(kind, maps, Q, K).values], [`roles_${kind}`, [P, roles.length, L, H], stacked(byPoint)],
      [`${kind}_0`, [P, L, H, Q, K], Uint16Array.from(maps.flatMap((all) => Array.from(all, halfOf)))],
    ]);
  });
  return [
    ["words", [words.length], words], ["steps", [P], Int32Array.from(measured, ({ step }) => step)],
    ["loss", [P], Float32Array.from(measured, ({ loss }) => loss)], ["bleu", [P], Float32Array.from(bleu.filter(isKept))], ...ofKind,
  ];
}

const textOf = (tokens) => tokens.filter(({ special }) => !special).map(({ text, starts_word }) => (starts_word ? ` ${text}` : text)).join("").trim();

/** Map each head's [Q, K] of all points to a number. @param {(map: Float32Array) => number} measure */
const overHeads = (maps, cells, measure) =>
  stacked(maps.map((all) => Array.from({ length: all.length / cells }, (_, head) => Math.min(1, Math.max(0, measure(all.subarray(head * cells, (head + 1) * cells)))))));

/* Entropy as a share of a uniform row's, averaged over rows with several unmasked keys. */
function entropyOf(kind, maps, Q, K) {
  const open = Array.from({ length: Q }, (_, q) => (kind === "decoder" ? q + 1 : K)), counted = open.filter((count) => count > 1).length;
  const values = overHeads(maps, Q * K, (map) => map.reduce((sum, weight, at) => {
    const count = open[Math.floor(at / K)];
    return weight > 0 && count > 1 ? sum - (weight * Math.log(weight)) / Math.log(count) : sum;
  }, 0) / Math.max(1, counted));
  return { name: "entropy", short: "entropy", meaning: "entropy of a row as a share of a uniform row's", chance: 1, level: null, values };
}

/* The mean weight on the key of each row, over the rows that have one. */
function roleOf(kind, { name, short, meaning, keyOf, first = 0 }, maps, Q, K) {
  const cells = [];
  for (let q = Math.min(first, Q - 1); q < Q; q++) if (keyOf(q, K) >= 0 && keyOf(q, K) < K) cells.push(q * K + keyOf(q, K));
  const mean = (map) => cells.reduce((sum, cell) => sum + map[cell], 0) / Math.max(1, cells.length);
  const values = overHeads(maps, Q * K, mean), heads = maps[0].length / (Q * K);
  const uniform = Float32Array.from({ length: Q * K }, (_, at) => (kind !== "decoder" ? 1 / K : at % K <= Math.floor(at / K) ? 1 / (1 + Math.floor(at / K)) : 0));
  const chance = mean(uniform);
  const level = values.slice(0, heads).map((untrained) => Math.max(SHARE, Math.max(chance, untrained) + MARGIN));
  return { name, short, meaning, chance, level, values };
}

/* Each part's share of cross-attention weight on the right tokens. */
function partsOfRun({ points, run: { examples: { parts } } }) {
  const count = points[0].measured.shares.length / parts.length;
  return parts.map((part, p) => {
    const name = `finds the ${part}`, values = stacked(points.map(({ measured }) => measured.shares.subarray(p * count, (p + 1) * count)));
    return { name, short: name, meaning: "weight on the right source tokens, on unseen examples", chance: points[0].measured.chance[p], level: new Float32Array(count).fill(FOUND), values };
  });
}

/* A mark for each head that reaches the measure's level and keeps it to the end, at the first point from which it does. */
function marksOf(kind, { name, short, level, values }, points, heads) {
  if (!level) return [];
  const found = [...level].flatMap((least, at) => {
    const below = Array.from({ length: points }, (_, p) => values[p * level.length + at] < least).lastIndexOf(true);
    const mark = { kind, measure: name, short, layer: Math.floor(at / heads), head: at % heads, point: below + 1, last: values[values.length - level.length + at], diagonal: null };
    return below + 1 < points ? [mark] : [];
  });
  return found.toSorted((a, b) => a.point - b.point);
}

/* The cells that the mask allows, or that a mistaken network gives weight; and their weights as 16-bit floats [P, L, H, cell]. */
function packedMaps(kind, maps, Q, K) {
  const cells = Q * K, mask = Uint8Array.from({ length: cells }, (_, at) => Number(kind !== "decoder" || at % K <= Math.floor(at / K)));
  for (const all of maps) for (let at = 0; at < all.length; at++) if (all[at] > 0) mask[at % cells] = 1;
  const halves = Uint16Array.from(maps.flatMap((all) => [...all].filter((_, at) => mask[at % cells]).map(halfOf)));
  return { [`mask_${kind}_0`]: packBits(mask), [`maps_${kind}_0`]: bytesOf(halves) };
}
