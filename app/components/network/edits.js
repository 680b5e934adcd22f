// Interventions on a forward pass: frozen values with the text form of core/record/edits.py, and what they do to weights.

/**
 * `layer`, `head`, `query` and `key` are counted from 0; in an edge, null stands for all of them.
 * @typedef {{kind: string, layer: number, head: number}} Head
 * @typedef {{kind: string, layer: number | null, head: number | null, query: number | null, key: number | null,
 *   factor: number}} Edge  multiplies exp(score) before the softmax; 0 cuts
 * @typedef {Head & {query: number, weights: number[]}} Row  replaces a query's weights
 * @typedef {Head & {value: number}} Temperature  divides the scores of a head
 * @typedef {{scale: number, stretch: number, shift: number, order: number[]}} PositionEdit
 *   replaces PE(p) by scale · PE(stretch · order[p] + shift)
 * @typedef {{causalMask: boolean, paddingMask: boolean, hiddenSource: number[], sourcePositions: PositionEdit,
 *   targetPositions: PositionEdit, headsOff: Head[], headsUniform: Head[], headsMean: Head[], edges: Edge[], rows: Row[],
 *   temperatures: Temperature[]}} Edits
 */

const ATTENTION_KINDS = ["encoder", "decoder", "cross"];
const MAX_EDITS = 200, MAX_FACTOR = 1e6, MAX_INDEX = 9999, MAX_ROW = 512;
const MAX_TEXT = 1 << 20, MAX_PARTS = 2000, MAX_PROBLEMS = 20; // characters; edits parsed and lines reported per text
const OWN_POSITIONS = Object.freeze({ scale: 1, stretch: 1, shift: 0, order: Object.freeze([]) });
const NEUTRAL = {
  causalMask: true, paddingMask: true, hiddenSource: [], sourcePositions: OWN_POSITIONS, targetPositions: OWN_POSITIONS,
  headsOff: [], headsUniform: [], headsMean: [], edges: [], rows: [], temperatures: [],
};

/** No interventions. @type {Edits} */
export const NO_EDITS = Object.freeze(mapValues(NEUTRAL, (value) => (Array.isArray(value) ? Object.freeze([]) : value)));

function mapValues(object, change) {
  return /** @type {any} */ (Object.fromEntries(Object.entries(object).map(([name, value]) => [name, change(value, name)])));
}

const grouped = (number) => number.toLocaleString("en-US", { maximumFractionDigits: 6 });
const editName = ({ kind, layer, head }) => `${kind} layer ${layer ?? "all"}, head ${head ?? "all"}`;
/* Sorts by kind, then by number, with "all" first; of two edits with the same place, only one can hold. */
const placeOfEdit = (item) =>
  typeof item === "number"
    ? [item]
    : [ATTENTION_KINDS.indexOf(item.kind), ...[item.layer, item.head, item.query, item.key].map((n) => (n === null ? -1 : n ?? 0))];
const byPlace = (one, other) => {
  const [a, b] = [placeOfEdit(one), placeOfEdit(other)], at = a.findIndex((n, i) => n !== b[i]);
  return at < 0 ? 0 : a[at] - b[at];
};

/* [field, item] of each edit, in the order of the text form. */
const entriesOf = (/** @type {Edits} */ edits) =>
  Object.entries(edits).flatMap(([field, value]) =>
    Array.isArray(value) ? value.map((item) => [field, item]) : value === NEUTRAL[field] ? [] : [[field, value]],
  );

function fromEntries(entries) {
  const found = mapValues(NEUTRAL, (value) => (Array.isArray(value) ? [] : value));
  for (const [field, value] of entries) {
    if (Array.isArray(found[field])) found[field].push(value);
    else found[field] = value;
  }
  return Object.freeze(mapValues(found, (value) => (Array.isArray(value) ? Object.freeze(value.sort(byPlace)) : value)));
}

/** Return each edit by itself, in the order of the text form. @param {Edits} edits @returns {Edits[]} */
export const listEdits = (edits) => entriesOf(edits).map((entry) => fromEntries([entry]));

/** Encode as one line of letters, digits and `. - _ ~`, such as `off.cross.2.0~hide.3`. @param {Edits} edits */
export const editsText = (edits) => entriesOf(edits).map(([field, item]) => WRITTEN[field](item)).join("~");

