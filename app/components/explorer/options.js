// The choices beside kind, layer and head: view, unit, hidden columns, order, mean or maximum, quantity, mass of lines.

const OPTIONS = {
  view: ["map", "lines"],
  unit: ["pieces", "words"],
  sort: Object.keys(ORDERS),
  combine: ["mean", "max"],
  quantity: ["weights", "scores", "norms", "rollout"],
};
const QUANTITY_OPTIONS = { weights: "weights", scores: "scores", norms: "value norms", rollout: "rollout" };
const HIDEABLE = ["eos", "punctuation"];
const MASSES = { least: 30, most: 95, usual: 70 };

function chooseView(explorer, view) {
  if (view === explorer.view) return;
  explorer.view = view;
  explorer.preview = { ...NOTHING, note: null };
  paintOptions(explorer);
  placeMap(explorer);
  paintZoom(explorer);
  paintAxisNote(explorer);
  paintPicture(explorer);
  rememberView(explorer);
}

/* The kept row and column stay: those of the first piece, or the word that holds it. */
function chooseUnit(explorer, unit) {
  if (unit === explorer.unit) return;
  const before = currentMap(explorer);
  const { kept, kind } = explorer;
  const pieceOf = (items, index) => (index === null ? null : items[index].members[0]);
  const [query, key] = [pieceOf(before.rows, kept.query), pieceOf(before.columns, kept.key)];
  explorer.unit = unit;
  explorer.zoom = 1;
  explorer.kept = {
    query: query === null ? null : itemOfPiece(explorer, ROW_SIDE[kind], query),
    key: key === null ? null : itemOfPiece(explorer, COLUMN_SIDE[kind], key),
  };
  explorer.preview = { ...NOTHING, note: null };
  explorer.geometries = {};
  paintAll(explorer);
  rememberView(explorer);
}

function chooseHidden(explorer, name, hidden) {
  explorer.hide = new Set(HIDEABLE.filter((part) => (part === name ? hidden : explorer.hide.has(part))));
  paintAll(explorer);
  rememberView(explorer);
}

function chooseOrder(explorer, sort) {
  explorer.sort = sort;
  showOverview(explorer);
  paintOverview(explorer);
  markChosenHead(explorer);
  paintOptions(explorer);
  paintFocus(explorer);
  rememberView(explorer);
}

function chooseCombine(explorer, combine) {
  explorer.combine = combine;
  paintAll(explorer);
  rememberView(explorer);
}

/*
 * Another quantity than the weights is worked out where the model is: it is asked for once, shown when it comes, and
 * the picture stays what it is until then.
 */
function chooseQuantity(explorer, quantity) {
  explorer.wanted = quantity;
  forgetRequest(explorer, "quantity");
  if (!explorer.data.quantities[quantity]) askQuantity(explorer);
  if (quantity === explorer.quantity || explorer.requests.quantity) return paintOptions(explorer);
  showQuantity(explorer, quantity);
  paintAll(explorer);
  return rememberView(explorer);
}

function askQuantity(explorer) {
  const { wanted } = explorer;
  request(explorer, "quantity", wanted, {
    what: `What was chosen, ${QUANTITY_TITLES[wanted]},`,
    take: ({ quantities }) => wanted in quantities,
    giveUp: () => {
      // Python forgets it too: else it would try again with each sentence.
      explorer.wanted = explorer.quantity;
      explorer.ask("quantity", explorer.wanted);
      paintOptions(explorer);
    },
  });
}

/* Rollout has no heads and is one map a layer already: the head chosen before comes back when it goes. */
function showQuantity(explorer, quantity) {
  const { data, kind } = explorer;
  const last = data.layers[kind] - 1;
  if (quantity === ROLLOUT) {
    explorer.behind ??= { head: allHeads(explorer) ? null : explorer.head, everyLayer: allLayers(explorer) };
    explorer.head = data.heads;
    explorer.layer = Math.min(explorer.layer, last);
  } else if (explorer.behind) {
    const { head, everyLayer } = explorer.behind;
    explorer.head = head === null ? data.heads : Math.min(head, data.heads - 1);
    if (everyLayer && explorer.layer === last) explorer.layer = last + 1;
    explorer.behind = null;
  }
  explorer.quantity = quantity;
}

/* Only what can be shown can be chosen. */
function buildQuantities({ parts, data }) {
  const options = OPTIONS.quantity.filter((name) => data.offered.includes(name));
  if (options.join() === [...parts.quantity.options].map(({ value }) => value).join()) return;
  parts.quantity.replaceChildren(
    ...options.map((name) => {
      const option = element("option", "", QUANTITY_OPTIONS[name]);
      option.value = name;
      return option;
    }),
  );
}

function chooseMass(explorer, mass) {
  explorer.mass = between(MASSES.least, mass, MASSES.most);
  paintLinesNote(explorer);
  paintPicture(explorer);
  rememberView(explorer);
}

function paintOptions(explorer) {
  const { root, parts, data, kind, view, unit, sort, combine, hide, wanted, quantity } = explorer;
  const press = (group, name, chosen) => {
    for (const button of parts[group].children) button.setAttribute("aria-pressed", button.dataset[name] === chosen);
  };
  press("kinds", "kindOption", kind);
  press("views", "viewOption", view);
  press("units", "unitOption", unit);
  press("combines", "combineOption", combine);
  parts.sort.value = sort;
  parts.quantity.value = wanted;
  for (const name of HIDEABLE) parts[`hide-${name}`].checked = hide.has(name);
  parts["hide-eos-name"].textContent = kind === "decoder" ? "<bos>" : "<eos>";
  const waiting = Boolean(explorer.requests.quantity);
  parts.quantity.setAttribute("aria-busy", waiting);
  parts["map-place"].classList.toggle("waiting", waiting);
  const map = currentMap(explorer);
  const [low, high] = [map.lo, map.hi].map((end) => figure(end, Number.isInteger(end) ? 0 : 1));
  drawScale(parts.scale, rampOf(explorer.theme, map));
  parts["scale-low"].textContent = low;
  parts["scale-high"].textContent = high;
  parts.scale.setAttribute("aria-label", `Colour scale from ${low} to ${high}`);
  parts["masked-legend"].classList.toggle("unused", !hasMasked(data, kind));
  Object.assign(root.dataset, { view, unit, sort, combine, quantity, hide: [...hide].join(",") });
}

function listenToOptions(explorer) {
  const { parts } = explorer;
  const onClick = (group, name, choose) => {
    for (const button of parts[group].children) {
      button.addEventListener("click", () => choose(explorer, button.dataset[name]));
    }
  };
  onClick("kinds", "kindOption", chooseKind);
  onClick("views", "viewOption", chooseView);
  onClick("units", "unitOption", chooseUnit);
  onClick("combines", "combineOption", chooseCombine);
  parts.sort.addEventListener("change", () => chooseOrder(explorer, parts.sort.value));
  parts.quantity.addEventListener("change", () => chooseQuantity(explorer, parts.quantity.value));
  parts.mass.addEventListener("input", () => chooseMass(explorer, Number(parts.mass.value)));
  for (const name of HIDEABLE) {
    const box = parts[`hide-${name}`];
    box.addEventListener("change", () => chooseHidden(explorer, name, box.checked));
  }
}
