// A trained network as a checkpoint: the ZIP file that the app saves too, see core/small/checkpoint.py and core/checkpoint/folder.py.

import { snapshotArrays } from "../network/training/snapshots.js";
import { bytesOf, halfOf } from "../shared/packing.js";
import { RECIPE } from "./load_checkpoint.js";
import { npzOfArrays, sha256, zipOf } from "./npz.js";

const MOST_SNAPSHOTS = 3 << 20; // bytes of the snapshots' file
const [WEIGHTS_FILE, TOKENIZER_FILE] = ["model.safetensors", "tokenizer.json"];

const encoded = (text) => new TextEncoder().encode(text);
const jsonBytes = (value) => encoded(JSON.stringify(value));

/**
 * The file of a network as it is now, with weights rounded to 16 bits.
 * @param {import("../network/training/history.js").History} past
 * @param {{sides: string[], steps: number}} about  languages, and the steps of a full training
 */
export async function checkpointOf(past, { sides, steps }) {
  const { run, points } = past, { examples: { task, tokenizer, heldOut }, config, stepNumber, losses } = run, { config: model, tensors } = run.stored();
  /** @type {[string, Uint8Array<ArrayBuffer>][]} */
  const files = [[WEIGHTS_FILE, safetensorsOf(tensors)], [TOKENIZER_FILE, jsonBytes(jsonOfTokenizer(tokenizer))]];
  const listed = files.map(async ([name, bytes]) => [name, { bytes: bytes.length, sha256: await sha256(bytes) }]);
  const values = {
    format: 1, architecture: "scratch", source_language: sides[0], target_language: sides[1], model,
    parameters: Object.values(tensors).reduce((count, { values: { length } }) => count + length, 0),
    training: {
      recipe: RECIPE, source: `trained on the page Train one here: ${task}`, corpora: { [task]: 1 }, steps_done: stepNumber,
      seconds: Number(run.seconds.toFixed(1)), settings: { ...config, steps }, config: { steps, seed: config.seed }, machine: "a browser",
    },
    tokenizers: { source: TOKENIZER_FILE, target: TOKENIZER_FILE }, files: Object.fromEntries(await Promise.all(listed)),
  };
  const mean = (numbers) => numbers.reduce((sum, one) => sum + one, 0) / numbers.length;
  const curve = points.map(({ measured: { step, loss, exact } }, at) => {
    const own = at ? losses.slice(points[at - 1].measured.step, step) : [loss];
    return { step, train_loss: mean(own), val_loss: loss, exact };
  });
  const bleu = config.bug ? [run.bleu()] : past.replay(() => run.bleu());
  const final = { [`${task}, ${heldOut.length} held-out examples`]: { sacrebleu: bleu.at(-1), exact: curve.at(-1).exact, beam: 1 } };
  if (!config.bug) files.push(["history.npz", snapshotsFile(past, bleu)]);
  files.push(["metrics.json", jsonBytes({ curve, final })], ["config.json", jsonBytes({ ...values, sha256: await sha256(encoded(canonical(values))) })]);
  return zipOf(files.map(([name, bytes]) => /** @type {[string, Uint8Array]} */ ([`${task}/${name}`, bytes])));
}

/* With fewer points if the file were too large. */
function snapshotsFile(past, bleu, every = 1) {
  const file = npzOfArrays(snapshotArrays(past, bleu, every));
  return file.length > MOST_SNAPSHOTS ? snapshotsFile(past, bleu, 2 * every) : file;
}

/* JSON as Python writes it with sorted keys and without spaces: a number below 0.0001 has an exponent of two digits. */
function canonical(value) {
  if (typeof value === "number" && value && Math.abs(value) < 1e-4) return value.toExponential().replace(/-(\d)$/, "-0$1");
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  return `{${Object.keys(value).toSorted().map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join()}}`;
}

function jsonOfTokenizer({ pieces, merges }) {
  const vocabulary = Object.fromEntries(pieces.map((piece, id) => [piece, id]));
  const pairs = [...merges.keys()].map((pair) => [pieces[Math.floor(pair / pieces.length)], pieces[pair % pieces.length]]);
  return { kind: "subwords", vocabulary, merges: pairs, single_digits: true };
}

/* A uint64 with the length of a JSON header, padded to 8 bytes; then the numbers. */
function safetensorsOf(tensors) {
  const header = {}, halves = [];
  for (const [name, { shape, values }] of Object.entries(tensors)) {
    const at = 2 * halves.length;
    for (const value of values) halves.push(halfOf(value));
    header[name] = { dtype: "F16", shape, data_offsets: [at, 2 * halves.length] };
  }
  const text = JSON.stringify(header), start = 8 + Math.ceil(text.length / 8) * 8, bytes = new Uint8Array(start + 2 * halves.length);
  new DataView(bytes.buffer).setUint32(0, start - 8, true);
  bytes.set(encoded(text.padEnd(start - 8)), 8);
  bytes.set(bytesOf(Uint16Array.from(halves)), start);
  return bytes;
}
