// Records what canvases draw, as commands in CSS pixels of the canvas. Runs before the page's scripts.

window.drawnOn = (() => {
  const own = CanvasRenderingContext2D.prototype;
  const original = Object.fromEntries(Object.getOwnPropertyNames(own).flatMap((name) => {
    const { value } = Object.getOwnPropertyDescriptor(own, name);
    return typeof value === "function" ? [[name, value]] : [];
  }));
  const commands = new WeakMap(); // by canvas
  const paths = new WeakMap(); // by context: the points of the current path, transformed
  const clips = new WeakMap(); // by context: a stack of clip boxes
  const of = (map, key) => map.get(key) ?? map.set(key, []).get(key);

  const at = (context, x, y) => {
    const { a, b, c, d, e, f } = original.getTransform.call(context);
    return [a * x + c * y + e, b * x + d * y + f];
  };
  const boxOf = (points) => {
    const [xs, ys] = [0, 1].map((axis) => points.map((point) => point[axis]));
    const [x, y] = [Math.min(...xs), Math.min(...ys)];
    return { x, y, width: Math.max(...xs) - x, height: Math.max(...ys) - y };
  };
  const corners = (context, x, y, width, height) => [
    at(context, x, y), at(context, x + width, y), at(context, x + width, y + height), at(context, x, y + height),
  ];
  const stretch = (context) => Math.hypot(...at(context, 1, 0).map((value, axis) => value - at(context, 0, 0)[axis]));
  const look = (context) => ({
    fill: String(context.fillStyle), stroke: String(context.strokeStyle), thickness: context.lineWidth * stretch(context),
    alpha: context.globalAlpha, dash: original.getLineDash.call(context).map((part) => part * stretch(context)),
    clip: of(clips, context).at(-1)?.box ?? null,
  });
  const note = (context, what, box, more = {}) => of(commands, context.canvas).push({ what, ...box, ...look(context), ...more });

  const replaced = {
    fillRect(...box) { note(this, "fill", boxOf(corners(this, ...box))); },
    strokeRect(...box) { note(this, "frame", boxOf(corners(this, ...box))); },
    fillText(words, x, y) {
      const [[left, top], [right, bottom]] = [at(this, x, y), at(this, x + 1, y)];
      const width = original.measureText.call(this, words).width * stretch(this);
      const turn = Math.atan2(bottom - top, right - left);
      note(this, "text", { x: left, y: top, width, height: 0 }, { words: String(words), turn, align: this.textAlign, font: this.font });
    },
    beginPath() { paths.set(this, []); },
    moveTo(x, y) { of(paths, this).push([at(this, x, y)]); },
    lineTo(x, y) { (of(paths, this).at(-1) ?? (paths.get(this).push([]), paths.get(this).at(-1))).push(at(this, x, y)); },
    bezierCurveTo(...points) { for (let i = 0; i < 6; i += 2) of(paths, this).at(-1).push(at(this, points[i], points[i + 1])); },
    rect(...box) { of(paths, this).push([...corners(this, ...box), corners(this, ...box)[0]]); },
    arc(x, y, radius) { of(paths, this).push(corners(this, x - radius, y - radius, 2 * radius, 2 * radius)); },
    closePath() { const line = of(paths, this).at(-1); if (line?.length) line.push(line[0]); },
    stroke() { notePath(this, "line"); },
    fill() { notePath(this, "area"); },
    save() { of(clips, this).push({ ...of(clips, this).at(-1) }); },
    restore() { of(clips, this).pop(); },
    clip() {
      const stack = of(clips, this);
      if (!stack.length) stack.push({});
      stack.at(-1).box = boxOf(of(paths, this).flat());
    },
    clearRect(...box) {
      const { x, y, width, height } = boxOf(corners(this, ...box));
      const isGone = (one) => one.x >= x - 0.5 && one.y >= y - 0.5 && one.x + one.width <= x + width + 0.5 && one.y + one.height <= y + height + 0.5;
      const isAll = x <= 0 && y <= 0 && x + width >= this.canvas.width && y + height >= this.canvas.height;
      commands.set(this.canvas, isAll ? [] : of(commands, this.canvas).filter((one) => !isGone(one)));
    },
    putImageData(image, x, y) {
      const pixels = { columns: image.width, rows: image.height, pixels: [...image.data] };
      commands.set(this.canvas, [{ what: "pixels", x, y, width: image.width, height: image.height, ...look(this), ...pixels }]);
    },
    drawImage(image, ...place) { noteImage(this, image, place); },
  };
  const notePath = (context, what) => {
    const lines = of(paths, context).filter((line) => line.length);
    if (lines.length) note(context, what, boxOf(lines.flat()), { lines: lines.map((line) => [...line]) });
  };
  /* The commands of a canvas that is copied, moved and scaled; those outside the copied part are left out. */
  const noteImage = (context, image, place) => {
    const [sx, sy, sw, sh, x, y, width, height] = place.length === 8 ? place
      : [0, 0, image.width, image.height, place[0], place[1], place[2] ?? image.width, place[3] ?? image.height];
    const move = ([px, py]) => at(context, x + ((px - sx) * width) / sw, y + ((py - sy) * height) / sh);
    const copied = (commands.get(image) ?? []).filter((one) => one.x < sx + sw && one.y < sy + sh && one.x + one.width >= sx && one.y + one.height >= sy);
    for (const one of copied) {
      const box = boxOf([move([one.x, one.y]), move([one.x + one.width, one.y + one.height])]);
      const lines = one.lines?.map((line) => line.map(move));
      of(commands, context.canvas).push({ ...one, ...box, ...(lines ? { lines } : {}), clip: one.clip && boxOf([move([one.clip.x, one.clip.y]), move([one.clip.x + one.clip.width, one.clip.y + one.clip.height])]) });
    }
  };
  for (const [name, record] of Object.entries(replaced)) {
    own[name] = function (...given) {
      record.apply(this, given);
      return original[name].apply(this, given);
    };
  }
  // Setting a canvas's size clears it.
  for (const side of ["width", "height"]) {
    const { get, set } = Object.getOwnPropertyDescriptor(HTMLCanvasElement.prototype, side);
    const clear = function (value) {
      commands.set(this, []);
      clips.set(this, []);
      set.call(this, value);
    };
    Object.defineProperty(HTMLCanvasElement.prototype, side, { get, set: clear, configurable: true });
  }

  /* The commands of a canvas, first drawn first, in CSS pixels: a canvas in the page may have more pixels than that. */
  return (canvas) => {
    const ratio = canvas.clientWidth ? canvas.width / canvas.clientWidth : 1;
    const scaled = (value) => value / ratio;
    const box = ({ x, y, width, height }) => ({ x: scaled(x), y: scaled(y), width: scaled(width), height: scaled(height) });
    return (commands.get(canvas) ?? []).map((one) => ({
      ...one, ...box(one), thickness: scaled(one.thickness), dash: one.dash.map(scaled), clip: one.clip && box(one.clip),
      lines: (one.lines ?? []).map((line) => line.map((point) => point.map(scaled))),
    }));
  };
})();
