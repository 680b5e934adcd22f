// In a fold, shows the chosen head's measures as a tall tick among short ticks for all heads of its kind.

import { element } from "../shared/dom.js";
import { fixed, percent } from "../shared/numbers.js";
import { drawBox, prepareCanvas } from "../shared/plot.js";
import { measuredMap, measuresOf } from "./captions.js";
import { KINDS } from "./data.js";
import { explain } from "./help.js";
import { ROLLOUT } from "./maps.js";
import { measure, ROLE_PLACES, rolePlaces } from "./measures.js";
import { mapTitle, measuredFigure } from "./words.js";

const shownShare = (value, _most, { error }) => percent(value, error);

const STATISTICS = [
  { label: "mean largest weight", about: "largest", of: ({ peak }) => peak, shown: shownShare, scale: () => 1 },
  {
    label: "entropy",
    about: "entropy",
    of: ({ meanEntropy }) => meanEntropy,
    shown: (bits, most, map) => `${measuredFigure(map, bits)} of ${fixed(most, 1)} bits`,
    scale: (map) => Math.log2(Math.max(2, map.keys)),
  },
  { label: "distance", about: "distance", of: ({ distance }) => distance, shown: (tokens, _most, map) => `${measuredFigure(map, tokens)} tokens` },
  { label: "on the previous token", role: "prev" },
  { label: "on the token 2 back", role: "second" },
  { label: "on itself", role: "self" },
  { label: "on the next token", role: "next" },
  { label: "attention to <bos>", about: "bos", role: "bos" },
  { label: "attention to <eos>", about: "eos", role: "eos" },
].map((line) =>
  line.role ? { ...line, of: ({ roles }) => roles[line.role] ?? 0, shown: shownShare, scale: () => 1 } : line,
);

function statisticsOf(kind, places = ROLE_PLACES[kind]) {
  const label = (line) => (kind === "cross" && line.label === "distance" ? { ...line, label: "off the diagonal", about: "diagonal" } : line);
  return STATISTICS.filter(({ role }) => !role || role in places).map(label);
}

/**
 * Kinds have different rows; reserve space for the longest list. One canvas holds all ticks.
 * @param {Explorer} explorer
 */
export function buildStatistics(explorer) {
  const { parts } = explorer.dom;
  const most = Math.max(...KINDS.map((kind) => statisticsOf(kind).length));
  parts.statistics.replaceChildren(...[...Array(most)].map(emptyLine));
}

function emptyLine() {
  const line = element("div", "statistic");
  line.append(element("dt"), element("dd", "value numbers"));
  return line;
}

const STATISTIC_HEIGHT = 22;

/** @param {Explorer} explorer */
export function paintStatistics(explorer) {
  const { data, theme } = explorer;
  const { kind, layer, head, quantity } = explorer.view;
  const { parts } = explorer.dom;
  parts["statistics-title"].textContent = mapTitle(explorer.data, explorer.view);
  if (!parts["numbers-fold"].open) return;
  explorer.layout.tickWidth ||= parts.ticks.clientWidth;
  const heads = quantity === ROLLOUT ? [data.heads] : [...Array(data.headsOf[kind]).keys()];
  const all = [...Array(data.layers[kind]).keys()].flatMap((l) => heads.map((h) => measuresOf(explorer, l, h)));
  const map = measuredMap(explorer, layer, head);
  const statistics = statisticsOf(kind, rolePlaces(map));
  const lines = map.sumsToOne ? statistics : statistics.slice(0, 1);
  while (parts.statistics.children.length < lines.length) parts.statistics.append(emptyLine());
  const what = quantity === ROLLOUT ? "maps of this sentence" : `${kind === "cross" ? "cross-attention" : kind} heads`;
  parts["statistics-note"].textContent = `Each short tick is one of the ${all.length} ${what}; the tall tick is the chosen map.`;
  const rows = [...parts.statistics.children];
  const context = prepareCanvas(parts.ticks, explorer.layout.tickWidth, STATISTIC_HEIGHT * rows.length);
  rows.forEach((row, index) => {
    const line = lines[index];
    row.classList.toggle("missing", !line);
    if (!line) return;
    const values = all.map(line.of);
    const value = line.of(measure(map));
    const most = line.scale?.(map) ?? Math.max(...values, 1);
    row.children[0].textContent = line.label;
    explain(explorer, row, line.about ?? "place");
    row.children[1].textContent = line.shown(value, most, map);
    drawTicks(context, theme, explorer.layout.tickWidth, STATISTIC_HEIGHT * index, values, value, most);
  });
}

/** @param {Drawing} context @param {Theme} theme */
function drawTicks(context, theme, width, top, values, value, most) {
  const x = (v) => 3 + ((width - 6) * v) / most;
  drawBox(context, theme.line, 3, top + 19, width - 6, 1);
  for (const v of values) drawBox(context, theme.ink3, x(v) - 0.5, top + 12, 1, 7);
  drawBox(context, theme.ink, x(value) - 1.5, top + 5, 3, 15);
}
