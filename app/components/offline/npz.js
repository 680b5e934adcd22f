// Saves a record as an .npz file for TranslationRecord.load: a zip of .npy arrays, one of them JSON.

import { crc32 } from "../shared/checksum.js";
import { bytesOf } from "../shared/packing.js";

const FORMAT = 2; // of core/record/record.py
const NUMBER_TYPES = { Float32Array: "<f4", Int32Array: "<i4", Uint16Array: "<f2", Uint8Array: "|u1" };

const [ZIP_LOCAL, ZIP_ENTRY, ZIP_END] = [0x04034b50, 0x02014b50, 0x06054b50];
const ZIP_VERSION = 20;
const ZIP_DATE = 0x21; // always 1 January 1980, so that the same record gives the same file

/** Thrown for a file that cannot be read. The message is one line for the reader. */
export class FileError extends Error {}

/** Return JSON values as the bytes that the hash covers, like `canonical_bytes` in core/record/canonical.py. @returns {Uint8Array[]} */
function canonicalParts(value) {
  if (typeof value === "string") {
    const units = Uint16Array.from({ length: value.length }, (_, index) => value.charCodeAt(index));
    return [bytesOf(Uint32Array.of(units.byteLength)), bytesOf(units)];
  }
  if (typeof value !== "object") return [bytesOf(Float64Array.of(Number(value) + 0))];
  const names = Object.keys(value).toSorted();
  const items = Array.isArray(value) ? value : names.flatMap((name) => [name, value[name]]);
  return [bytesOf(Float64Array.of(names.length)), ...items.flatMap((item) => canonicalParts(item))];
}

/* JSON as Python reads it: the figure of a failed check may be NaN or infinite. */
function jsonOf({ checks, ...metadata }) {
  const written = checks.map((check) => ({ ...check, figure: Number.isFinite(check.figure) ? check.figure : String(check.figure) }));
  const text = JSON.stringify({ format: FORMAT, checks: written, ...metadata });
  return new TextEncoder().encode(text.replace(/"figure":"(NaN|-?Infinity)"/g, '"figure":$1'));
}

/** Everything but arrays and checks, with the names of `TranslationRecord`. @param {PassRecord} record */
const metadataOf = (record) => ({
  model: record.model,
  weights_sha256: record.weightsSha256,
  source_language: record.sourceLanguage,
  target_language: record.targetLanguage,
  source_text: record.sourceText,
  translation: record.translation,
  source: record.source,
  target_in: record.targetIn,
  target_out: record.targetOut,
  alternatives: record.alternatives,
  hypotheses: record.hypotheses.map(({ text, ids, logProb, score }) => ({ text, ids: [...ids], log_prob: logProb, score })),
  search: record.search,
  ...(record.editsText ? { edits: record.editsText } : {}),
});

/**
 * The arrays in the order of the record's hash.
 * @param {PassRecord} record
 * @returns {[string, number[], Float32Array | Uint8Array][]} name, shape and numbers
 */
function arraysOf(record) {
  const { layers, heads, masks } = record;
  const [S, T] = [record.source.length, record.targetOut.length];
  const D = record.sourcePositions.length / S;
  return [
    ["encoder", [layers.encoder, heads.encoder, S, S], record.encoder],
    ["decoder", [layers.decoder, heads.decoder, T, T], record.decoder],
    ["cross", [layers.cross, heads.cross, T, S], record.cross],
    ["encoder_mask", [S, S], masks.encoder],
    ["decoder_mask", [T, T], masks.decoder],
    ["cross_mask", [T, S], masks.cross],
    ["source_positions", [S, D], record.sourcePositions],
    ["target_positions", [T, D], record.targetPositions],
    ["log_probs", [T], record.logProbs],
    ["alternative_log_probs", [T, record.alternativeLogProbs.length / T], record.alternativeLogProbs],
  ];
}

const ascii = (text) => Uint8Array.from(text, (character) => character.charCodeAt(0));

/**
 * Return the record's `id`: 16 hexadecimal digits of a SHA-256 over metadata and numbers, without the checks.
 * @param {PassRecord} record
 */
export async function identityOf(record) {
  const parts = [...canonicalParts(metadataOf(record)), ...arraysOf(record).map(([, , numbers]) => bytesOf(numbers))];
  return (await sha256(concatenated(parts))).slice(0, 16);
}

