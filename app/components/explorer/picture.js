// Paints the chosen view, map or lines, on the one canvas that shows it, and hears the pointer there.

/* `still` is what stays while the place looked at changes: it is drawn once. Of the lines nearly nothing stays. */
const VIEWS = {
  map: { still: drawStillMap, live: drawLiveMap, at: placeAt },
  lines: { still: null, live: drawLines, at: lineAt },
};

/* The lines' geometry is measured once a paint of the head; the map's is kept by kind. */
function shownGeometry(explorer) {
  if (explorer.view === "map") return geometryOf(explorer, explorer.kind);
  explorer.linesGeometry ??= linesGeometry(explorer);
  return explorer.linesGeometry;
}

function drawBase(explorer) {
  const { still } = VIEWS[explorer.view];
  if (!still) return;
  const geometry = shownGeometry(explorer);
  const context = prepareCanvas(explorer.base, geometry.width, geometry.height);
  still(context, explorer, geometry);
}

/* Blits the kept picture and draws what depends on the place looked at: the only drawing that a hover costs. */
function paintLive(explorer) {
  const geometry = shownGeometry(explorer);
  const context = prepareCanvas(explorer.parts.map, geometry.width, geometry.height);
  const { still, live } = VIEWS[explorer.view];
  if (still) context.drawImage(explorer.base, 0, 0, geometry.width, geometry.height);
  live(context, explorer, geometry);
}

function paintPicture(explorer) {
  drawBase(explorer);
  paintFocus(explorer);
}

/* Tells page and tests where the cells lie; done when the geometry changes, not at each paint. */
function placeMap(explorer) {
  const { map } = explorer.parts;
  explorer.linesGeometry = null;
  const geometry = shownGeometry(explorer);
  map.style.width = `${geometry.width}px`;
  map.style.height = `${geometry.height}px`;
  const isMap = explorer.view === "map";
  map.dataset.left = isMap ? geometry.left : "";
  map.dataset.top = isMap ? geometry.top : "";
  map.dataset.cell = isMap ? geometry.cell : "";
  map.dataset.firstQuery = isMap ? geometry.first.query : "";
  map.dataset.firstKey = isMap ? geometry.first.key : "";
  const what = isMap ? "Attention map" : "Attention lines";
  const zoom = isMap ? " Plus and minus zoom." : "";
  map.setAttribute("aria-label", `${what}. Arrow keys move, Enter keeps, Escape lets go.${zoom}`);
}

function listenToPicture(explorer) {
  const { map } = explorer.parts;
  const placeOf = (event) => {
    const box = map.getBoundingClientRect();
    return VIEWS[explorer.view].at(shownGeometry(explorer), event.clientX - box.left, event.clientY - box.top);
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
