// Interventions on a forward pass: frozen values with the text form of core/record/edits.py, and their effect on attention.

/**
 * Layers, heads, queries and keys are counted from 0; in an edge, null stands for all of them. See core/record/edits.py.
 * @typedef {{kind: string, layer: number, head: number}} Head
 * @typedef {{kind: string, layer: number | null, head: number | null, query: number | null, key: number | null,
 *   factor: number}} Edge
 * @typedef {{scale: number, stretch: number, shift: number, order: readonly number[]}} PositionEdit
 * @typedef {{causalMask: boolean, paddingMask: boolean, hiddenSource: readonly number[], sourcePositions: PositionEdit,
 *   targetPositions: PositionEdit, headsOff: readonly Head[], headsUniform: readonly Head[], headsMean: readonly Head[],
 *   edges: readonly Edge[], rows: readonly (Head & {query: number, weights: number[]})[],
 *   temperatures: readonly (Head & {value: number})[], donor: Donor | null, patches: readonly Patch[],
 *   headPatches: readonly (Head & {query: number, donorQuery: number})[], pushes: readonly Push[]}} Edits
 * Of states, layer 0 is the embeddings. A push has a `seed`, or the token `old` (or null) and `new`; see core/record/state_edits.py.
 * @typedef {{source: readonly number[], target: readonly number[]}} Donor
 * @typedef {{side: "encoder" | "decoder", layer: number, position: number, donorPosition: number}} Patch
 * @typedef {{side: "encoder" | "decoder", layer: number, position: number, strength: number, seed?: number, old?: number | null,
 *   new?: number}} Push
 */

const MAX_EDITS = 200, MAX_TEXT = 1 << 20, MAX_PARTS = 2000, MAX_PROBLEMS = 20; // problems: lines reported per text
const EDITED_KINDS = ["encoder", "decoder", "cross"], NONE = Object.freeze([]);
const OWN_POSITIONS = Object.freeze({ scale: 1, stretch: 1, shift: 0, order: NONE });

/** No interventions. The order of the fields is that of the text form. @type {Edits} */
export const NO_EDITS = Object.freeze({
  causalMask: true, paddingMask: true, hiddenSource: NONE, sourcePositions: OWN_POSITIONS, targetPositions: OWN_POSITIONS,
  headsOff: NONE, headsUniform: NONE, headsMean: NONE, edges: NONE, rows: NONE, temperatures: NONE,
  donor: null, patches: NONE, headPatches: NONE, pushes: NONE,
});

/** The number of heads of each attention of a kind; cross-attention is the decoder's. @param {any} config @param {string} kind */
export const headsOf = ({ num_heads: H, decoder_heads: ofDecoder }, kind) => (kind === "encoder" ? H : (ofDecoder ?? H));

/* [field, item] of each edit: an item of a list, or a value other than that of NO_EDITS. */
const entriesOf = (/** @type {Edits} */ edits) =>
  Object.entries(NO_EDITS).flatMap(([field, none]) => {
    if (Array.isArray(none)) return edits[field].map((item) => [field, item]);
    return edits[field] === none ? [] : [[field, edits[field]]];
  });

/* Sort key of an edit within its field, "all" first. Two edits with the same key contradict each other. */
const placeOfEdit = (item) => {
  const places = item.kind ? [EDITED_KINDS.indexOf(item.kind), item.layer, item.head, item.query, item.key] : item.side ? placeOfState(item) : [item];
  return places.map((place) => String(place === null ? 0 : (place ?? 0) + 1).padStart(8, "0")).join();
};

const placeOfState = ({ side, layer, position, strength, seed, old, new: to }) =>
  [EDITED_KINDS.indexOf(side), layer, position, ...(strength === undefined ? [] : seed === undefined ? [old, to] : [seed])];

function editsOf(entries) {
  const found = { ...NO_EDITS };
  for (const [field, value] of entries) found[field] = Array.isArray(found[field]) ? [...found[field], value] : value;
  for (const [field, items] of Object.entries(found))
    if (Array.isArray(items)) found[field] = Object.freeze(items.toSorted((a, b) => placeOfEdit(a).localeCompare(placeOfEdit(b))));
  return entries.length ? Object.freeze(found) : NO_EDITS;
}

