// Mounts the training page: an explorer of one sentence, and a timeline that moves it through the points of training.

import { render } from "../explorer/main.js";
import { CHOSEN } from "../explorer/together.js";
import { sameBytes, unpack } from "../shared/bytes.js";
import { buttonOf, element, fillSelect, partsOf, pointIn } from "../shared/dom.js";
import { handled } from "../shared/keys.js";
import { lastStates, mounts, onceFontsCome, onNewSize } from "../shared/mounts.js";
import { between, fixed, percent } from "../shared/numbers.js";
import { copyBase, prepareCanvas } from "../shared/plot.js";
import { fillSaves } from "../shared/saves.js";
import { renewTheme } from "../shared/theme.js";
import { trainingHost } from "./host.js";
import { KIND_NAMES, lanesOf, nameOfHead, viewName } from "./lanes.js";
import { decodeRun, explorerPayload, GROUP, headsOf, stepName } from "./run.js";
import { saveTimeline } from "./saving.js";
import { drawLiveTimeline, drawStillTimeline, laneAt, markAt, pointAt, timelineGeometry } from "./timeline.js";

const POINT_EVERY = 450; // ms while playing
const LINK_DELAY = 120; // ms: browsers throttle changes of the URL
const [NARROW, BESIDE] = [700, 960]; // px of the page

function createTraining(parent, key, makeHost = trainingHost) {
  const root = parent.querySelector(".training");
  const own = Object.entries(partsOf(root)).filter(([, part]) => !part.closest(".explorer"));
  /** @type {TrainingView} */
  const view = {
    key,
    parent,
    root,
    parts: Object.fromEntries(own),
    base: document.createElement("canvas"),
    bytes: null,
    run: null,
    theme: null,
    given: "",
    sentence: 0,
    start: 0,
    point: 0,
    link: {},
    first: "0 0 ", // layer, head and row of the view that nobody has chosen
    lanes: [],
    geometry: null,
    size: "",
    playing: 0,
    linkTimer: 0,
    painted: 0,
    explorerGone: () => {},
    host: null,
  };
  view.host = makeHost((link) => showLink(view, link));
  listenToTransport(view);
  listenToLanes(view);
  const follow = (/** @type {any} */ { detail }) => {
    if (detail.together === GROUP && detail.explorer !== view && view.run) showLink(view, detail.link);
  };
  window.addEventListener(CHOSEN, follow);
  const check = () => {
    // Skip hidden tabs: they have no width.
    if (view.run && root.clientWidth && view.size !== sizeOfTraining(view)) layOutTimeline(view);
  };
  const stopWatching = onNewSize(root, check);
  onceFontsCome(root, () => view.run && layOutTimeline(view));
  view.destroy = () => {
    stopRun(view);
    clearTimeout(view.linkTimer);
    window.removeEventListener(CHOSEN, follow);
    stopWatching();
    view.explorerGone();
  };
  return view;
}

/** Show new data: another run keeps the sentence and the nearest step; a new link is followed. @param {TrainingView} view */
function applyRun(view, bytes) {
  const { opened, ...rest } = unpack(bytes);
  const before = view.run;
  const run = decodeRun(rest);
  Object.assign(view, { bytes, run });
  stopRun(view);
  const given = JSON.stringify(opened);
  const last = lastStates.get(view.key);
  const followed = before ? view.given !== given : last?.given !== given;
  const { sentence, step, start, ...link } = opened;
  Object.assign(view, { given, start: start ?? run.lastStep });
  if (followed) {
    Object.assign(view, { sentence, point: nearestPoint(run, step ?? view.start), link });
  } else {
    const at = before ? { sentence: view.sentence, step: before.steps[view.point], link: view.link } : last;
    const follows = run.live && at.step === (before ?? run).lastStep; // the last point stays the last
    Object.assign(view, { sentence: at.sentence, point: follows ? run.points - 1 : nearestPoint(run, at.step), link: at.link });
  }
  view.sentence = between(0, view.sentence, run.sentences.length - 1);
  const sentences = run.sentences.map(({ source_text, translation }) => `${source_text} \u2192 ${translation}`);
  fillSelect(view.parts["training-sentence"], [...sentences.entries()]);
  view.root.classList.toggle("live", run.live);
  view.parts["training-sentence"].closest("div").hidden = sentences.length < 2;
  view.parts.point.max = run.points - 1;
  view.parts.meanings.dataset.kind = "";
  buildMarks(view);
}

