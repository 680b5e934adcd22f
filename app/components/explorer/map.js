// Draws the chosen head's map: cells once into a picture that is kept, labels and the place looked at above it.

function text(context, theme, words, x, y, { size = 13, weight = 400, colour = "ink", align = "left" } = {}) {
  context.font = fontOf(theme, size, weight);
  context.fillStyle = theme[colour] ?? colour;
  context.textAlign = align;
  context.textBaseline = "middle";
  context.fillText(words, x, y);
}

/* Sizes a canvas in device pixels and leaves it empty, with drawing in CSS pixels. */
function prepareCanvas(canvas, width, height) {
  const ratio = Math.max(1, window.devicePixelRatio || 1);
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

function drawBase(explorer) {
  const { theme } = explorer;
  const map = currentMap(explorer);
  const geometry = geometryOf(explorer, explorer.kind);
  const context = prepareCanvas(explorer.base, geometry.width, geometry.height);
  drawCells(context, theme, map, geometry);
  drawAxisWords(context, theme, map, geometry);
  const { spread, received } = measure(map);
  for (let query = 0; query < map.queries; query++) {
    drawSpread(context, theme, map, geometry, query, spread[query], false);
  }
  for (let key = 0; key < map.keys; key++) drawReceived(context, theme, geometry, key, received, false);
}

function drawCells(context, theme, map, geometry) {
  const { left, top, cell, gap, gridWidth, gridHeight } = geometry;
  for (let query = 0; query < map.queries; query++) {
    const y = top + query * cell;
    for (let key = 0; key < map.keys; key++) {
      if (isMasked(map, query, key)) continue;
      const weight = weightAt(map, query, key);
      const step = rampStep(weight);
      context.fillStyle = theme.ramp.css[step];
      context.fillRect(left + key * cell, y, cell - gap, cell - gap);
      if (cell < 23 || weight < 0.095) continue;
      const digits = weight >= 0.995 ? "1" : weight.toFixed(2).slice(1);
      const colour = theme.ramp.ink[step];
      const middle = left + key * cell + (cell - 1) / 2;
      text(context, theme, digits, middle, y + cell / 2, { size: cell >= 27 ? 13 : 12, colour, align: "center" });
    }
    // Closed cells are hatched in runs; each run is one rectangle without the lines between cells.
    for (let key = 0; key < map.keys; key++) {
      if (!isMasked(map, query, key)) continue;
      const start = key;
      while (key + 1 < map.keys && isMasked(map, query, key + 1)) key++;
      drawHatch(context, theme, left + start * cell, y, (key + 1 - start) * cell, cell);
    }
  }
  context.strokeStyle = theme.line;
  context.lineWidth = 1;
  context.strokeRect(left - 0.5, top - 0.5, gridWidth, gridHeight);
}

/* Says in the corner which axis is which, and under the grid what the two strips measure. */
function drawAxisWords(context, theme, map, { left, top, small, gridWidth, gridHeight }) {
  const colour = "ink2";
  text(context, theme, "looked at", left - 22, top - 29, { colour, align: "right" });
  drawArrow(context, theme.ink2, left - 18, top - 29, 9, 0);
  text(context, theme, map.kind === "encoder" ? "read" : "produced", left - 22, top - 12, { colour, align: "right" });
  drawArrow(context, theme.ink2, left - 13, top - 16, 0, 8);
  const received = small ? "received" : "share received";
  text(context, theme, received, left - 8, top + gridHeight + 16, { colour, align: "right" });
  text(context, theme, small ? "bits" : "spread, bits", left + gridWidth + 10, top + gridHeight + 16, { colour });
}

function drawArrow(context, colour, x, y, dx, dy) {
  const [endX, endY] = [x + dx, y + dy];
  context.strokeStyle = colour;
  context.lineWidth = 1.2;
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(endX, endY);
  context.moveTo(endX - 3, endY - 3);
  context.lineTo(endX, endY);
  context.lineTo(dx ? endX - 3 : endX + 3, dx ? endY + 3 : endY - 3);
  context.stroke();
}

function drawSpread(context, theme, map, geometry, query, bits, lookedAt) {
  const { left, top, cell, gridWidth, small } = geometry;
  const x = left + gridWidth + 10;
  const y = top + query * cell;
  const room = small ? 26 : 34;
  const length = Math.max(1, (room * bits) / Math.max(1, Math.log2(map.keys)));
  context.fillStyle = lookedAt ? theme.ink : theme.ink3;
  context.fillRect(x, y + cell * 0.3, length, Math.max(2, cell * 0.4 - 1));
  if (small || (cell < 14 && !lookedAt)) return;
  if (lookedAt) context.clearRect(x + room + 4, y + cell / 2 - 8, 30, 16);
  text(context, theme, bits.toFixed(1), x + room + 6, y + cell / 2, { size: 12, colour: lookedAt ? "ink" : "ink2" });
}

const receivedHeight = (received, key) => Math.max(1, (24 * received[key]) / Math.max(0.25, ...received));

function drawReceived(context, theme, { left, top, cell, gridHeight }, key, received, lookedAt) {
  context.fillStyle = lookedAt ? theme.ink : theme.ink3;
  const x = left + (key + 0.25) * cell;
  context.fillRect(x, top + gridHeight + 8, Math.max(2, cell * 0.5 - 1), receivedHeight(received, key));
}

/* Every label is drawn while there is room; else every second or third, and always the one looked at. */
function showsLabel(index, every, lookedAt) {
  if (index === lookedAt) return true;
  return index % every === 0 && (lookedAt === null || Math.abs(index - lookedAt) >= every);
}

function drawLabel(context, geometry, theme, label, x, y, align, emphasis) {
  const { token } = label;
  const size = token.special ? Math.max(10.5, geometry.fontSize - 1.5) : geometry.fontSize;
  const colour = emphasis === "strong" ? "ink" : token.special ? "ink3" : emphasis === "weak" ? "ink2" : "ink";
  text(context, theme, label.text, x, y + 1, { size, weight: emphasis === "strong" ? 650 : 400, colour, align });
  if (!token.unknown) return;
  const { width } = context.measureText(label.text);
  context.strokeStyle = theme.ink3;
  context.lineWidth = 1;
  context.setLineDash([2, 2]);
  const start = Math.round(align === "right" ? x - width - 2 : x - 2) + 0.5;
  context.strokeRect(start, y - size / 2 - 1.5, width + 4, size + 4);
  context.setLineDash([]);
}

const emphasisOf = (index, lookedAt) => (lookedAt === null ? "plain" : index === lookedAt ? "strong" : "weak");

function drawLabels(context, explorer, geometry, focus) {
  const { theme } = explorer;
  const { left, top, cell, angle, every, rowLabels, columnLabels, numbered, fontSize } = geometry;
  rowLabels.forEach((label, query) => {
    if (!showsLabel(query, every, focus.query)) return;
    const y = top + (query + 0.5) * cell;
    const emphasis = emphasisOf(query, focus.query);
    drawLabel(context, geometry, theme, label, left - 8 - (numbered ? 20 : 0), y, "right", emphasis);
    const colour = emphasis === "strong" ? "ink" : "ink3";
    if (numbered) text(context, theme, label.token.number, left - 8, y + 1, { size: 11, colour, align: "right" });
  });
  columnLabels.forEach((label, key) => {
    if (!showsLabel(key, every, focus.key)) return;
    const emphasis = emphasisOf(key, focus.key);
    context.save();
    context.translate(left + (key + 0.5) * cell + (angle < 1.2 ? 2 : 0), top - 9);
    context.rotate(-angle);
    drawLabel(context, geometry, theme, label, 0, 0, "left", emphasis);
    if (numbered && label.token.repeated) {
      context.font = fontOf(theme, fontSize, emphasis === "strong" ? 650 : 400);
      const { width } = context.measureText(label.text);
      const colour = emphasis === "strong" ? "ink" : "ink3";
      text(context, theme, label.token.number, width + 3, 3, { size: 11, colour });
    }
    context.restore();
  });
  context.strokeStyle = theme.ink2;
  context.lineWidth = 1;
  context.beginPath();
  forEachWord(rowLabels, (first, last) => {
    context.moveTo(left - 4.5, top + first * cell + 3);
    context.lineTo(left - 4.5, top + (last + 1) * cell - 4);
  });
  forEachWord(columnLabels, (first, last) => {
    context.moveTo(left + first * cell + 3, top - 4.5);
    context.lineTo(left + (last + 1) * cell - 4, top - 4.5);
  });
  context.stroke();
}

/* Calls `mark(first, last)` for each word of several pieces. */
function forEachWord(labels, mark) {
  let first = 0;
  for (let index = 1; index <= labels.length; index++) {
    if (index < labels.length && !labels[index].token.startsWord) continue;
    if (index - 1 > first) mark(first, index - 1);
    first = index;
  }
}

function drawFocus(context, explorer, geometry, focus) {
  const { theme, kept } = explorer;
  const { left, top, cell, gridWidth, gridHeight } = geometry;
  const frameRow = (query) => context.strokeRect(left - 0.5, top + query * cell - 0.5, gridWidth, cell);
  const frameColumn = (key) => context.strokeRect(left + key * cell - 0.5, top - 0.5, cell, gridHeight);
  context.lineWidth = 1;
  if (focus.previewed) {
    context.strokeStyle = theme.ink3;
    context.setLineDash([3, 3]);
    if (kept.query !== null && kept.query !== focus.query) frameRow(kept.query);
    if (kept.key !== null && kept.key !== focus.key) frameColumn(kept.key);
    context.setLineDash([]);
  }
  context.strokeStyle = theme.ink;
  context.globalAlpha = 0.75;
  if (focus.query !== null) frameRow(focus.query);
  if (focus.key !== null) frameColumn(focus.key);
  context.globalAlpha = 1;
  if (focus.query === null || focus.key === null) return;
  for (const [colour, width] of [[theme.page, 5], [theme.ink, 2.5]]) {
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.strokeRect(left + focus.key * cell - 1, top + focus.query * cell - 1, cell + 1, cell + 1);
  }
}

/* Blits the kept picture and draws what depends on the place looked at: the only drawing that a hover costs. */
function paintMap(explorer) {
  const { theme, parts, base } = explorer;
  const map = currentMap(explorer);
  const geometry = geometryOf(explorer, explorer.kind);
  const focus = focusOf(explorer);
  const { spread, received } = measure(map);
  const context = prepareCanvas(parts.map, geometry.width, geometry.height);
  context.drawImage(base, 0, 0, geometry.width, geometry.height);
  drawLabels(context, explorer, geometry, focus);
  if (focus.query !== null) drawSpread(context, theme, map, geometry, focus.query, spread[focus.query], true);
  if (focus.key !== null) drawReceived(context, theme, geometry, focus.key, received, true);
  const named = focus.key ?? received.indexOf(Math.max(...received));
  const colour = focus.key === null ? "ink2" : "ink";
  const shareX = geometry.left + (named + 0.5) * geometry.cell;
  const shareY = geometry.top + geometry.gridHeight + 8 + receivedHeight(received, named) + 9;
  text(context, theme, percent(received[named]), shareX, shareY, { size: 12, colour, align: "center" });
  drawFocus(context, explorer, geometry, focus);
}

/* Tells page and tests where the cells lie; done when the geometry changes, not at each paint. */
function placeMap(explorer) {
  const { map } = explorer.parts;
  const geometry = geometryOf(explorer, explorer.kind);
  map.style.width = `${geometry.width}px`;
  map.style.height = `${geometry.height}px`;
  map.dataset.left = geometry.left;
  map.dataset.top = geometry.top;
  map.dataset.cell = geometry.cell;
}

function listenToMap(explorer) {
  const { map } = explorer.parts;
  const placeOf = (event) => {
    const box = map.getBoundingClientRect();
    return placeAt(geometryOf(explorer, explorer.kind), event.clientX - box.left, event.clientY - box.top);
  };
  map.addEventListener("pointermove", (event) => {
    if (event.pointerType === "touch") return;
    const place = placeOf(event);
    if (place) showPreview(explorer, place.query, place.key);
    else endPreview(explorer);
  });
  map.addEventListener("pointerleave", () => endPreview(explorer));
  map.addEventListener("click", (event) => {
    const place = placeOf(event);
    if (place) keep(explorer, place.query, place.key);
    else letGo(explorer);
  });
}