/** Return each edit by itself, in the order of the text form. @param {Edits} edits @returns {Edits[]} */
export const listEdits = (edits) => entriesOf(edits).map((entry) => editsOf([entry]));

/* The words of the text form, their fields, and the parts after each word. In `edges`, "all" may replace a number. */
const STATE_PARTS = ["side", "layer", "position"], HEAD_PARTS = ["kind", "layer", "head"], CELL_PARTS = [...HEAD_PARTS, "query", "key"];
const FORMS = {
  off: ["headsOff", HEAD_PARTS], uniform: ["headsUniform", HEAD_PARTS], mean: ["headsMean", HEAD_PARTS],
  cut: ["edges", CELL_PARTS], times: ["edges", [...CELL_PARTS, "factor"]],
  row: ["rows", [...HEAD_PARTS, "query", "weights"]], temp: ["temperatures", [...HEAD_PARTS, "value"]],
  copy: ["patches", [...STATE_PARTS, "donorPosition"]], copyhead: ["headPatches", [...HEAD_PARTS, "query", "donorQuery"]],
  push: ["pushes", [...STATE_PARTS, "old", "new", "strength"]], pushrandom: ["pushes", [...STATE_PARTS, "seed", "strength"]],
};
const DECIMAL = "\\d{1,7}(?:\\.\\d{1,30})?";
const PATTERNS = {
  kind: EDITED_KINDS.join("|"), factor: DECIMAL, value: DECIMAL, weights: `${DECIMAL}(?:-${DECIMAL})*`,
  side: "encoder|decoder", old: "\\d{1,7}|none", new: "\\d{1,7}", strength: `-?${DECIMAL}`,
};
const PASS = /^pass\.(\d{1,7}(?:-\d{1,7})*)\.(\d{1,7}(?:-\d{1,7})*)$/;
const POSITIONS = new RegExp(
  `^positions\\.(source|target)\\.(?:scale-(?<scale>-?${DECIMAL}))?_?(?:stretch-(?<stretch>-?\\d{1,7}))?_?` +
    "(?:shift-(?<shift>-?\\d{1,7}))?_?(?:order-(?<order>\\d{1,3}(?:-\\d{1,3})*))?$",
);

/** Encode as one line of letters, digits and `. - _ ~`, such as `off.cross.2.0~hide.3`. @param {Edits} edits */
export const editsText = (edits) => entriesOf(edits).map(([field, item]) => textOf(field, item)).join("~");

function textOf(field, item) {
  if (field.endsWith("Mask")) return field.slice(0, -"Mask".length);
  if (field === "hiddenSource") return `hide.${item}`;
  if (field === "donor") return `pass.${item.source.join("-")}.${item.target.join("-")}`;
  if (!item.kind && !item.side) {
    const changed = Object.keys(OWN_POSITIONS).filter((name) => String(item[name]) !== String(OWN_POSITIONS[name]));
    const parts = changed.map((name) => `${name}-${name === "order" ? item.order.join("-") : item[name]}`);
    return `positions.${field.slice(0, -"Positions".length)}.${parts.join("_")}`;
  }
  const word = field === "edges" ? (item.factor ? "times" : "cut") : "seed" in item ? "pushrandom" : Object.keys(FORMS).find((one) => FORMS[one][0] === field);
  const all = field === "pushes" ? "none" : "all";
  return [word, ...FORMS[word][1].map((part) => (part === "weights" ? item.weights.join("-") : item[part] ?? all))].join(".");
}

class EditError extends Error {}
const refuse = (wrong, message) => {
  if (wrong) throw new EditError(message);
};
const grouped = (number) => number.toLocaleString("en-US", { maximumFractionDigits: 6 });
const rounded = (number) => Number(number.toFixed(6));

