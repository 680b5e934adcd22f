// Saves the pictures as PNG or SVG, and their numbers as CSV.

import { csvOf, quoted, shortest } from "../shared/csv.js";
import { element } from "../shared/dom.js";
import { drawText } from "../shared/grid.js";
import { save } from "../shared/save.js";
import { SvgContext } from "../shared/svg.js";
import { counted, fullName, headName, profileOf } from "./data.js";
import { rolesOf } from "./roles.js";

const MARGIN = 16;

const TITLE_HEIGHT = 28;

const PNG_SCALE = 2;

const number = (value) => (value === null || !Number.isFinite(value) ? "" : shortest(value));

/* The first cell of each CSV file describes the file. */
function about({ data }, title) {
  const { origin, network } = data;
  return quoted([title, `${network}, weights ${origin.weights_sha256.slice(0, 8)}`, `${counted(origin.sentences, "sentence")} of ${origin.corpus}`, origin.command].filter(Boolean).join("; "));
}

const headCells = (data, n) => {
  const { kind, layer, head } = data.places[n];
  return [kind, layer, head];
};

function measuresCsv(view, title, measures) {
  const { data } = view;
  const columns = measures.flatMap(({ key }) => [key, `${key} low`, `${key} high`]).map(quoted);
  const lines = data.places.map((_, n) => ["", ...headCells(data, n), ...measures.flatMap(({ values }) => [...values.subarray(3 * n, 3 * n + 3)].map(number))]);
  return csvOf([[about(view, title), "kind", "layer", "head", ...columns], ...lines]);
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
      return csvOf([[about(view, `roles of ${headName(view.data, view.chosen.head)}`), "role", "score", "low", "high", quoted("shuffled rows"), quoted("random networks"), quoted("distances only"), quoted("part of rows"), "label"], ...lines]);
    },
  },
  distance: {
    title: ({ data, chosen }) => `Attention by distance: ${fullName(data, chosen.head)}`,
    csv: (view) => {
      const lines = [...profileOf(view.data, view.chosen.head)].map((share, at) => ["", view.data.distances[at], number(share)]);
      return csvOf([[about(view, `mean weight by distance of ${headName(view.data, view.chosen.head)}; the first and last rows include all larger distances`), "distance", "weight"], ...lines]);
    },
  },
  pruning: {
    title: ({ chosen }) => `${chosen.curve === "loss" ? "Loss" : "BLEU"} after removing heads, least needed first`,
    csv: (view) => {
      const { data, chosen } = view;
      const lines = data.pruning.flatMap((curve) =>
        (curve[chosen.curve] ?? []).map((point, count) => ["", quoted(curve.kind), count, count ? quoted(headName(data, curve.order[count - 1])) : "", ...point.map(number)]),
      );
      return csvOf([[about(view, "pruning curves with 95 % intervals"), "order", "removed", quoted("last removed (from 1)"), chosen.curve, "low", "high"], ...lines]);
    },
  },
};

/** Add save buttons to each picture; `drawn` returns the picture's size and its drawing function. */
export function addSaves(view, drawn) {
  for (const figure of view.root.querySelectorAll("[data-picture]")) {
    const name = figure.dataset.picture;
    const group = element("div", "saves");
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", `Save: ${figure.querySelector("h2, h3").textContent}`);
    for (const ending of ["png", "svg", "csv"]) {
      const button = element("button", "", ending.toUpperCase());
      button.type = "button";
      button.dataset.save = `${name} ${ending}`;
      button.addEventListener("click", () => savePicture(view, name, ending, drawn(view, name)));
      group.append(button);
    }
    figure.querySelector("h2, h3").after(group);
  }
}

async function savePicture(view, name, ending, picture) {
  const make = { png: asPng, svg: asSvg, csv: () => PICTURES[name].csv(view) }[ending];
  const head = name === "roles" || name === "distance" ? `_${headName(view.data, view.chosen.head).replace(" ", "_")}` : "";
  save(`headlight_${view.data.origin.checkpoint}_${name}${head}.${ending}`, await make(view, PICTURES[name].title(view), picture));
}

function drawWhole(context, { theme }, title, { width, height, draw }) {
  context.fillStyle = theme.page;
  context.fillRect(0, 0, width + 2 * MARGIN, height + TITLE_HEIGHT + 2 * MARGIN);
  drawText(context, theme, title, MARGIN, MARGIN + 10, { size: 14, weight: 600 });
  context.translate(MARGIN, MARGIN + TITLE_HEIGHT);
  draw(context);
}

function asPng(view, title, picture) {
  const canvas = document.createElement("canvas");
  canvas.width = (picture.width + 2 * MARGIN) * PNG_SCALE;
  canvas.height = (picture.height + TITLE_HEIGHT + 2 * MARGIN) * PNG_SCALE;
  const context = canvas.getContext("2d");
  context.scale(PNG_SCALE, PNG_SCALE);
  drawWhole(context, view, title, picture);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

function asSvg(view, title, picture) {
  const context = new SvgContext(picture.width + 2 * MARGIN, picture.height + TITLE_HEIGHT + 2 * MARGIN, document.createElement("canvas").getContext("2d"));
  const { origin, network } = view.data;
  context.describe(title, `${network}, ${counted(origin.sentences, "sentence")} of ${origin.corpus}`);
  drawWhole(context, view, title, picture);
  return new Blob([context.toText()], { type: "image/svg+xml" });
}
