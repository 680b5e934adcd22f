// What the edits of a pass change, for the places where one looks: a head's thumbnail and title, a map's cells, a word.

/**
 * @typedef {{what: string, kind: string, layer: number | null, head: number | null, query: number | null,
 *   key: number | null, value: string, text: string, label: string}} Edit  null: all of them
 */

/** @type {WeakMap<object, Edit[]>} */
const parsed = new WeakMap();

/** The edits of a record, without the pass that copies come from, from their text form: see core/record/edits.py. @param {Readonly<RecordData>} data @returns {Edit[]} */
export function editsOf({ whatIf }) {
  if (!whatIf) return [];
  if (!parsed.has(whatIf)) parsed.set(whatIf, whatIf.edits.map(parse).filter(({ what }) => what !== "pass"));
  return parsed.get(whatIf);
}

/** @param {{text: string, label: string}} edit @returns {Edit} */
function parse({ text, label }) {
  const [what, kind = "", ...places] = text.split(".");
  const [layer = null, head = null, query = null, key = null] = places.map((place) => (/^\d+$/.test(place) ? Number(place) : null));
  const named = { what, kind, layer, head, query, key, value: "", text, label };
  if (what === "hide") return { ...named, kind: "", key: Number(kind) };
  return what === "temp" ? { ...named, query: null, key: null, value: places.slice(2).join(".") } : named;
}

/*
 * How a head is edited: the mark in its title, its note and, if its weights no longer say much, a caption as `meaning` and
 * `word`. The weights of an `unused` head do not reach its output.
 */
const HEADS = {
  off: () => ({ title: "off", note: "Off: its weights add nothing.", meaning: "switched", word: "off", unused: true }),
  mean: () => ({
    title: "output set to its average",
    note: "Its output is its average over sample sentences, whatever its weights.",
    meaning: "output set to its",
    word: "average",
    unused: true,
  }),
  uniform: () => ({ title: "weights set equal", note: "Each row gives the same weight to every key that is not masked.", meaning: "weights set", word: "equal" }),
  temp: ({ value }) => ({
    title: Number(value) < 1 ? "sharpened" : "flattened",
    note: `Its scores are divided by ${value} before the softmax.`,
  }),
  cut: ({ label }) => ({ title: "edge cut", note: `Edited: ${label}.` }),
  times: ({ label }) => ({ title: "edge strengthened", note: `Edited: ${label}.` }),
  row: ({ label }) => ({ title: "row drawn by hand", note: `Edited: ${label}.` }),
  copyhead: ({ label }) => ({ title: "output copied", note: `Edited: ${label}.` }),
};

/**
 * What the edits make of one head; null if they do not change this head itself.
 * @param {Readonly<RecordData>} data
 * @returns {HeadEdit | null}
 */
export function headEdit(data, kind, layer, head) {
  if (layer >= data.layers[kind] || head >= data.headsOf[kind]) return null;
  const own = editsOf(data).filter((edit) => edit.what in HEADS && isOf(edit, kind, layer, head));
  if (!own.length) return null;
  const first = own.find(({ what }) => what === "off" || what === "mean") ?? own[0];
  const made = { meaning: "", word: "", unused: false, cross: first.what === "off", ...HEADS[first.what](first) };
  return own.length > 1 && !made.unused ? { ...made, title: `${made.title}, ${own.length - 1} more` } : made;
}

const isOf = (edit, kind, layer, head) => edit.kind === kind && [null, layer].includes(edit.layer) && [null, head].includes(edit.head);

/** Marks for a pass that is edited as a whole. */
const PASSES = { hide: "word hidden", causal: "no causal mask", padding: "no padding mask" };

/**
 * The words for the shown map: a mark for its title, and a note. Both are empty if the pass is not edited.
 * @param {Readonly<RecordData>} data @param {View} view
 */
export function editWords(data, { kind, layer, head }) {
  const edits = editsOf(data);
  const own = headEdit(data, kind, layer, head);
  if (own) return own;
  if (!edits.length) return { title: "", note: "" };
  const here = edits.filter(({ what }) => (what === "causal" ? kind === "decoder" : what in PASSES && kind !== "decoder"));
  const [first, ...more] = here.length ? here : edits;
  return {
    title: here.length ? PASSES[first.what] : "",
    note: `Edited: ${first.label}${more.length ? `, and ${more.length} more` : ""}.`,
  };
}

/** Source tokens that an edit hides. @param {Readonly<RecordData>} data */
export const hiddenWords = (data) => editsOf(data).flatMap(({ what, key }) => (what === "hide" ? [key] : []));

/**
 * Cells and rows of a head's map that the edits set: `cells` are [query, key, whether it is cut].
 * @param {Readonly<RecordData>} data @param {AttentionMap} map
 * @returns {{cells: [number, number, boolean][], rows: number[]}}
 */
export function editedCells(data, map, layer, head) {
  const own = editsOf(data).filter((edit) => isOf(edit, map.kind, layer, head));
  const placesOf = (items, token) => items.flatMap(({ members }, place) => (token === null || members.includes(token) ? [place] : []));
  const cells = own.flatMap(({ what, query, key }) =>
    what === "cut" || what === "times"
      ? placesOf(map.rows, query).flatMap((row) => placesOf(map.columns, key).map((column) => /** @type {[number, number, boolean]} */ ([row, column, what === "cut"])))
      : [],
  );
  return {
    cells: cells.filter(([query, key]) => map.unmasked[query * map.keys + key]),
    rows: own.flatMap(({ what, query }) => (what === "row" ? placesOf(map.rows, query) : [])),
  };
}

/*
 * The order in which attention is computed: the encoder, then per layer the decoder's own and the cross-attention. Edits of
 * the source or the masks come before all of it.
 */
const stageOf = (kind, layer) => (kind === "encoder" ? layer : kind in STAGES ? 10_000 + 2 * layer + STAGES[kind] : -1);
const STAGES = { decoder: 0, cross: 1 };

/* A state is read by its side's next layer, which the edit's number names when counted from 0. */
function firstStage({ what, kind, layer }) {
  const isState = ["copy", "push", "pushrandom"].includes(what);
  return stageOf(what === "causal" || kind === "target" ? "decoder" : kind, layer ?? 0) - Number(isState);
}

/**
 * The heads of a kind that come after the first edited place and are themselves in use, as [layer, head].
 * @param {Readonly<RecordData>} data
 * @returns {[number, number][]}
 */
export function laterHeads(data, kind) {
  const first = Math.min(...editsOf(data).map(firstStage));
  return [...Array(data.layers[kind]).keys()]
    .filter((layer) => stageOf(kind, layer) > first)
    .flatMap((layer) => [...Array(data.headsOf[kind]).keys()].map((head) => /** @type {[number, number]} */ ([layer, head])))
    .filter(([layer, head]) => !headEdit(data, kind, layer, head)?.unused);
}

/**
 * The key that a row looked at most before the edits, and the one that it looks at now; null if that is not known.
 * @param {Readonly<RecordData>} data
 */
export function lookOf(data, kind, layer, head, query) {
  const keys = data.lookedAt?.[kind];
  if (!keys || layer >= data.layers[kind] || head >= data.headsOf[kind]) return null;
  const half = keys.length / 2;
  const place = (layer * data.headsOf[kind] + head) * (half / (data.layers[kind] * data.headsOf[kind])) + query;
  return { before: keys[place], now: keys[half + place] };
}
