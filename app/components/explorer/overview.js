// Shows every head of the chosen kind as a thumbnail, layer by layer, with the mean of each layer's heads last.

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

const headLabel = (data, head) => (head < data.heads ? `head ${head + 1}` : "mean of heads");

/* Built once for the deeper of the two stacks: a kind with fewer layers hides the rest and keeps the height. */
function buildOverview(explorer) {
  const { data, parts } = explorer;
  const host = parts.overview;
  const layers = Math.max(...KINDS.map((kind) => data.layers[kind]));
  host.replaceChildren();
  host.style.gridTemplateColumns = `14px repeat(${data.heads}, minmax(0, 1fr)) 4px minmax(0, 1fr)`;
  host.classList.toggle("dense", data.heads > 5);
  host.append(element("span"));
  for (let head = 0; head < data.heads; head++) {
    host.append(element("span", "head-label numbers", head === 0 && data.heads <= 5 ? "head 1" : head + 1));
  }
  host.append(element("span"), element("span", "head-label", "mean"));
  explorer.thumbnails = [];
  for (let layer = 0; layer < layers; layer++) {
    const label = element("span", "layer-label numbers", layer + 1);
    label.title = `layer ${layer + 1}`;
    label.dataset.layer = layer;
    host.append(label);
    for (let head = 0; head <= data.heads; head++) {
      if (head === data.heads) host.append(element("span"));
      const thumbnail = buildThumbnail(layer, head);
      explorer.thumbnails.push(thumbnail);
      host.append(thumbnail.button);
    }
  }
}

function buildThumbnail(layer, head) {
  const button = element("button", "thumbnail");
  button.type = "button";
  button.dataset.l = layer;
  button.dataset.h = head;
  const frame = element("span", "frame");
  const canvas = element("canvas");
  frame.append(canvas);
  const caption = element("span", "caption numbers");
  const word = element("span");
  const number = element("span");
  caption.append(word, number);
  button.append(frame, caption);
  return { button, canvas, word, number, layer, head, chosen: null };
}

function captionOf(map) {
  const { role, peak, meanSpread } = measure(map);
  if (role) return [role.name, percent(role.share)];
  if (peak >= 0.5) return ["peak", percent(peak)];
  return ["broad", `${meanSpread.toFixed(1)} b`];
}

function paintOverview(explorer) {
  const { data, kind, theme, thumbnails, parts } = explorer;
  for (const label of parts.overview.querySelectorAll(".layer-label")) {
    label.classList.toggle("missing", Number(label.dataset.layer) >= data.layers[kind]);
  }
  for (const thumbnail of thumbnails) {
    const { button, layer, head } = thumbnail;
    const exists = layer < data.layers[kind];
    button.classList.toggle("missing", !exists);
    if (!exists) continue;
    const map = attentionMap(data, kind, layer, head);
    drawThumbnail(thumbnail.canvas, map, theme);
    const [word, number] = captionOf(map);
    thumbnail.word.textContent = word;
    thumbnail.word.classList.toggle("spare", word === "broad");
    thumbnail.number.textContent = number;
    const meaning = (kind === "decoder" && DECODER_MEANING[word]) || CAPTION_MEANING[word];
    button.title = `layer ${layer + 1}, ${headLabel(data, head)}: ${meaning}`;
    const value = number.replace(/ b$/, " bits");
    button.setAttribute("aria-label", `layer ${layer + 1}, ${headLabel(data, head)}: ${meaning} ${value}`);
  }
}

/* One pixel a cell; the browser enlarges it. */
function drawThumbnail(canvas, map, theme) {
  canvas.width = map.keys;
  canvas.height = map.queries;
  const context = canvas.getContext("2d");
  const image = context.createImageData(map.keys, map.queries);
  const pixels = new Uint32Array(image.data.buffer);
  for (let cell = 0; cell < pixels.length; cell++) {
    pixels[cell] = map.open[cell] ? theme.ramp.pixel[rampStep(map.weights[cell])] : theme.closedPixel;
  }
  context.putImageData(image, 0, 0);
}

/* Only the chosen thumbnail can be reached by Tab; the arrow keys go on from there. */
function markChosenHead(explorer) {
  for (const thumbnail of explorer.thumbnails) {
    const chosen = thumbnail.layer === explorer.layer && thumbnail.head === explorer.head;
    if (thumbnail.chosen === chosen) continue;
    thumbnail.chosen = chosen;
    thumbnail.button.setAttribute("aria-pressed", chosen);
    thumbnail.button.tabIndex = chosen ? 0 : -1;
  }
}

function listenToOverview(explorer) {
  explorer.parts.overview.addEventListener("click", (event) => {
    const button = event.target.closest(".thumbnail");
    if (button) chooseHead(explorer, Number(button.dataset.l), Number(button.dataset.h));
  });
}