/* Parse one edit to [field, item]; an item of null has no effect. Throws EditError if the text is not a valid edit. */
function parsed(text) {
  const [, mask, hidden] = /^(?:(causal|padding)|hide\.(\d{1,5}))$/.exec(text) ?? [];
  if (mask) return [`${mask}Mask`, false];
  if (hidden) return ["hiddenSource", Number(hidden)];
  const moved = POSITIONS.exec(text);
  if (moved) return [`${moved[1]}Positions`, positionEdit(moved.groups)];
  const pass = PASS.exec(text);
  if (pass) return ["donor", donorOf(...pass.slice(1).map((ids) => Object.freeze(ids.split("-").map(Number))))];
  const [field, parts] = FORMS[text.split(".")[0]] ?? [];
  refuse(!field, "unknown syntax");
  const number = field === "edges" ? "\\d{1,5}|all|\\*" : "\\d{1,5}";
  const found = new RegExp(`^\\w+${parts.map((part) => `\\.(${PATTERNS[part] ?? number})`).join("")}$`).exec(text);
  refuse(!found, "unknown syntax");
  const item = field === "edges" ? { factor: 0 } : {};
  for (const [i, part] of parts.entries()) {
    const word = found[i + 1], value = ["all", "*", "none"].includes(word) ? null : Number(word);
    refuse(parts !== HEAD_PARTS && !PATTERNS[part] && value > 9999, `${part.replace("P", " p").replace("Q", " q")} ${value} is out of range: choose 0 to 9,999`);
    item[part] = part === "kind" || part === "side" ? word : part === "weights" ? rowWeights(word.split("-").map(Number)) : value;
  }
  const { factor, value } = item;
  if (field === "pushes") {
    refuse(item.old === item.new && "new" in item, `token ${item.new} cannot be pushed towards itself: choose two tokens`);
    refuse(Math.abs(item.strength) > 1e6, `a strength of ${item.strength} is out of range: choose −1,000,000 to 1,000,000`);
    item.strength = rounded(item.strength);
  }
  const range = "choose 0 to cut it, or a factor from 1e-06 to 1,000,000";
  refuse(factor > 1e6 || (factor > 0 && factor < 1e-6), `an edge cannot be multiplied by ${factor}: ${range}`);
  refuse(value < 0.01 || value > 100, `a temperature of ${value} is out of range: choose 0.01 to 100`);
  return [field, factor === 1 || value === 1 || item.strength === 0 ? null : Object.freeze(item)];
}

function donorOf(source, target) {
  for (const [side, ids] of Object.entries({ source, target })) {
    refuse(ids.length > 512, `a pass has ${ids.length} ${side} tokens: give 1 to 512 on each side`);
    refuse(ids.includes(0), "a pass cannot be fed token 0: give ids from 1");
  }
  const ends = "the source of a pass must end with <eos>, id 2, and its target must begin with <bos>, id 1";
  refuse(source.at(-1) !== 2 || target[0] !== 1, ends);
  return Object.freeze({ source, target });
}

function rowWeights(weights) {
  refuse(weights.length > 512, `a row has ${weights.length} weights: give 1 to 512`);
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const rule = "each must be from 0 to 1,000,000, and one must be above 0";
  refuse(!total || weights.some((weight) => weight > 1e6), `a row cannot have these weights: ${rule}`);
  const isShare = Math.abs(total - 1) <= 5e-7 * weights.length + 1e-12; // within rounding to six decimals
  return Object.freeze(weights.map((weight) => rounded(isShare ? weight : weight / total)));
}

function positionEdit({ scale = "1", stretch = "1", shift = "0", order = "" }) {
  const places = order ? order.split("-").map(Number) : [], edit = { scale: Number(scale), stretch: Number(stretch), shift: Number(shift) };
  const isPermutation = places.toSorted((a, b) => a - b).every((place, i) => place === i);
  refuse(!isPermutation, `(${places.join(", ")}) is not a permutation of the positions 0 to ${places.length - 1}`);
  for (const [name, limit] of Object.entries({ scale: 1000, stretch: 1000, shift: 1e6 })) {
    const range = `choose from −${grouped(limit)} to ${grouped(limit)}`;
    refuse(Math.abs(edit[name]) > limit, `a position ${name} of ${edit[name]} is out of range: ${range}`);
  }
  const found = Object.freeze({ ...edit, scale: rounded(edit.scale), order: Object.freeze(places) });
  return textOf("sourcePositions", found).endsWith(".") ? null : found;
}

