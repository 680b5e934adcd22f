// Paints the controls: attention type, view, unit, hidden columns, order, mean or maximum, and quantity.

import { fillSelect } from "../shared/dom.js";
import { fixed } from "../shared/numbers.js";
import { scaleRaster } from "../shared/plot.js";
import { HIDEABLE, OPTIONS, QUANTITY_OPTIONS } from "./choices.js";
import { explain } from "./help.js";
import { currentMap } from "./focus.js";
import { hasMasked, rampOf } from "./maps.js";
import { isSortedInGrid } from "./overview_picture.js";

/* List only the quantities that are available. */
export function buildQuantities({ dom: { parts }, data }) {
  const options = OPTIONS.quantity.filter((name) => data.offered.includes(name));
  if (options.join() === [...parts.quantity.options].map(({ value }) => value).join()) return;
  fillSelect(parts.quantity, options.map((name) => [name, QUANTITY_OPTIONS[name]]));
}

/* Maps from other tools may lack a kind. */
export function buildKinds({ dom: { parts }, data }) {
  for (const button of parts.kinds.children) button.hidden = !data.layers[button.dataset.kindOption];
}

/* Heads of all kinds: their effects arrive together, so sorting one kind waits for all. */
const countHeads = ({ layers, headsOf }) => Object.keys(layers).reduce((sum, kind) => sum + layers[kind] * headsOf[kind], 0);

/** @param {Explorer} explorer */
export function paintOptions(explorer) {
  const { data } = explorer;
  const { kind, picture, unit, sort, combine, hide, quantity } = explorer.view;
  const { wanted } = explorer.now;
  const { root, parts } = explorer.dom;
  const press = (group, name, chosen) => {
    for (const button of parts[group].children) button.setAttribute("aria-pressed", button.dataset[name] === chosen);
  };
  press("kinds", "kindOption", kind);
  press("views", "viewOption", picture);
  press("units", "unitOption", unit);
  press("combines", "combineOption", combine);
  // Show "layer" while the chosen order is unavailable.
  parts.sort.value = isSortedInGrid(explorer) || explorer.requests.effects ? sort : "layer";
  parts.quantity.value = wanted;
  explain(explorer, parts.quantity, wanted);
  for (const name of HIDEABLE) parts[`hide-${name}`].checked = hide.has(name);
  const waiting = Boolean(explorer.requests.quantity);
  parts.quantity.setAttribute("aria-busy", waiting);
  const ablating = Boolean(explorer.requests.effects);
  parts.sort.setAttribute("aria-busy", ablating);
  parts["sort-effect"].textContent = ablating ? `switching off ${countHeads(data)} heads\u2026` : "largest effect first";
  parts["sort-effect"].hidden = parts["sort-effect"].disabled = !explorer.host.answers.has("effects") && !data.effects;
  parts["map-place"].classList.toggle("waiting", waiting);
  const map = currentMap(explorer);
  const specials = new Set(map.columns.flatMap(({ special, label }) => (special ? [label] : [])));
  parts["hide-eos-name"].textContent = [...specials].join(", ");
  const [low, high] = [map.lo, map.hi].map((end) => fixed(end, Number.isInteger(end) ? 0 : 1));
  scaleRaster(rampOf(explorer.theme, map), parts.scale);
  parts["scale-low"].textContent = low;
  parts["scale-high"].textContent = high;
  parts.scale.setAttribute("aria-label", `Colour scale from ${low} to ${high}`);
  parts["masked-legend"].classList.toggle("unused", !hasMasked(data, kind));
  Object.assign(root.dataset, { view: picture, unit, sort, combine, quantity, hide: [...hide].join(",") });
}