/** @param {Run} run */
const nearestPoint = ({ steps }, step) =>
  steps.reduce((best, at, point) => (Math.abs(at - step) < Math.abs(steps[best] - step) ? point : best), 0);

/** Render the explorer at the shown sentence and point. @param {TrainingView} view */
function showMaps(view) {
  const { run, sentence, point, link, parent, key, host } = view;
  const data = explorerPayload(run, sentence, point, link);
  view.explorerGone = render({ data, parentElement: parent, key: `${key} explorer`, host });
}

/** Go to a point of training. @param {TrainingView} view */
function goToPoint(view, point, spoken = false) {
  const next = between(0, point, view.run.points - 1);
  if (next === view.point) return;
  view.point = next;
  showMaps(view);
  paintPoint(view);
  if (spoken) view.parts["training-spoken"].textContent = pointInWords(view);
}

/** @param {TrainingView} view */
function chooseSentence(view, sentence) {
  view.sentence = sentence;
  view.link = { ...view.link, q: null, k: null };
  showMaps(view);
  layOutTimeline(view);
}

/** Follow the explorer's view. @param {TrainingView} view @param {Link} link */
function showLink(view, link) {
  const names = ["kind", "layer", "head", "q", "k", "words"];
  const same = names.every((name) => String(view.link[name] ?? "") === String(link[name] ?? ""));
  view.link = { ...link };
  if (!same) layOutTimeline(view);
}

/** @param {TrainingView} view @param {TrainingMark} mark */
function showHead(view, { kind, layer, head }) {
  const cell = view.link.kind === kind ? {} : { q: null, k: null };
  const link = { ...view.link, kind, layer, head, ...cell };
  window.dispatchEvent(new CustomEvent(CHOSEN, { detail: { explorer: view, together: GROUP, link } }));
  showLink(view, link);
}

/** In a training, show the head that found something first, unless the visitor has chosen another. @param {TrainingView} view */
function showFound(view) {
  const { run, link, first } = view;
  const [found] = run.marks.filter(({ kind }) => run.live && kind === "cross").toSorted((one, other) => one.point - other.point);
  const isChosen = link.kind !== "cross" || `${link.layer} ${link.head} ${link.q ?? ""}` !== first;
  if (!found || isChosen) return;
  view.first = `${found.layer} ${found.head} `;
  if (view.first !== first) showHead(view, found);
}

/** Show a marked head at the point where it takes on its role. @param {TrainingView} view @param {TrainingMark} mark */
function openMark(view, mark) {
  showHead(view, mark);
  stopRun(view);
  goToPoint(view, mark.point, true);
}

/** @param {TrainingView} view */
function playRun(view) {
  if (view.playing) return stopRun(view);
  if (view.point === view.run.points - 1) goToPoint(view, 0);
  view.playing = window.setInterval(() => {
    goToPoint(view, view.point + 1);
    if (view.point === view.run.points - 1) stopRun(view);
  }, POINT_EVERY);
  return paintRun(view);
}

/** @param {TrainingView} view */
function stopRun(view) {
  clearInterval(view.playing);
  view.playing = 0;
  paintRun(view);
}

/** @param {TrainingView} view */
function paintRun({ parts, playing, run }) {
  parts.run.disabled = run.points < 2;
  parts.run.textContent = playing ? "Pause" : "Replay"; // Train is the page's play button
  parts.run.setAttribute("aria-label", playing ? "Pause" : "Replay the training");
}