/**
 * Parse the text form: up to 200 valid edits. Lines about rejected parts are added to `problems`, at most 21.
 * @param {string} text @param {string[]} problems @returns {Edits}
 */
export function parseEdits(text, problems = []) {
  if (!text) return NO_EDITS;
  if (text.length > MAX_TEXT) {
    problems.push(`${grouped(text.length)} characters of edits are too many: the limit is 1 MB`);
    return NO_EDITS;
  }
  const found = new Map(), said = [], parts = text.split("~", MAX_PARTS + 1);
  if (parts.length > MAX_PARTS) said.push(`everything after the first ${grouped(MAX_PARTS)} edits is ignored: undo some`);
  for (const part of parts.slice(0, MAX_PARTS)) {
    try {
      const [field, item] = parsed(part);
      if (item === null) continue;
      const place = [field.replace("Mean", "Off"), ...(Array.isArray(NO_EDITS[field]) ? [placeOfEdit(item)] : [])].join();
      refuse(found.has(place), "it conflicts with an earlier edit");
      found.set(place, [field, item]);
    } catch (error) {
      if (!(error instanceof EditError)) throw error;
      said.push(`'${part.length <= 40 ? part : `${part.slice(0, 39)}…`}' is ignored: ${error.message}`);
    }
  }
  if (found.size > MAX_EDITS) said.push(`${grouped(found.size - MAX_EDITS)} more edits are ignored: the limit is ${MAX_EDITS}`);
  problems.push(...said.slice(0, MAX_PROBLEMS));
  if (said.length > MAX_PROBLEMS) problems.push(`${grouped(said.length - MAX_PROBLEMS)} more problems are not listed`);
  return editsOf([...found.values()].slice(0, MAX_EDITS));
}

/**
 * Return the edits that fit a network and a source of S tokens, and one line for each edit that does not.
 * Positions in the target are checked against the network's max_length, because no target is given.
 * @param {Edits} edits @param {any} config @param {number} [S] @returns {{edits: Edits, problems: string[]}}
 */
export function fitEdits(edits, config, S = Infinity) {
  const judged = entriesOf(edits).map((entry) => ({ entry, problem: problemWith(entry, edits, config, S) }));
  const problems = judged.flatMap(({ problem }) => problem || []);
  let entries = judged.filter(({ problem }) => !problem).map(({ entry }) => entry);
  const isCopy = ([field]) => COPIES.includes(field);
  if (entries.some(isCopy) && !entries.some(([field]) => field === "donor")) {
    entries = entries.filter((entry) => !isCopy(entry));
    if (!edits.donor) problems.push("copies need the pass that they come from: add pass.SOURCE.TARGET");
  }
  return { edits: problems.length ? editsOf(entries) : edits, problems };
}

/** Return the problems of `fitEdits`. @param {Edits} edits @returns {string[]} */
export const checkEdits = (edits, config, S) => fitEdits(edits, config, S).problems;

const COPIES = ["patches", "headPatches"], DONE = { headsOff: "switched off", headsUniform: "made uniform", headsMean: "set to its mean", headPatches: "copied" };

function problemWithDonor(donor, { max_length: most, source_vocab_size, target_vocab_size }) {
  for (const [side, vocabulary] of Object.entries({ source: source_vocab_size, target: target_vocab_size })) {
    const ids = donor[side], highest = Math.max(...ids);
    if (ids.length > most) return `a pass of ${ids.length} ${side} tokens is too long: the limit is ${most}`;
    if (highest >= vocabulary) return `token ${highest} does not exist: the vocabulary ends at ${vocabulary - 1}`;
  }
  return "";
}