/** Return the SHA-256 of bytes as hexadecimal digits. @param {Uint8Array<ArrayBuffer>} bytes */
export async function sha256(bytes) {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Return the file of a record. @param {PassRecord} record @returns {Uint8Array<ArrayBuffer>} */
export function npzOf(record) {
  const words = jsonOf({ checks: record.checks, ...metadataOf(record) });
  return npzOfArrays([["words", [words.length], words], ...arraysOf(record)]);
}

/** The file of named arrays, given as name, shape and numbers; 16 bits are those of floats. */
export const npzOfArrays = (arrays) => zipOf(arrays.map(([name, shape, numbers]) => [`${name}.npy`, npyOf(name, shape, numbers)]));

/* A .npy file, version 1.0: magic, header length, a Python dictionary padded so that the data start at a multiple of 64. */
function npyOf(name, shape, numbers) {
  const type = name.endsWith("_mask") ? "|b1" : NUMBER_TYPES[numbers.constructor.name];
  const tuple = `(${shape.join(", ")}${shape.length === 1 ? "," : ""})`;
  const header = `{'descr': '${type}', 'fortran_order': False, 'shape': ${tuple}, }`;
  const length = Math.ceil((10 + header.length + 1) / 64) * 64 - 10;
  const magic = `\x93NUMPY\x01\x00${String.fromCharCode(length & 255, length >> 8)}`;
  return concatenated([ascii(`${magic}${header.padEnd(length - 1)}\n`), bytesOf(numbers)]);
}

/** A zip archive without compression: each file after its header, then the directory and its end. @param {[string, Uint8Array][]} files */
export function zipOf(files) {
  const parts = [];
  const directory = [];
  let offset = 0;
  for (const [name, content] of files) {
    const size = content.length;
    const file = [ZIP_VERSION, 0, 0, 0, ZIP_DATE, crc32(content), size, size, name.length, 0];
    const local = integers("42222244422", ZIP_LOCAL, ...file);
    directory.push(integers("42222224442222244", ZIP_ENTRY, ZIP_VERSION, ...file, 0, 0, 0, 0, offset), ascii(name));
    parts.push(local, ascii(name), content);
    offset += local.length + name.length + size;
  }
  const entries = concatenated(directory);
  const end = integers("42222442", ZIP_END, 0, 0, files.length, files.length, entries.length, offset, 0);
  return concatenated([...parts, entries, end]);
}

/**
 * The files of a zip archive by name, without folders. Throws for another file, and for one that unpacks to more than `most` bytes.
 * @param {Uint8Array<ArrayBuffer>} bytes @param {number} most
 */
export async function unzipped(bytes, most) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), end = bytes.length - 22, found = new Map();
  if (end < 0 || view.getUint32(end, true) !== ZIP_END) throw new FileError("this is not a ZIP file: give one that this page or the app has saved");
  for (let at = view.getUint32(end + 16, true), left = most; at < end; ) {
    const [isDeflated, packed, size] = [view.getUint16(at + 10, true), view.getUint32(at + 20, true), view.getUint32(at + 24, true)];
    const [length, extra, comment] = [28, 30, 32].map((field) => view.getUint16(at + field, true)), local = view.getUint32(at + 42, true);
    if ((left -= size) < 0) throw new FileError(`the ZIP file unpacks to more than ${most} bytes: give one that this page or the app has saved`);
    const start = local + 30 + view.getUint16(local + 26, true) + view.getUint16(local + 28, true), content = bytes.slice(start, start + packed);
    const name = new TextDecoder().decode(bytes.subarray(at + 46, at + 46 + length)).split("/").at(-1);
    found.set(name, isDeflated ? await inflated(content) : content);
    at += 46 + length + extra + comment;
  }
  return found;
}

const inflated = async (bytes) => new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"))).arrayBuffer());

/* Little-endian integers; `widths` holds the number of bytes of each. */
function integers(widths, ...values) {
  const bytes = [...widths].flatMap((width, index) =>
    Array.from({ length: Number(width) }, (_, place) => Math.floor(values[index] / 256 ** place) & 255),
  );
  return Uint8Array.from(bytes);
}

function concatenated(parts) {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
