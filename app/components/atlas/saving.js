// Saves the pictures, and their numbers as CSV.

import { csvOf, quoted, shortest } from "../shared/csv.js";
import { element } from "../shared/dom.js";
import { savePicture, withCaption, withTitle } from "../shared/picture_files.js";
import { save } from "../shared/save.js";
import { fillSaves } from "../shared/saves.js";
import { counted, fullName, headName, profileOf } from "./data.js";
import { rolesOf } from "./roles.js";

const number = (value) => (value === null || !Number.isFinite(value) ? "" : shortest(value));

/* Network, weights and corpus. */
function source({ origin, network }) {
  return `${network}, weights ${origin.weights_sha256.slice(0, 8)}; ${counted(origin.sentences, "sentence")} of ${origin.corpus}`;
}

/* The first cell of each CSV file describes the file. */
const about = ({ data }, title) => quoted([title, source(data), data.origin.command].filter(Boolean).join("; "));

const headCells = (data, n) => {
  const { kind, layer, head } = data.places[n];
  return [kind, layer, head];
};

function measuresCsv(view, title, measures) {
  const { data } = view;
  const columns = measures.flatMap(({ key }) => [key, `${key} low`, `${key} high`]).map(quoted);
  const lines = data.places.map((_, n) => ["", ...headCells(data, n), ...measures.flatMap(({ values }) => [...values.subarray(3 * n, 3 * n + 3)].map(number))]);
  const where = `in atlas.npz: ${measures.map((measure) => measure.where).join(", ")}`;
  return csvOf([[about(view, `${title}; ${where}`), "kind", "layer", "head", ...columns], ...lines]);
}

/** Title and CSV of a picture. @type {Record<string, {title: (view: AtlasView) => string, csv: (view: AtlasView) => Blob}>} */
export const PICTURES = {
  heads: {
    title: ({ data, chosen }) => `All heads: ${data.byKey[chosen.measure].label}`,
    csv: (view) => measuresCsv(view, "all measures of all heads, with 95 % intervals; layers and heads count from 0", view.data.measures),
  },
  scatter: {
    title: ({ data, chosen }) => `${data.byKey[chosen.y].label} against ${data.byKey[chosen.x].label}`,
    csv: (view) => measuresCsv(view, "two measures of all heads, with 95 % intervals; layers and heads count from 0", [view.chosen.x, view.chosen.y].map((key) => view.data.byKey[key])),
  },
  roles: {
    title: ({ data, chosen }) => `Roles: ${fullName(data, chosen.head)}`,
    csv: (view) => {
      const rows = rolesOf(view.data, view.chosen.head);
      const lines = rows.map(({ name, score, low, high, shuffled, random, profile, rows: part, isLabel }) => ["", quoted(name), ...[score, low, high, shuffled, random, profile, part].map(number), isLabel]);
      return csvOf([[about(view, `roles of ${headName(view.data, view.chosen.head)}; in atlas.npz: role_${view.data.places[view.chosen.head].kind}`), "role", "score", "low", "high", quoted("shuffled rows"), quoted("random networks"), quoted("distances only"), quoted("part of rows"), "label"], ...lines]);
    },
  },
  distance: {
    title: ({ data, chosen }) => `Attention by distance: ${fullName(data, chosen.head)}`,
    csv: (view) => {
      const lines = [...profileOf(view.data, view.chosen.head)].map((share, at) => ["", view.data.distances[at], number(share)]);
      return csvOf([[about(view, `mean weight by distance of ${headName(view.data, view.chosen.head)}; the first and last rows include all larger distances; in atlas.npz: distance[${view.chosen.head}]`), "distance", "weight"], ...lines]);
    },
  },
  pruning: {
    title: ({ chosen }) => `${chosen.curve === "loss" ? "Loss" : "BLEU"} after removing heads, least needed first`,
    csv: (view) => {
      const { data, chosen } = view;
      const lines = data.pruning.flatMap((curve) =>
        (curve[chosen.curve] ?? []).map((point, count) => ["", quoted(curve.kind), count, count ? quoted(headName(data, curve.order[count - 1])) : "", ...point.map(number)]),
      );
      return csvOf([[about(view, `pruning curves with 95 % intervals; in atlas.npz: prune_…_order, prune_…_${chosen.curve}`), "order", "removed", quoted("last removed (from 1)"), chosen.curve, "low", "high"], ...lines]);
    },
  },
};

/** Add a save menu to each picture; `drawn` returns the picture's size and its drawing function. */
export function addSaves(view, drawn) {
  for (const figure of view.root.querySelectorAll("[data-picture]")) {
    const name = figure.dataset.picture;
    const heading = figure.querySelector("h2, h3");
    const menu = element("details", "saves");
    fillSaves(menu, heading.textContent, (ending, captioned) => saveFile(view, name, ending, captioned, drawn(view, name)), `${name} `);
    heading.after(menu);
  }
}

/** @param {AtlasView} view */
function saveFile(view, name, ending, captioned, { width, height, draw }) {
  const { data, theme } = view;
  const { origin } = data;
  const { title, csv } = PICTURES[name];
  const head = name === "roles" || name === "distance" ? `_${headName(data, view.chosen.head).replace(" ", "_")}` : "";
  const file = `headlight_${origin.checkpoint}_${name}${head}`;
  if (ending === "csv") return save(`${file}.csv`, csv(view));
  const picture = { theme, title: title(view), about: source(data), width, height, draw };
  return savePicture(file, ending, withTitle(captioned ? withCaption(picture, `${picture.title}. ${picture.about}.`) : picture, { margin: 16, above: 28, style: { size: 14, weight: 600 } }));
}
