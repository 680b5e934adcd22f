// Saves what is shown: the map or lines and the overview as PNG and SVG, the map's numbers as CSV, the state as a link.

const TITLE_HEIGHT = 34;
const MARGIN = 12;
const PNG_SCALE = 2;

/* Every picture says what it is of, in its first line. */
function pictureTitle(explorer) {
  const { data, kind, quantity } = explorer;
  const looking = lookingWords(explorer)[kind];
  const shown = QUANTITY_TITLES[quantity];
  return `${shown} \u00b7 ${looking} \u00b7 ${data.search}`;
}

const QUANTITY_TITLES = {
  weights: "attention weights",
  scores: "scores before softmax",
  norms: "value-weighted norms",
  rollout: "attention rollout",
};

/* The picture in view: its size, and how it is drawn at the origin. */
function viewPicture(explorer) {
  const geometry = shownGeometry(explorer);
  const { still, live } = VIEWS[explorer.view];
  return {
    title: `${mapTitle(explorer)} \u00b7 ${pictureTitle(explorer)}`,
    width: geometry.width,
    height: geometry.height,
    draw: (context) => {
      still?.(context, explorer, geometry);
      live(context, explorer, geometry);
    },
  };
}

const TILE = 84;

function overviewPicture(explorer) {
  const { data, theme, hide } = explorer;
  const rows = explorer.thumbnails.length / (data.heads + 1);
  return {
    title: `Every layer and head \u00b7 ${pictureTitle(explorer)}`,
    width: 40 + (data.heads + 1) * (TILE + 10),
    height: rows * (TILE + 30) + 8,
    draw: (context) => {
      overviewOf(explorer).cells.forEach(({ exists, layer, head, word, number }, index) => {
        if (!exists) return;
        const x = 36 + (index % (data.heads + 1)) * (TILE + 10);
        const y = 12 + Math.floor(index / (data.heads + 1)) * (TILE + 30);
        const map = mapOf(data, atHead(explorer, layer, head));
        drawThumbnail(context, map, theme, hide, { left: x, top: y, size: TILE });
        context.strokeStyle = theme.line;
        context.lineWidth = 1;
        context.strokeRect(x - 0.5, y - 0.5, TILE + 1, TILE + 1);
        const place = [layer === data.layers[explorer.kind] ? "all" : layer + 1, head === data.heads ? "all" : head + 1];
        // Ordered by a measure, the caption itself names the head.
        const name = isSorted(explorer) && !isOverview(explorer, layer, head) ? word : `${place.join(".")}  ${word}`;
        context.font = fontOf(theme, 11);
        text(context, theme, cutLabel(context, name, TILE - 32), x, y + TILE + 9, { size: 11, colour: "ink2" });
        text(context, theme, number, x + TILE, y + TILE + 9, { size: 11, colour: "ink2", align: "right" });
      });
    },
  };
}

/* Ground, title and picture, in the order in which they lie. */
function drawPicture(context, { theme }, picture) {
  context.fillStyle = theme.page;
  context.fillRect(0, 0, picture.width + 2 * MARGIN, picture.height + TITLE_HEIGHT + 2 * MARGIN);
  context.font = fontOf(theme, 13);
  const title = cutLabel(context, picture.title, picture.width);
  text(context, theme, title, MARGIN, MARGIN + 10, { size: 13, colour: "ink2" });
  context.translate(MARGIN, MARGIN + TITLE_HEIGHT);
  picture.draw(context);
}

const sizeOfPicture = ({ width, height }) => [width + 2 * MARGIN, height + TITLE_HEIGHT + 2 * MARGIN];

function pictureAsPng(explorer, picture) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = sizeOfPicture(picture).map((size) => Math.round(size * PNG_SCALE));
  const context = canvas.getContext("2d");
  context.scale(PNG_SCALE, PNG_SCALE);
  drawPicture(context, explorer, picture);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

function pictureAsSvg(explorer, picture) {
  const [width, height] = sizeOfPicture(picture);
  const context = new SvgContext(width, height, explorer.base.getContext("2d"));
  drawPicture(context, explorer, picture);
  return new Blob([context.toText()], { type: "image/svg+xml" });
}

/* Row names down, column names across, numbered from 1 so that repeated words stay apart; a closed cell is empty. */
function mapAsCsv(explorer) {
  const map = currentMap(explorer);
  const quoted = (words) => `"${words.replaceAll('"', '""')}"`;
  // The number in front also keeps a spreadsheet from taking a word like =1+1 for a formula.
  const named = (items) => items.map(({ label }, index) => quoted(`${index + 1} ${label}`));
  const columns = named(map.columns);
  const lines = named(map.rows).map((name, query) => {
    const cells = columns.map((_, key) => (isMasked(map, query, key) ? "" : valueAt(map, query, key).toFixed(6)));
    return [name, ...cells].join(",");
  });
  const corner = quoted(`${QUANTITIES[map.quantity].name}: row ${map.kind === "encoder" ? "read" : "produced"}, column looked at`);
  return new Blob([`\ufeff${[[corner, ...columns].join(","), ...lines].join("\r\n")}\r\n`], { type: "text/csv" });
}

function fileName({ data, kind, layer, head, combine, quantity, unit, view }, what) {
  const place = [
    layer === data.layers[kind] ? `${combine}-of-layers` : `layer${layer + 1}`,
    head === data.heads ? `${combine}-of-heads` : `head${head + 1}`,
  ];
  const parts = what === "overview" ? [kind, "overview"] : [kind, ...place, ...(view === "map" ? [] : [view])];
  const rest = [quantity, unit].filter((name) => name !== "weights" && name !== "pieces");
  return ["headlight", ...parts, ...rest].join("_");
}

function save(name, blob) {
  const link = element("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const EXPORTS = {
  "map-png": async (explorer) => save(`${fileName(explorer)}.png`, await pictureAsPng(explorer, viewPicture(explorer))),
  "map-svg": (explorer) => save(`${fileName(explorer)}.svg`, pictureAsSvg(explorer, viewPicture(explorer))),
  "map-csv": (explorer) => save(`${fileName({ ...explorer, view: "map" })}.csv`, mapAsCsv(explorer)),
  "overview-png": async (explorer) =>
    save(`${fileName(explorer, "overview")}.png`, await pictureAsPng(explorer, overviewPicture(explorer))),
  "overview-svg": (explorer) =>
    save(`${fileName(explorer, "overview")}.svg`, pictureAsSvg(explorer, overviewPicture(explorer))),
  link: copyLink,
};

async function copyLink(explorer, button) {
  writeAddress(explorer);
  const say = (words) => {
    button.textContent = words;
    setTimeout(() => (button.textContent = "Copy link"), 1500);
  };
  try {
    await navigator.clipboard.writeText(window.location.href);
    say("Copied");
  } catch {
    // Browsers give the clipboard only to secure pages: the address bar holds the same link.
    say("In the address bar");
  }
}

function listenToExport(explorer) {
  for (const button of explorer.root.querySelectorAll("[data-export]")) {
    button.addEventListener("click", () => EXPORTS[button.dataset.export](explorer, button));
  }
}