const all = (index) => index ?? "all";
const at = ({ kind, layer, head }) => `${kind}.${layer}.${head}`;
const positionsText = (side, edit) => {
  const parts = ["scale", "stretch", "shift"].filter((name) => edit[name] !== OWN_POSITIONS[name]);
  const words = parts.map((name) => `${name}-${edit[name]}`);
  return `positions.${side}.${[...words, ...(edit.order.length ? [`order-${edit.order.join("-")}`] : [])].join("_")}`;
};
const WRITTEN = {
  causalMask: () => "causal",
  paddingMask: () => "padding",
  hiddenSource: (position) => `hide.${position}`,
  sourcePositions: (edit) => positionsText("source", edit),
  targetPositions: (edit) => positionsText("target", edit),
  headsOff: (head) => `off.${at(head)}`,
  headsUniform: (head) => `uniform.${at(head)}`,
  headsMean: (head) => `mean.${at(head)}`,
  edges({ kind, layer, head, query, key, factor }) {
    const where = [kind, ...[layer, head, query, key].map(all)].join(".");
    return factor ? `times.${where}.${factor}` : `cut.${where}`;
  },
  rows: (row) => `row.${at(row)}.${row.query}.${row.weights.join("-")}`,
  temperatures: (one) => `temp.${at(one)}.${one.value}`,
};

const HEAD_PATTERN = `(${ATTENTION_KINDS.join("|")})\\.(\\d{1,5})\\.(\\d{1,5})`, DECIMAL = "\\d{1,7}(?:\\.\\d{1,30})?";
const WIDE = `(${ATTENTION_KINDS.join("|")})${"\\.(\\d{1,5}|all|\\*)".repeat(4)}`;
const HEAD_FIELDS = { off: "headsOff", uniform: "headsUniform", mean: "headsMean" };
/* Pattern of each edit, and how its groups become a field and an item; an item of null has no effect. */
const PARSED = [
  ["(causal|padding)", (mask) => [`${mask}Mask`, false]],
  ["hide\\.(\\d{1,5})", (position) => ["hiddenSource", Number(position)]],
  [
    `positions\\.(source|target)\\.(?:scale-(-?${DECIMAL}))?_?(?:stretch-(-?\\d{1,7}))?_?(?:shift-(-?\\d{1,7}))?_?` +
      "(?:order-(\\d{1,3}(?:-\\d{1,3})*))?",
    (side, ...values) => [`${side}Positions`, positionEdit(...values)],
  ],
  [`(off|uniform|mean)\\.${HEAD_PATTERN}`, (word, ...where) => [HEAD_FIELDS[word], headOf(...where)]],
  [`cut\\.${WIDE}`, (...where) => ["edges", edgeOf(...where, 0)]],
  [`times\\.${WIDE}\\.(${DECIMAL})`, (...where) => ["edges", edgeOf(...where)]],
  [
    `row\\.${HEAD_PATTERN}\\.(\\d{1,5})\\.(${DECIMAL}(?:-${DECIMAL})*)`,
    (kind, layer, head, query, weights) => ["rows", rowOf(headOf(kind, layer, head), query, weights.split("-").map(Number))],
  ],
  [`temp\\.${HEAD_PATTERN}\\.(${DECIMAL})`, (kind, layer, head, value) => ["temperatures", temperatureOf(headOf(kind, layer, head), value)]],
].map(([form, build]) => ({ form: new RegExp(`^${form}$`), build: /** @type {any} */ (build) }));

class EditError extends Error {}

function refuse(wrong, message) {
  if (wrong) throw new EditError(message);
}

function indexOfEdit(name, text) {
  const value = text === "all" || text === "*" ? null : Number(text);
  refuse(value > MAX_INDEX, `${name} ${value} must be counted from 0 to ${grouped(MAX_INDEX)}`);
  return value;
}

function headOf(kind, layer, head) {
  return Object.freeze({ kind, layer: indexOfEdit("layer", layer), head: indexOfEdit("head", head) });
}

