// Holds what is looked at: the kept cell, and the cell under the pointer or keyboard, which goes before it.

const NOTHING = Object.freeze({ query: null, key: null });

/* `explorer.preview.note`, if any, names a word that the chosen kind of attention cannot see. */
function focusOf(explorer) {
  const { preview, kept } = explorer;
  const previewed = preview.query !== null || preview.key !== null;
  const { query, key } = previewed ? preview : kept;
  return { query, key, previewed };
}

const currentMap = (explorer) => attentionMap(explorer.data, explorer.kind, explorer.layer, explorer.head);
const isKept = (explorer) => explorer.kept.query !== null || explorer.kept.key !== null;

function showPreview(explorer, query, key, note = null) {
  const { preview } = explorer;
  if (preview.query === query && preview.key === key && preview.note === note) return;
  explorer.preview = { query, key, note };
  paintFocus(explorer);
}

const endPreview = (explorer) => showPreview(explorer, null, null);

/* Keeping what is already kept lets go of it. */
function keep(explorer, query, key) {
  const same = explorer.kept.query === query && explorer.kept.key === key;
  explorer.kept = same ? NOTHING : { query, key };
  explorer.preview = { ...NOTHING, note: null };
  paintFocus(explorer);
}

function letGo(explorer) {
  explorer.kept = NOTHING;
  explorer.preview = { ...NOTHING, note: null };
  paintFocus(explorer);
}

/*
 * Which row or column a word stands for. The target row shows <bos> first, so its word d is produced by row d - 1.
 * Returns {query, key} or {note} where the chosen kind never looks at this word.
 */
function focusOfWord(kind, side, index) {
  if (side === "source") {
    if (kind === "encoder") return { query: index, key: null };
    return kind === "cross" ? { query: null, key: index } : { note: "source" };
  }
  if (kind === "encoder") return { note: "target" };
  if (index > 0) return { query: index - 1, key: null };
  return kind === "decoder" ? { query: null, key: 0 } : { note: "first" };
}

/* Where a map's row or column stands in the sentence rows: the reverse of `focusOfWord`. */
const wordOfQuery = (kind, query) =>
  kind === "encoder" ? { side: "source", index: query } : { side: "target", index: query + 1 };
const wordOfKey = (kind, key) => ({ side: kind === "decoder" ? "target" : "source", index: key });
