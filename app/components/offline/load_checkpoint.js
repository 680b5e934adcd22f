// Reads the ZIP file of a trained network, which this page (checkpoint.js) or the app has saved.

import { CONFIG_KEYS } from "../network/weights.js";
import { FileError, sha256, unzipped } from "./npz.js";

export const RECIPE = "small";
const LARGEST = 8 << 20; // bytes of a file, and of what it unpacks to
const TYPES = { F16: ["f16", Uint16Array], F32: ["f32", Float32Array] };

const LANGUAGES = { de: "German", en: "English" };
const languageOf = (code) => LANGUAGES[code] ?? code; // of a task, such as letters

/**
 * The network of a file in the form that `makeNetwork` takes, and its config.json. Rejects with one line.
 * @param {Uint8Array<ArrayBuffer>} bytes
 */
export async function readCheckpoint(bytes) {
  try {
    if (bytes.length > LARGEST) throw new FileError(`the file has ${bytes.length} bytes: the limit is ${LARGEST}`);
    const files = await unzipped(bytes, LARGEST), read = (name) => JSON.parse(new TextDecoder().decode(files.get(name))), config = read("config.json");
    for (const [name, { sha256: expected }] of Object.entries(config.files))
      if ((await sha256(files.get(name))) !== expected) throw new FileError(`${name} is damaged: its SHA-256 differs from the one in config.json`);
    if (config.training.recipe !== RECIPE) throw new FileError("this network was not trained on Train one here: open it in the app");
    const { kind, vocabulary, merges, ...more } = read(config.tokenizers.source), isShared = config.tokenizers.source === config.tokenizers.target;
    const unknown = Object.keys(config.model).filter((name) => !CONFIG_KEYS.includes(name));
    if (kind !== "subwords" || !isShared || unknown.length) throw new FileError("this page cannot run this network: load it in the app");
    const pieces = Object.keys(vocabulary).toSorted((a, b) => vocabulary[a] - vocabulary[b]);
    const tokenizer = { ...more, kind, pieces, merges: merges.map((pair) => pair.map((piece) => vocabulary[piece])) };
    const weights = Object.keys(config.files).find((name) => name !== config.tokenizers.source), { source_language, target_language, parameters } = config;
    const [name] = Object.keys(config.training.corpora), weights_sha256 = config.files[weights].sha256, tensors = tensorsOf(files.get(weights));
    const about = { name, source_language: languageOf(source_language), target_language: languageOf(target_language), parameters, weights_sha256, precision: "fp16" };
    return { config, stored: { about, config: config.model, tokenizer, means: null, lens: null, function_words: [], tensors } };
  } catch (error) {
    throw error instanceof FileError ? error : new FileError("this is not a saved network: give a ZIP file that this page or the app has saved");
  }
}

function tensorsOf(bytes) {
  const start = 8 + new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true), numbers = bytes.slice(start).buffer;
  const { __metadata__, ...header } = JSON.parse(new TextDecoder().decode(bytes.subarray(8, start)));
  return Object.fromEntries(Object.entries(header).map(([name, { dtype, shape, data_offsets: [from, to] }]) => {
    const [kind, Stored] = TYPES[dtype];
    return [name, { shape, kind, values: new Stored(numbers, from, (to - from) / Stored.BYTES_PER_ELEMENT), scales: null }];
  }));
}
