// Shows every head of the chosen kind as a thumbnail, by layer or in the order of a measure, with means or maxima.

const CAPTION_MEANING = {
  prev: "mean weight on the previous piece",
  self: "mean weight on the piece itself",
  next: "mean weight on the next piece",
  eos: "mean weight on <eos>",
  bos: "mean weight on <bos>",
  peak: "mean of each row\u2019s largest weight",
  broad: "mean spread of a row, in bits",
};
/* A decoder row is named by what it produces, but its own place is the piece that is fed in. */
const DECODER_MEANING = {
  prev: "mean weight on the piece before the one fed in",
  self: "mean weight on the piece just fed in",
};

/* Orders of the heads: the first first. Every measure is one of the attention weights, whatever is shown. */
const ORDERS = {
  layer: null,
  confidence: { of: ({ peak }) => -peak, shown: ({ peak }) => percent(peak), meaning: CAPTION_MEANING.peak },
  spread: {
    of: ({ meanSpread }) => -meanSpread,
    shown: ({ meanSpread }) => `${meanSpread.toFixed(1)} b`,
    meaning: CAPTION_MEANING.broad,
  },
  distance: {
    of: ({ distance }) => -distance,
    shown: ({ distance }) => distance.toFixed(1),
    meaning: "mean distance of what is looked at, in pieces",
  },
};

const isOverview = (explorer, layer, head) => layer === explorer.data.layers[explorer.kind] || head === explorer.data.heads;

/* Built once for the deeper of the two stacks: a kind with fewer layers hides the rest and keeps the height. */
function buildOverview(explorer) {
  const { data, parts } = explorer;
  const layers = Math.max(...KINDS.map((kind) => data.layers[kind]));
  parts.overview.replaceChildren();
  parts.overview.style.gridTemplateColumns = `28px repeat(${data.heads}, minmax(0, 1fr)) 4px minmax(0, 1fr)`;
  parts.overview.classList.toggle("dense", data.heads > 5);
  explorer.headLabels = [...Array(data.heads + 1).keys()].map((head) => {
    const text = head === 0 && data.heads <= 5 ? "head 1" : head + 1;
    const label = element("span", "head-label numbers", head === data.heads ? "" : text);
    label.style.gridArea = `1 / ${columnOf(data, head)}`;
    return label;
  });
  explorer.orderLabel = element("span", "order-label");
  explorer.layerLabels = [...Array(layers + 1).keys()].map((layer) => {
    const label = element("span", "layer-label numbers", layer + 1);
    label.style.gridRow = layer + 2;
    return label;
  });
  explorer.overviewMaps = element("canvas", "overview-maps");
  explorer.overviewFocus = element("canvas", "overview-focus");
  for (const canvas of [explorer.overviewMaps, explorer.overviewFocus]) canvas.setAttribute("aria-hidden", "true");
  explorer.thumbnails = [];
  for (let layer = 0; layer <= layers; layer++) {
    for (let head = 0; head <= data.heads; head++) {
      const thumbnail = buildThumbnail();
      thumbnail.button.style.gridArea = `${layer + 2} / ${columnOf(data, head)}`;
      explorer.thumbnails.push(thumbnail);
    }
  }
  parts.overview.append(
    ...explorer.headLabels,
    explorer.orderLabel,
    ...explorer.layerLabels,
    ...explorer.thumbnails.map(({ button }) => button),
    explorer.overviewMaps,
    explorer.overviewFocus,
  );
}

const columnOf = (data, head) => head + 2 + (head === data.heads ? 1 : 0);

/* Its map, one pixel a cell, stays outside the document: see paintOverviewMaps. */
function buildThumbnail() {
  const button = element("button", "thumbnail");
  button.type = "button";
  const frame = element("span", "frame");
  const canvas = element("canvas");
  const caption = element("span", "caption numbers");
  const word = element("span", "caption-word");
  const number = element("span");
  caption.append(word, number);
  button.append(frame, caption);
  return { button, canvas, word, number, layer: 0, head: 0, exists: true, chosen: null };
}

/* Which head stands where: [layer, head] row by row, the last row and column being all layers and all heads. */
function arrangement(explorer) {
  const { data, kind, sort, quantity } = explorer;
  const layers = data.layers[kind];
  const heads = [];
  for (let layer = 0; layer < layers; layer++) for (let head = 0; head < data.heads; head++) heads.push([layer, head]);
  if (sort !== "layer" && quantity !== ROLLOUT) {
    const value = new Map(heads.map((place) => [place, ORDERS[sort].of(measuresOf(explorer, ...place))]));
    heads.sort((a, b) => value.get(a) - value.get(b));
  }
  const rows = [...Array(layers).keys()].map((row) => [
    ...heads.slice(row * data.heads, (row + 1) * data.heads),
    [row, data.heads],
  ]);
  rows.push([...Array(data.heads + 1).keys()].map((head) => [layers, head]));
  return rows;
}