/** @param {TrainingView} view */
function listenToTransport(view) {
  const { root, parts } = view;
  const walk = (by) => {
    stopRun(view);
    goToPoint(view, view.point + by, true);
  };
  parts.earlier.addEventListener("click", () => walk(-1));
  parts.later.addEventListener("click", () => walk(1));
  parts.run.addEventListener("click", () => playRun(view));
  parts.point.addEventListener("input", () => {
    stopRun(view);
    goToPoint(view, Number(parts.point.value));
  });
  parts["training-sentence"].addEventListener("change", () => chooseSentence(view, Number(parts["training-sentence"].value)));
  const keys = { ",": () => walk(-1), ".": () => walk(1), p: () => playRun(view) };
  // Capture these keys: the explorer would walk through decoding steps, which snapshots do not
  // have.
  root.addEventListener(
    "keydown",
    (/** @type {any} */ event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("select") || !keys[event.key]) return;
      handled(event);
      keys[event.key]();
    },
    true,
  );
  fillSaves(view.parts.saves, "the curves", (ending, captioned) => saveTimeline(view, ending, captioned));
}

/** Pressing or dragging moves the cursor; pressing a mark opens its head. @param {TrainingView} view */
function listenToLanes(view) {
  const { lanes } = view.parts;
  const placeOf = (event) => pointIn(lanes, event);
  const scrub = (event) => {
    stopRun(view);
    goToPoint(view, pointAt(view.geometry, placeOf(event)[0]));
  };
  lanes.addEventListener("pointerdown", (event) => {
    const [x, y] = placeOf(event);
    const mark = markAt(view.geometry, view.lanes, x, y);
    if (mark) openMark(view, mark);
    else if (x >= view.geometry.left) {
      lanes.setPointerCapture(event.pointerId);
      scrub(event);
    }
  });
  lanes.addEventListener("pointermove", (event) => {
    if (lanes.hasPointerCapture(event.pointerId)) return scrub(event);
    const [x, y] = placeOf(event);
    const mark = markAt(view.geometry, view.lanes, x, y);
    const lane = laneAt(view.geometry, y);
    const words = mark ? markInWords(view, mark) : lane === null ? "" : view.lanes[lane].meaning;
    if (lanes.title !== words) lanes.title = words;
    return undefined;
  });
}

/** @param {TrainingView} view @param {TrainingMark} mark */
function markInWords({ run }, mark) {
  const diagonal = mark.diagonal === null ? "" : `; ${percent(mark.diagonal)} of its rows then look at most one token off the diagonal`;
  return (
    `${KIND_NAMES[mark.kind]} ${nameOfHead(mark)}, ${mark.short}: from step ${fixed(run.steps[mark.point], 0)} on; ` +
    `${percent(mark.last)} at the last point${diagonal}. Click to show it.`
  );
}

/** List the marks of all kinds as buttons. @param {TrainingView} view */
function buildMarks(view) {
  const { run, parts } = view;
  const rows = new Map();
  for (const mark of run.marks) {
    const name = `${KIND_NAMES[mark.kind]}: ${mark.short}`;
    if (!rows.has(name)) rows.set(name, []);
    rows.get(name).push(mark);
  }
  const parted = [...rows].flatMap(([name, marks]) => {
    const buttons = marks.map((mark) => {
      const button = buttonOf("numbers");
      const diagonal = mark.diagonal === null ? "" : `, ${percent(mark.diagonal)} near the diagonal`;
      button.append(element("b", "", nameOfHead(mark)), ` step ${fixed(run.steps[mark.point], 0)}${diagonal}`);
      button.title = markInWords(view, mark);
      button.addEventListener("click", () => openMark(view, mark));
      Object.assign(button.dataset, { kind: mark.kind, layer: mark.layer, head: mark.head, point: mark.point });
      return button;
    });
    const list = element("dd");
    list.append(...buttons);
    return [element("dt", "", name), list];
  });
  if (!parted.length) parted.push(element("dd", "none", "No head has a role at the last point."));
  parts["marks-count"].textContent = `${run.marks.length} ${run.marks.length === 1 ? "mark" : "marks"}`;
  parts.marks.replaceChildren(...parted);
}

/** @param {TrainingView} view */
const sizeOfTraining = ({ root }) => `${root.clientWidth} ${window.devicePixelRatio}`;

/** Put the curves beside the maps if both fit, else below. @param {TrainingView} view */
function chooseWidth({ root }) {
  const width = root.clientWidth;
  root.dataset.width = width < NARROW ? "narrow" : width < BESIDE ? "wide" : "beside";
}

