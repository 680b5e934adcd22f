// Mounts *Train one here* in the offline page: a separate script with a worker of its own, so that the page can translate meanwhile.

import { buttonOf, element, fillSelect, partsOf } from "../shared/dom.js";
import { fixed, percent, scientific } from "../shared/numbers.js";
import { readTheme } from "../shared/theme.js";
import { renderTraining } from "../training/main.js";
import { filled, textsOf, verdictIn } from "./lesson_table.js";
import { configOf, EXPERIMENTS, linkOfSettings, SETTINGS, settingsOf, withoutChange } from "./train_settings.js";

const NAMES = ["with the change", "without it"];
const PREDICTIONS = { copes: "yes", worse: "partly", fails: "no" };
const FOUND = 0.5; // the share of its weight on the right tokens with which a head finds them

/* The view of the maps lives in the page, as the link's view is that of a sentence. */
const hostOfMaps = () => {
  let kept = {};
  return {
    answers: new Set(),
    ask: () => {},
    listen: () => () => {},
    link: { read: () => kept, write: (changes) => (kept = { ...kept, ...changes }), listen: () => () => {}, url: () => window.location.href },
    headPage: null,
  };
};

/**
 * Mount the page in an element, hidden until it is shown.
 * @param {object} page
 * @param {HTMLElement} page.place
 * @param {DocumentFragment} page.files  style, page and training component
 * @param {LessonTable & {tasks: Record<string, {tokenizer: object, languages: string[]}>}} page.table
 * @param {string} page.script  of the worker
 * @param {() => Record<string, string>} page.link  the parameters of the page's link
 * @param {(changes: Record<string, any>) => void} page.write  change them
 * @param {(name: string | null) => void} page.open  open another lesson, or none
 * @returns {(name: string | null) => Promise<void>} show it; null for no lesson
 */