function problemWith([field, item], edits, config, S) {
  if (field === "hiddenSource") return item >= S && `position ${item} cannot be hidden: there are ${S} tokens`;
  if (field === "donor") return problemWithDonor(item, config);
  const kind = item.kind ?? item.side;
  if (!kind) return "";
  const { layer, head, query, weights = [] } = item, name = `${kind} layer ${layer ?? "all"}, head ${head ?? "all"}`;
  const layers = kind === "encoder" ? config.num_encoder_layers : config.num_decoder_layers, heads = headsOf(config, kind);
  if (item.side && layer > layers) return `the ${kind} has no state after layer ${layer}: the layers end at ${layers}, and 0 is the embeddings`;
  if (!item.side && (layer >= layers || head >= heads)) {
    const last = `counted from 0, the layers end at ${layers - 1} and the heads at ${heads - 1}`;
    return `${name} cannot be ${DONE[field] ?? "edited"}: ${last}`;
  }
  const keys = weights.flatMap((weight, key) => (weight ? [key] : []));
  const lastKey = field === "rows" && kind !== "decoder" ? keys.at(-1) : item.key;
  const axes = [["position", item.position, kind === "encoder"], ["query", query, kind === "encoder"], ["key", lastKey, kind !== "decoder"]];
  for (const [axis, position, ofSource] of /** @type {[string, number, boolean][]} */ (axes)) {
    const length = ofSource ? S : config.max_length, side = ofSource ? "source" : "target";
    const last = `the ${side} ends at ${length - 1}, counted from 0`;
    if (position >= length) return `${axis} ${position} of ${kind} does not exist: ${last}`;
  }
  if (COPIES.includes(field) && edits.donor) {
    const length = edits.donor[kind === "encoder" ? "source" : "target"].length, place = item.donorPosition ?? item.donorQuery;
    const last = `the other pass ends at ${length - 1}, counted from 0`;
    if (place >= length) return `${item.side ? "position" : "query"} ${place} of ${kind} cannot be copied: ${last}`;
  }
  const vocabulary = config.target_vocab_size, unknown = [item.old, item.new].find((id) => id >= vocabulary);
  if (unknown !== undefined) return `token ${unknown} does not exist: the vocabulary ends at ${vocabulary - 1}`;
  const isOpen = (key) => (kind === "decoder" ? key <= query || !edits.causalMask : !edits.hiddenSource.includes(key));
  const isMasked = field === "rows" && !keys.some(isOpen);
  return isMasked && `the row of ${name}, query ${query} has weight only on masked keys: give some to another key`;
}

/** The edits of one layer's attention, grouped by what they change; null if there are none. @param {Edits} edits */
export function editsAt(edits, kind, layer) {
  const here = (items) => items.filter((one) => one.kind === kind && (one.layer ?? layer) === layer);
  const heads = (items) => here(items).map(({ head }) => head);
  const mean = heads(edits.headsMean), silent = [...heads(edits.headsOff), ...mean], uniform = heads(edits.headsUniform);
  const [temperatures, edges, rows, copied] = [edits.temperatures, edits.edges, edits.rows, edits.headPatches].map(here);
  const changesWeights = [uniform, temperatures, edges, rows].some((found) => found.length);
  return changesWeights || silent.length || copied.length ? { mean, silent, uniform, temperatures, edges, rows, copied, changesWeights } : null;
}

/** Edit the scores of one query in place, before the softmax. A masked score (−∞) stays. */
export function editScores(scores_K, { temperatures, uniform, edges }, head, query) {
  const temperature = temperatures.find((one) => one.head === head)?.value ?? 1;
  const here = edges.filter((one) => (one.head ?? head) === head && (one.query ?? query) === query);
  for (let k = 0; k < scores_K.length; k++) {
    if (scores_K[k] === -Infinity) continue;
    scores_K[k] = uniform.includes(head) ? 0 : scores_K[k] / temperature;
    for (const { key, factor } of here) if ((key ?? k) === k) scores_K[k] += Math.log(factor); // ln 0 = −∞ cuts
  }
}

/** Replace a query's weights by those set by hand, if any, renormalised over its unmasked keys. `columns_K` is negative at a masked key. */
export function editWeights(weights_K, { rows }, head, query, columns_K) {
  const row = rows.find((one) => one.head === head && one.query === query);
  if (!row) return;
  let total = 0;
  for (let k = 0; k < weights_K.length; k++) total += weights_K[k] = columns_K[k] < 0 ? 0 : row.weights[k] ?? 0;
  for (let k = 0; k < weights_K.length; k++) weights_K[k] /= Math.max(total, 1e-12);
}