/* What is said of a head is measured on its weights; only rollout, which has no heads, speaks for itself. */
function measuredMap(explorer, layer, head) {
  const quantity = explorer.quantity === ROLLOUT ? ROLLOUT : WEIGHTS;
  return mapOf(explorer.data, { ...atHead(explorer, layer, head), quantity });
}

const measuresOf = (explorer, layer, head) => measure(measuredMap(explorer, layer, head));

function paintOverview(explorer) {
  const { data, kind, theme, hide, sort, combine, quantity } = explorer;
  const rows = arrangement(explorer);
  const together = quantity === ROLLOUT ? "all heads" : combine;
  explorer.headLabels[data.heads].textContent = together;
  const sorted = sort !== "layer" && quantity !== ROLLOUT;
  for (const [head, label] of explorer.headLabels.entries()) {
    label.classList.toggle("missing", head < data.heads && (sorted || quantity === ROLLOUT));
  }
  explorer.orderLabel.textContent = sorted ? `layer.head: ${ORDERS[sort].meaning}` : "";
  explorer.layerLabels.forEach((label, row) => {
    label.textContent = row === data.layers[kind] ? combine : row + 1;
    label.title = row === data.layers[kind] ? `${combine} over layers` : `layer ${row + 1}`;
    const exists = row <= data.layers[kind] && !(quantity === ROLLOUT && row === data.layers[kind]);
    label.classList.toggle("missing", !exists || (sorted && row < data.layers[kind]));
  });
  explorer.thumbnails.forEach((thumbnail, index) => {
    const [row, column] = [Math.floor(index / (data.heads + 1)), index % (data.heads + 1)];
    const [layer, head] = rows[row]?.[column] ?? [row, column];
    const exists = row < rows.length && !(quantity === ROLLOUT && (head < data.heads || layer === data.layers[kind]));
    const missing = !exists || (sorted && layer < data.layers[kind] && head === data.heads);
    Object.assign(thumbnail, { layer, head, exists: !missing });
    const { button, canvas } = thumbnail;
    if (button.dataset.l !== String(layer) || button.dataset.h !== String(head)) {
      button.dataset.l = layer;
      button.dataset.h = head;
    }
    button.classList.toggle("missing", missing);
    if (missing) return;
    drawThumbnail(canvas, mapOf(data, atHead(explorer, layer, head)), theme, hide);
  });
  paintOverviewMaps(explorer);
  paintCaptions(explorer);
}

/*
 * All thumbnails on one canvas: each canvas in the document is a layer of its own to the browser, and dozens of layers
 * cost it more in every frame, also in one that changes none of them, than anything that is drawn here.
 */
function paintOverviewMaps(explorer) {
  const { thumbnails, overviewMaps } = explorer;
  const { places, width, height } = explorer.places;
  const context = prepareCanvas(overviewMaps, width, height);
  context.imageSmoothingEnabled = false;
  thumbnails.forEach(({ exists, canvas }, index) => {
    const { left, top, size } = places[index];
    if (exists) context.drawImage(canvas, left, top, size, size);
  });
}

/* Beneath a thumbnail: the measure that orders, else where this head looks in the kept row, else what it does. */
function captionOf(explorer, layer, head) {
  const map = measuredMap(explorer, layer, head);
  const { peak, meanSpread } = measure(map);
  const { sort, kept, hide, quantity } = explorer;
  if (sort !== "layer" && !isOverview(explorer, layer, head)) {
    const { shown, meaning } = ORDERS[sort];
    return { word: `${layer + 1}.${head + 1}`, number: shown(measure(map)), meaning };
  }
  if (kept.query !== null) {
    const shown = mapOf(explorer.data, atHead(explorer, layer, head));
    const [key] = rankedKeys(shown, kept.query, hide);
    if (key === undefined) return { word: "\u2013", number: "", meaning: "everything it may look at is hidden" };
    const { digits, most } = QUANTITIES[quantity];
    const number = figure(valueAt(shown, kept.query, key), digits).replace(/^0\./, ".");
    return { word: shown.columns[key].label, number, meaning: `at ${tokenName(shown.rows[kept.query])} it${most.trimEnd()}` };
  }
  const role = map.sumsToOne ? roleOf(map) : null;
  if (role) {
    const meaning = (map.kind === "decoder" && DECODER_MEANING[role.name]) || CAPTION_MEANING[role.name];
    return { word: role.name, number: percent(role.share), meaning };
  }
  if (peak >= 0.5 || !map.sumsToOne) return { word: "peak", number: percent(peak), meaning: CAPTION_MEANING.peak };
  return { word: "broad", number: `${meanSpread.toFixed(1)} b`, meaning: CAPTION_MEANING.broad };
}

function paintCaptions(explorer) {
  explorer.captioned = captionState(explorer);
  for (const thumbnail of explorer.thumbnails) {
    if (!thumbnail.exists) continue;
    const { button, layer, head } = thumbnail;
    const { word, number, meaning } = captionOf(explorer, layer, head);
    const name = capital(headName(atHead(explorer, layer, head)));
    const spoken = `${name}: ${meaning} ${isolated(word)} ${number.replace(/ b$/, " bits")}`;
    // Writing only what changed spares the browser most of the layout.
    if (thumbnail.spoken === spoken) continue;
    thumbnail.spoken = spoken;
    thumbnail.word.textContent = word;
    thumbnail.word.classList.toggle("spare", word === "broad");
    thumbnail.number.textContent = number;
    button.setAttribute("aria-label", spoken);
  }
}