export function mountTrain({ place, files, table, script, link, write, open }) {
  const root = place.shadowRoot ?? place.attachShadow({ mode: "open" });
  const nodes = [.../** @type {DocumentFragment} */ (files.cloneNode(true)).children]; // in the page only while they are shown
  const page = /** @type {HTMLElement} */ (nodes.find((node) => node.matches(".state-page"))), parts = partsOf(page), say = textsOf(table);
  const tasks = Object.keys(table.tasks), mistakes = Object.keys(table.texts).flatMap((key) => (key.startsWith("mistake.") ? [key.slice(8)] : []));
  const address = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  let worker = null, turn = 0, settings = null, state = null, predicted = null, watched = null, isDue = false;

  const begin = () => {
    const started = new Worker(address);
    started.addEventListener("message", ({ data }) => {
      if (data.turn !== turn) return;
      state = data;
      paintSoon();
    });
    started.addEventListener("error", ({ message }) => (parts.problem.textContent = `The training stopped (${message}): press Start again.`));
    return started;
  };
  const tell = (ask, fields = {}) => worker.postMessage({ ask, ...fields }, []);

  /* The worker may be faster than the screen. */
  const paintSoon = () => {
    if (!isDue) requestAnimationFrame(() => ((isDue = false), paint()));
    isDue = true;
  };

  function start() {
    const { train_task: task, train_seed: seed } = settings, { tokenizer, languages } = table.tasks[task];
    const config = configOf(settings), other = withoutChange(config);
    worker?.terminate(); // it may be in the middle of a step
    [worker, state, predicted, watched] = [begin(), null, null, null];
    const about = { name: `${task}, seed ${seed}`, languages };
    tell("start", { turn: ++turn, task, tokenizer, about, names: NAMES, configs: other ? [config, other] : [config] });
    parts.compared.hidden = parts.prediction.hidden = !other;
    parts.shown.value = "0";
  }

  function choose(changes) {
    write(linkOfSettings({ ...settings, ...changes }, tasks));
    show("train");
  }

  /* A row of buttons, of which one may be pressed. */
  function fillButtons(parent, names, labelOf, choice) {
    parent.replaceChildren(...names.map((name) => {
      const button = buttonOf("", labelOf(name));
      button.dataset.name = name;
      button.addEventListener("click", () => choice(name));
      return button;
    }));
  }
  const press = (parent, name) => {
    for (const button of parent.children) button.setAttribute("aria-pressed", String(button.dataset.name === name));
  };

  function fillSettings() {
    const mistake = { label: "Train with a mistake", options: mistakes };
    const boxes = Object.entries({ ...SETTINGS, train_bug: mistake }).map(([name, { label, options }]) => {
      const select = element("select", "", "");
      select.dataset.name = name;
      select.replaceChildren(...options.map((one) => Object.assign(element("option", "", name === "train_bug" ? say(`mistake.${one}`) : String(one)), { value: one })));
      select.addEventListener("change", () => choose({ [name]: options[select.selectedIndex] }));
      return labelled(label, select);
    });
    const seed = Object.assign(element("input", "", ""), { type: "number", min: "0", max: "9999" });
    seed.dataset.name = "train_seed";
    seed.addEventListener("change", () => choose({ train_seed: Math.min(9999, Math.max(0, Math.trunc(Number(seed.value)))) }));
    parts.settings.replaceChildren(...boxes, labelled("Seed", seed));
  }
  const labelled = (label, control) => {
    const box = element("label", "choice-box", `${label} `);
    box.append(control);
    return box;
  };

  function paintSettings() {
    for (const control of /** @type {NodeListOf<HTMLInputElement>} */ (parts.settings.querySelectorAll("[data-name]"))) control.value = settings[control.dataset.name];
    press(parts.tasks, settings.train_task);
    parts.learns.textContent = say(`learns.${settings.train_task}`);
    const changed = linkOfSettings(settings, tasks), named = { ...SETTINGS, train_seed: { label: "Seed" }, train_bug: { label: "Mistake" } };
    const described = Object.entries(named).flatMap(([name, { label }]) => (changed[name] === null ? [] : [`${label.toLowerCase()}: ${name === "train_bug" ? say(`mistake.${changed[name]}`) : changed[name]}`]));
    parts.described.textContent = described.length ? `(${described.join(" \u00b7 ")})` : "";
    for (const button of parts.experiments.children) {
      const own = linkOfSettings(EXPERIMENTS[button.dataset.name], tasks);
      button.disabled = Object.keys(own).every((name) => own[name] === changed[name]);
    }
  }

  /* Fill a text in which ** and * enclose what is bold and italic; values may hold any character. */
  const rich = (key, values = {}) =>
    table.texts[key].split(/(\*\*.+?\*\*|\*.+?\*)/).map((part) => {
      const [, stars, inside] = /^(\*{1,2})(.+?)\1$/.exec(part) ?? [];
      return stars ? element(stars.length === 2 ? "b" : "em", "", filled(inside, values)) : filled(part, values);
    });

  /** How far the shown network is, and which head finds what. */
  function leadOf() {
    const { step, counted, exact, over, seconds, best } = state;
    if (!step) return rich("lead.untrained");
    const found = best.filter(({ share }) => share >= FOUND);
    const heads = found.map(({ part, layer, head, share }) => say("lead.finds", { head: `Head ${layer + 1}.${head + 1}`, part, share: percent(share) }));
    const said = found.length ? heads : [say("lead.none")];
    return [...rich(`lead.${over ? "over" : "running"}`, { step: fixed(counted, 0), seconds: fixed(seconds, 0), exact: percent(exact) }), ...said.flatMap((one) => [" ", one])];
  }

  /** What the change did to the network, beside the one without it. */
  function verdict() {
    const { step, running, over, measured: [changed, healthy] } = state;
    const paused = step > 0 && !running;
    if (!healthy || !(over || (paused && healthy.exact >= table.rules.learned))) return "";
    const outcome = verdictIn(table.rules.verdict, changed.exact - healthy.exact), significant = (value) => scientific(Number(value.toPrecision(2)));
    const [exact, loss] = [percent(changed.exact), significant(changed.loss)], [mostLoss, mostExact] = table.rules.cheats;
    const said = [say(`verdict.${outcome}`, { exact, loss, other_exact: percent(healthy.exact), other_loss: significant(healthy.loss) })];
    if (changed.loss <= mostLoss && changed.exact <= mostExact) said.push(say("verdict.cheats", { loss, exact }));
    if (predicted) said.push(say(`verdict.${predicted === outcome ? "right" : "wrong"}`));
    return said.join(" ");
  }

  function paint() {
    if (!state || place.hidden) return;
    const { step, running, over, problem, source, target, written, examples, payload } = state;
    parts.run.textContent = running ? "Pause" : step ? "Go on" : "Train";
    parts.run.disabled = over;
    parts.step.disabled = running || over;
    parts.again.disabled = !step;
    for (const button of parts.predictions.children) button.disabled = step > 0;
    press(parts.predictions, predicted);
    parts.problem.textContent = problem;
    parts.verdict.textContent = verdict();
    parts.lead.replaceChildren(...leadOf());
    parts.written.replaceChildren(...rich(`written.${written === target ? "right" : "wrong"}`, { source, target, written: written || "\u2026" }));
    if (!watched) fillSelect(parts.example, examples.map((one) => [one, one])); // of the task
    parts.example.value = watched ??= source; // what was asked for, even if the worker has not come to it
    renderTraining({ data: payload, parentElement: root, key: "trained", makeHost: hostOfMaps });
  }

  const show = async (name) => {
    const isOther = place.hidden;
    place.hidden = name !== "train";
    if (place.hidden) return void root.replaceChildren();
    if (isOther) root.replaceChildren(...nodes);
    readTheme(page);
    const asked = settingsOf(link(), tasks, mistakes);
    if (JSON.stringify(asked) !== JSON.stringify(settings)) {
      settings = asked;
      start();
    }
    paintSettings();
    paint();
    if (isOther) parts.title.focus();
  };

  fillButtons(parts.tasks, tasks, (name) => say(`tasks.${name}`), (name) => choose({ train_task: name }));
  fillButtons(parts.experiments, Object.keys(EXPERIMENTS), (name) => say(`experiments.${name}`), (name) => choose({ ...settingsOf({}, tasks, mistakes), ...EXPERIMENTS[name] }));
  fillButtons(parts.predictions, Object.keys(PREDICTIONS), (name) => say(`predict.${PREDICTIONS[name]}`), (name) => {
    predicted = name;
    paint();
  });
  parts.prompt.textContent = say("predict.prompt");
  fillSelect(parts.shown, [...NAMES.entries()]);
  fillSettings();
  parts.run.addEventListener("click", () => tell("run", { on: !state?.running }));
  parts.step.addEventListener("click", () => tell("step"));
  parts.again.addEventListener("click", () => start());
  parts.shown.addEventListener("change", () => tell("show", { shown: Number(parts.shown.value) }));
  parts.example.addEventListener("change", () => {
    watched = parts.example.value;
    tell("watch", { source: watched });
  });
  parts.close.addEventListener("click", () => open(null));
  return show;
}