/** Draw everything that depends on the view, the sentence or the width. @param {TrainingView} view */
function layOutTimeline(view) {
  const { run, theme, parts, base, link } = view;
  chooseWidth(view);
  view.size = sizeOfTraining(view);
  view.lanes = lanesOf(run, view.sentence, link);
  view.geometry = timelineGeometry(run, view.lanes, parts.lanes.clientWidth, parts.lanes.clientWidth < NARROW);
  const { width, height, left } = view.geometry;
  parts.lanes.style.height = `${height}px`;
  Object.assign(parts.lanes.dataset, { left, tops: view.geometry.tops.join(" ") });
  const shown = headsOf(run, link);
  drawStillTimeline(prepareCanvas(base, width, height), theme, view.geometry, run, view.lanes, shown);
  parts["training-sentence"].value = String(view.sentence);
  paintMeanings(view);
  parts["bold-name"].textContent = `${KIND_NAMES[link.kind]} ${viewName(run, link)}`;
  parts["thin-name"].textContent = `each of the ${run.layers[link.kind] * run.heads} heads of this kind`;
  for (const button of parts.marks.querySelectorAll("button")) {
    const { kind, layer, head } = button.dataset;
    const chosen = kind === link.kind && shown.length === 1 && Number(layer) === shown[0][0] && Number(head) === shown[0][1];
    button.setAttribute("aria-pressed", String(chosen));
  }
  paintPoint(view);
}

/** Explain the measures of the shown kind. @param {TrainingView} view */
function paintMeanings({ parts, run, link }) {
  if (parts.meanings.dataset.kind === link.kind) return;
  parts.meanings.dataset.kind = String(link.kind);
  const lines = run.measures[link.kind].map(({ short, meaning }) => [element("b", "", short), `: ${meaning}`]);
  parts.meanings.replaceChildren(...lines.flatMap((line, place) => (place ? ["; ", ...line] : line)), ".");
}

/** Draw everything that depends on the point. @param {TrainingView} view */
function paintPoint(view) {
  const { root, parts, base, theme, run, geometry, lanes, link, point } = view;
  drawLiveTimeline(copyBase(parts.lanes, base, geometry), theme, geometry, lanes, point, viewName(run, link));
  parts.point.value = String(point);
  parts.at.textContent = fixed(run.steps[point], 0);
  parts.earlier.disabled = point === 0;
  parts.later.disabled = point === run.points - 1;
  parts.point.setAttribute("aria-valuetext", pointInWords(view));
  parts.lanes.setAttribute("aria-label", `Curves over the points of training. ${pointInWords(view)}`);
  Object.assign(root.dataset, { sentence: view.sentence, point, step: run.steps[point], painted: String(++view.painted) });
  rememberPoint(view);
}

/** @param {TrainingView} view */
function pointInWords({ run, point, lanes, link }) {
  const values = lanes
    .filter((lane) => lane.curve)
    .map((lane) => `${lane.title} ${lane.shown(lane.curve[point])}${lane.unit}`);
  return `${stepName(run, point)}: ${values.join(", ")}; ${KIND_NAMES[link.kind]}, ${viewName(run, link)}`;
}

/**
 * Remember sentence and step for a return to this page, and write them to the link.
 * @param {TrainingView} view
 */
function rememberPoint(view) {
  const { key, given, sentence, point, run, link, host } = view;
  lastStates.set(key, { given, sentence, step: run.steps[point], link });
  clearTimeout(view.linkTimer);
  view.linkTimer = window.setTimeout(() => {
    const step = run.steps[point];
    host.link.write({ sentence: sentence || null, step: step === view.start ? null : step });
  }, LINK_DELAY);
}

const trainingAt = mounts(createTraining);

/* Streamlit calls this for every change of data or theme; another page gives the component a host of its own. */
export function renderTraining({ data, parentElement, key, makeHost = trainingHost }) {
  const view = trainingAt(parentElement, key, makeHost);
  renewTheme(view, view.root);
  if (!sameBytes(view.bytes, data)) applyRun(view, data);
  chooseWidth(view);
  showMaps(view);
  layOutTimeline(view);
  showFound(view);
  return view.destroy;
}