const capital = (text) => text[0].toUpperCase() + text.slice(1);

/* What the captions depend on beside the overview itself. */
const captionState = ({ kept, kind, unit }) => `${kept.query} ${kind} ${unit}`;

/*
 * The row and column looked at, over every thumbnail, on one canvas that covers them all: anything in the document
 * itself would make the browser work out the style of every thumbnail at each move.
 */
function paintOverviewFocus(explorer) {
  const { theme, thumbnails } = explorer;
  const { query, key } = focusOf(explorer);
  const { places, width, height } = explorer.places;
  const context = prepareCanvas(explorer.overviewFocus, width, height);
  context.strokeStyle = theme.ink3;
  context.lineWidth = 1;
  const { queries, keys } = currentMap(explorer);
  context.beginPath();
  thumbnails.forEach(({ exists }, index) => {
    if (!exists) return;
    const { left, top, size } = places[index];
    const [row, column] = [top + (size * query) / queries, left + (size * key) / keys];
    if (query !== null) context.rect(left - 0.5, row - 0.5, size + 1, Math.max(2, size / queries) + 1);
    if (key !== null) context.rect(column - 0.5, top - 0.5, Math.max(2, size / keys) + 1, size + 1);
  });
  context.stroke();
  if (explorer.captioned !== captionState(explorer)) paintCaptions(explorer);
}

/* Where the thumbnails stand. */
function overviewPlaces({ parts, thumbnails, overviewMaps, overviewFocus }) {
  const [width, height] = [parts.overview.clientWidth, parts.overview.clientHeight];
  const places = thumbnails.map(({ button }) => ({
    left: button.offsetLeft,
    top: button.offsetTop,
    size: button.offsetWidth,
  }));
  for (const { style } of [overviewMaps, overviewFocus]) {
    style.width = `${width}px`;
    style.height = `${height}px`;
  }
  return { places, width, height };
}

/* One pixel a cell; the browser enlarges it. */
function drawThumbnail(canvas, map, theme, hide) {
  if (canvas.width !== map.keys) canvas.width = map.keys;
  if (canvas.height !== map.queries) canvas.height = map.queries;
  canvas.getContext("2d").putImageData(thumbnailImage(map, theme, hide), 0, 0);
}

/* Coloured once for each theme and choice of hidden columns. */
function thumbnailImage(map, theme, hide) {
  const name = `${theme.name} ${[...hide]}`;
  if (map.image?.name === name) return map.image.data;
  const image = new ImageData(map.keys, map.queries);
  const pixels = new Uint32Array(image.data.buffer);
  for (let cell = 0; cell < pixels.length; cell++) {
    pixels[cell] = map.open[cell] ? theme.ramp.pixel[stepOf(map, map.values[cell])] : theme.closedPixel;
  }
  for (let key = 0; hide.size && key < map.keys; key++) {
    if (!isHidden(map, key, hide)) continue;
    for (let cell = key; cell < pixels.length; cell += map.keys) if (map.open[cell]) pixels[cell] = theme.hiddenPixel;
  }
  map.image = { name, data: image };
  return image;
}

/* Only the chosen thumbnail can be reached by Tab; the arrow keys go on from there. */
function markChosenHead(explorer) {
  for (const thumbnail of explorer.thumbnails) {
    const chosen = thumbnail.exists && thumbnail.layer === explorer.layer && thumbnail.head === explorer.head;
    if (thumbnail.chosen === chosen) continue;
    thumbnail.chosen = chosen;
    thumbnail.button.setAttribute("aria-pressed", chosen);
    thumbnail.button.tabIndex = chosen ? 0 : -1;
  }
}

/* The thumbnail that an arrow key leads to: the next one in that direction that is there, around the edge. */
function neighbour(explorer, [down, right]) {
  const columns = explorer.data.heads + 1;
  const rows = explorer.thumbnails.length / columns;
  const { thumbnails } = explorer;
  const from = thumbnails.findIndex(({ chosen }) => chosen);
  let [row, column] = [Math.floor(from / columns), from % columns];
  do {
    row = wrapped(row + down, rows);
    column = wrapped(column + right, columns);
  } while (!thumbnails[row * columns + column].exists);
  return thumbnails[row * columns + column];
}

function listenToOverview(explorer) {
  explorer.parts.overview.addEventListener("click", (event) => {
    const button = event.target.closest(".thumbnail");
    if (button) chooseHead(explorer, Number(button.dataset.l), Number(button.dataset.h));
  });
  explorer.parts.overview.addEventListener("pointerover", (event) => {
    const button = event.target.closest(".thumbnail");
    if (button) button.title = button.getAttribute("aria-label");
  });
}