function edgeOf(kind, layer, head, query, key, text) {
  const factor = Number(text), [least, most] = [1 / MAX_FACTOR, MAX_FACTOR];
  const places = { query: indexOfEdit("query", query), key: indexOfEdit("key", key) };
  const range = `choose 0 to cut it, or a factor from ${least} to ${grouped(most)}`;
  refuse(factor > most || (factor > 0 && factor < least), `an edge cannot be multiplied by ${factor}: ${range}`);
  return factor === 1 ? null : Object.freeze({ ...headOf(kind, layer, head), ...places, factor });
}

function rowOf(head, query, weights) {
  refuse(weights.length > MAX_ROW, `a row has ${weights.length} weights: give 1 to ${MAX_ROW}`);
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const rule = "none may be negative or NaN, and one must be above 0";
  refuse(!total || weights.some((weight) => weight > MAX_FACTOR), `a row cannot have these weights: ${rule}`);
  const share = Math.abs(total - 1) > 5e-7 * weights.length + 1e-12 ? total : 1; // beyond rounding to six decimals
  const rounded = weights.map((weight) => Number((weight / share).toFixed(6)));
  return Object.freeze({ ...head, query: indexOfEdit("query", query), weights: Object.freeze(rounded) });
}

function temperatureOf(head, text) {
  const value = Number(text);
  refuse(value < 0.01 || value > 100, `a temperature of ${value} is out of range: choose 0.01 to 100`);
  return value === 1 ? null : Object.freeze({ ...head, value });
}

function positionEdit(scale, stretch, shift, order) {
  const edit = { scale: Number(scale ?? 1), stretch: Number(stretch ?? 1), shift: Number(shift ?? 0), order: [] };
  if (order) edit.order = order.split("-").map(Number);
  const isOrder = edit.order.toSorted((a, b) => a - b).every((place, i) => place === i);
  const last = edit.order.length - 1;
  refuse(!isOrder, `(${edit.order.join(", ")}) is not a permutation of the positions 0 to ${last}`);
  for (const [name, limit] of Object.entries({ scale: 1000, stretch: 1000, shift: 1e6 })) {
    const range = `choose from −${grouped(limit)} to ${grouped(limit)}`;
    refuse(Math.abs(edit[name]) > limit, `a position ${name} of ${edit[name]} is out of range: ${range}`);
  }
  edit.scale = Number(edit.scale.toFixed(6));
  const isOwn = edit.scale === 1 && edit.stretch === 1 && edit.shift === 0 && !order;
  return isOwn ? null : Object.freeze({ ...edit, order: Object.freeze(edit.order) });
}

/**
 * Parse the text form: up to 200 valid edits. One line per rejected part is added to `problems`.
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
    const ignored = (reason) => said.push(`'${part.length <= 40 ? part : `${part.slice(0, 39)}…`}' is ignored: ${reason}`);
    try {
      const match = PARSED.map(({ form, build }) => ({ build, groups: form.exec(part) })).find(({ groups }) => groups);
      refuse(!match, "unknown syntax");
      const [field, item] = match.build(...match.groups.slice(1));
      if (item === null) continue;
      const of = field === "headsMean" ? "headsOff" : field;
      const target = [of, ...(Array.isArray(NEUTRAL[field]) ? placeOfEdit(item) : [])].join();
      if (found.has(target)) ignored("it conflicts with an earlier edit");
      else found.set(target, [field, item]);
    } catch (error) {
      if (!(error instanceof EditError)) throw error;
      ignored(error.message);
    }
  }
  const more = found.size - MAX_EDITS;
  if (more > 0) said.push(`${grouped(more)} more edits are ignored: the limit is ${MAX_EDITS}`);
  problems.push(...said.slice(0, MAX_PROBLEMS));
  if (said.length > MAX_PROBLEMS) problems.push(`${grouped(said.length - MAX_PROBLEMS)} more parts are ignored`);
  return found.size ? fromEntries([...found.values()].slice(0, MAX_EDITS)) : NO_EDITS;
}

/**
 * Return the edits that a network and a source of S tokens allow, and one line for each that they do not.
 *
 * Target positions are limited by the network alone: an edit at one that a translation does not reach has no effect.
 * @param {Edits} edits @param {any} config @param {number} [S] @returns {{edits: Edits, problems: string[]}}
 */
export function fitEdits(edits, config, S = Infinity) {
  const problems = [], kept = [];
  for (const entry of entriesOf(edits)) {
    const problem = problemWith(entry, edits, config, S);
    if (problem) problems.push(problem);
    else kept.push(entry);
  }
  return { edits: problems.length ? (kept.length ? fromEntries(kept) : NO_EDITS) : edits, problems };
}

/** Return one line for each edit that does not fit, see `fitEdits`. @param {Edits} edits @returns {string[]} */
export const checkEdits = (edits, config, S) => fitEdits(edits, config, S).problems;

const DONE = { headsOff: "switched off", headsUniform: "made uniform", headsMean: "set to its mean" };

function problemWith([field, item], edits, config, S) {
  if (field === "hiddenSource") return item >= S && `position ${item} cannot be hidden: there are ${S} tokens`;
  if (!item.kind) return "";
  const layers = item.kind === "encoder" ? config.num_encoder_layers : config.num_decoder_layers, heads = config.num_heads;
  if ((item.layer ?? 0) >= layers || (item.head ?? 0) >= heads) {
    const last = `counted from 0, the layers end at ${layers - 1} and the heads at ${heads - 1}`;
    return `${editName(item)} cannot be ${DONE[field] ?? "edited"}: ${last}`;
  }
  const isOpen = (key) => (item.kind === "decoder" ? key <= item.query || !edits.causalMask : !edits.hiddenSource.includes(key));
  const keys = field === "rows" ? item.weights.flatMap((weight, key) => (weight ? [key] : [])) : [];
  const lastKey = field === "rows" ? (item.kind === "decoder" ? null : keys.at(-1)) : item.key;
  for (const [name, position] of [["query", item.query], ["key", lastKey]]) {
    const ofSource = item.kind === "encoder" || (item.kind === "cross" && name === "key");
    const length = ofSource ? S : config.max_length;
    if (position != null && position >= length)
      return `${name} ${position} of ${item.kind} does not exist: the ${ofSource ? "source" : "target"} ends at ${length - 1}, from 0`;
  }
  const masked = field === "rows" && !keys.some(isOpen);
  return masked && `the row of ${editName(item)}, query ${item.query} has weight only on masked keys: give some to another key`;
}

/**
 * The edits of one attention, or null if there are none.
 * @typedef {{off: Set<number>, mean: Set<number>, uniform: Set<number>, temperatures: Temperature[], edges: Edge[],
 *   rows: Row[]}} SiteEdits
 * @param {Edits} edits @returns {SiteEdits | null}
 */
export function editsAt(edits, kind, layer) {
  const here = (items) => items.filter((one) => one.kind === kind && (one.layer ?? layer) === layer);
  const heads = (items) => new Set(here(items).map(({ head }) => head));
  const site = {
    off: heads(edits.headsOff), mean: heads(edits.headsMean), uniform: heads(edits.headsUniform),
    temperatures: here(edits.temperatures), edges: here(edits.edges), rows: here(edits.rows),
  };
  return Object.values(site).some((found) => ("size" in found ? found.size : found.length)) ? site : null;
}

/** Edit the scores of one query in place, before the softmax; −∞ (masked) stays. @param {SiteEdits} site */
export function editScores(scores_K, site, head, query) {
  const temperature = site.temperatures.find((one) => one.head === head)?.value ?? 1;
  const uniform = site.uniform.has(head);
  const edges = site.edges.filter((one) => (one.head ?? head) === head && (one.query ?? query) === query);
  for (let k = 0; k < scores_K.length; k++) {
    if (scores_K[k] === -Infinity) continue;
    scores_K[k] = uniform ? 0 : scores_K[k] / temperature;
    for (const { key, factor } of edges) if ((key ?? k) === k) scores_K[k] += Math.log(factor); // ln 0 = −∞ cuts
  }
}

/** Replace the weights of a query set by hand, renormalised over its unmasked keys. @param {SiteEdits} site */
export function editWeights(weights_K, columns_K, site, head, query) {
  const row = site.rows.find((one) => one.head === head && one.query === query);
  if (!row) return;
  let total = 0;
  for (let k = 0; k < weights_K.length; k++) total += weights_K[k] = columns_K[k] < 0 ? 0 : row.weights[k] ?? 0;
  for (let k = 0; k < weights_K.length; k++) weights_K[k] /= Math.max(total, 1e-12);
}
