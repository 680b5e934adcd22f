// Mounts *Train one here* in the offline page: a separate script with a worker of its own, so that the page can translate meanwhile.

import { Random, TASKS } from "../network/training/tasks.js";
import { buttonOf, element, fillSelect, partsOf } from "../shared/dom.js";
import { fixed, percent, scientific } from "../shared/numbers.js";
import { save } from "../shared/save.js";
import { readTheme } from "../shared/theme.js";
import { trainingHost } from "../training/host.js";
import { renderTraining } from "../training/main.js";
import { choiceBox, numberBox } from "./lesson_parts.js";
import { filled, textsOf, verdictIn } from "./lesson_table.js";
import { readCheckpoint } from "./load_checkpoint.js";
import { chosenIn, configOf, linkOfSettings, settingsOf, withoutChange } from "./train_settings.js";

const NAMES = ["with the change", "without it"];
const PREDICTIONS = { copes: "yes", worse: "partly", fails: "no" };
const FILES = { open: ["Open in all pages", "Opening \u2026"], save: ["Save the network", "Saving \u2026"] }; // by use; while it is made
const DRAWN = 5; // examples of a network that is opened
const FOUND = 0.5; // the share of its weight on the right tokens with which a head finds them

/* The view of the maps lives in the page, as the link's view is that of a sentence. */
const hostOfMaps = () => {
  const host = trainingHost(() => {});
  let kept = {};
  return { ...host, link: { ...host.link, read: () => kept, write: (changes) => (kept = { ...kept, ...changes }), listen: () => () => {} } };
};

/**
 * Mount the page in an element, hidden until it is shown.
 * @param {object} page
 * @param {HTMLElement} page.place
 * @param {DocumentFragment} page.files  style, page and training component
 * @param {LessonTable & {tasks: Record<string, {tokenizer: object | null, sides: string[], languages: string[]}>}} page.table  given pairs have
 *   no tokenizer yet
 * @param {string} page.script  of the worker
 * @param {() => Record<string, string>} page.link  the parameters of the page's link
 * @param {(changes: Record<string, any>) => void} page.write  change them
 * @param {(name: string | null) => void} page.open  open another lesson, or none
 * @param {(model: object, stored: object, source: string) => Promise<void>} page.offer  a network to all pages, and translate
 * @returns {(name: string | null) => Promise<void>} show it; null for no lesson
 */
export function mountTrain({ place, files, table, script, link, write, open, offer }) {
  const root = place.shadowRoot ?? place.attachShadow({ mode: "open" });
  const nodes = [.../** @type {DocumentFragment} */ (files.cloneNode(true)).children]; // in the page only while they are shown
  const page = /** @type {HTMLElement} */ (nodes.find((node) => node.matches(".state-page"))), parts = partsOf(page), say = textsOf(table);
  const drawing = /** @type {HTMLElement} */ (nodes.find((node) => node.matches(".training")));
  const tasks = Object.keys(table.tasks), settings = settingsOf(table), { experiments } = table.rules;
  const address = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  let worker = null, turn = 0, chosen = null, state = null, predicted = null, refused = "", isDue = false, making = null;

  const begin = () => {
    const started = new Worker(address);
    started.addEventListener("message", ({ data }) => {
      if (data.turn !== turn) return;
      if (data.use) return void useFile(data.use, data.bytes);
      making = null; // the worker answers a command once more when it has carried it out
      refused = data.refused || refused;
      state = data.payload ? data : null;
      paintSoon();
    });
    started.addEventListener("error", ({ message }) => (parts.problem.textContent = `The training stopped (${message}): press Start again.`));
    return started;
  };
  const tell = (ask, fields = {}) => {
    refused = "";
    worker.postMessage({ ask, ...fields }, []);
  };

  /* The worker may be faster than the screen. */
  const paintSoon = () => {
    if (!isDue) requestAnimationFrame(() => ((isDue = false), paint()));
    isDue = true;
  };

  function start() {
    const { train_task: task, train_seed: seed } = chosen, { tokenizer, languages, sides } = table.tasks[task];
    const config = configOf(chosen), other = withoutChange(config), pasted = parts.pairs.value;
    worker?.terminate(); // it may be in the middle of a step
    [worker, state, predicted, refused, making] = [begin(), null, null, "", null];
    const about = { name: `${task}, seed ${seed}`, languages };
    if (tokenizer || pasted.trim()) tell("start", { turn: ++turn, task, tokenizer, pasted, about, sides, names: NAMES, configs: other ? [config, other] : [config] });
    else refused = say("pairs.none");
    if (parts.fast.checked) tell("fast", { on: true });
    parts.compared.hidden = parts.prediction.hidden = !other;
    parts.shown.value = "0";
    parts.examples.replaceChildren(); // of the task
  }

  /* Save the network, or offer it to all pages. */
  async function useFile(use, bytes) {
    if (use === "save") return save(`headlight_${chosen.train_task}.zip`, new Blob([bytes]));
    try {
      const { config, stored } = await readCheckpoint(bytes), watched = use === "open" ? state : { source: "", examples: [] };
      const model = modelOfFile(config, watched.examples.slice(0, DRAWN));
      await offer(model, stored, watched.source || (model.examples[0]?.text ?? ""));
    } catch (error) {
      refused = error.message;
      paint();
    }
    return undefined;
  }

  /* What the page lists of a network. Examples of a generated task come with their answers. */
  function modelOfFile({ training, source_language: from, target_language: to, parameters }, sources) {
    const [task] = Object.keys(training.corpora), { positions, bug } = training.settings, random = new Random(0);
    const drawn = TASKS[task] ? Array.from({ length: DRAWN }, () => TASKS[task].draw(random)) : sources.map((source) => ({ source, target: "" }));
    const [source, target] = Object.values(table.tasks).find(({ sides }) => sides.join() === `${from},${to}`)?.languages ?? [from, to];
    const note = [say("card.trained", { task, steps: fixed(training.steps_done, 0), seconds: fixed(training.seconds, 0) })];
    if (positions === "none") note.push(say("card.positions"));
    if (bug) note.push(say("card.mistake", { mistake: say(`mistake.${bug}`) }));
    return {
      direction: `${from}-${to}`, name: task, source, target, learned: task, precision: "fp16", parameters, sha256: "", tour: [], plan: false,
      left_out: [], certainty: {}, pairs: [], note: note.join(" "),
      examples: drawn.map((one) => ({ title: one.source, text: one.source, hint: "", reference: one.target, view: null })),
    };
  }

  function choose(changes) {
    write(linkOfSettings({ ...chosen, ...changes }, settings));
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
    const boxes = Object.entries(settings).filter(([name]) => name !== "train_task").map(([name, { label, options, most, usual }]) => {
      const change = () => choose(chosenIn({ ...chosen, [name]: control.value }, settings));
      const words = () => options.map((one) => /** @type {[string, string]} */ ([String(one), wordOf(name, one)]));
      const { box } = options ? choiceBox(label, words(), change) : numberBox(label, { least: 0, most, usual }, change);
      const control = /** @type {HTMLInputElement} */ (box.lastElementChild);
      control.dataset.name = name;
      return box;
    });
    parts.settings.replaceChildren(...boxes);
  }
  const wordOf = (name, value) => (name === "train_bug" ? say(`mistake.${value}`) : String(value));

  function paintSettings() {
    for (const control of /** @type {NodeListOf<HTMLInputElement>} */ (parts.settings.querySelectorAll("[data-name]"))) control.value = chosen[control.dataset.name];
    press(parts.tasks, chosen.train_task);
    parts.learns.textContent = say(`learns.${chosen.train_task}`);
    parts.pasted.hidden = table.tasks[chosen.train_task].tokenizer !== null;
    const { train_task: _, ...changed } = linkOfSettings(chosen, settings), named = Object.entries(changed).filter(([, value]) => value !== null);
    const described = named.map(([name, value]) => `${settings[name].label.toLowerCase()}: ${wordOf(name, value)}`);
    parts.described.textContent = described.length ? `(${described.join(" \u00b7 ")})` : "";
    for (const button of parts.experiments.children) {
      const own = chosenIn(experiments[button.dataset.name], settings);
      button.disabled = Object.keys(own).every((name) => own[name] === chosen[name]);
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
    const { step, exact, over, seconds, best, few } = state;
    if (!step) return rich("lead.untrained");
    const found = best.filter(({ share }) => share >= FOUND);
    const heads = found.map(({ part, layer, head, share }) => say("lead.finds", { head: `Head ${layer + 1}.${head + 1}`, part, share: percent(share) }));
    const said = [...(found.length || !best.length ? heads : [say("lead.none")]), ...(few ? [say("lead.same", { few })] : [])];
    return [...rich(`lead.${over ? "over" : "running"}`, { step: fixed(step, 0), seconds: fixed(seconds, 0), exact: percent(exact) }), ...said.flatMap((one) => [" ", one])];
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
    if (place.hidden) return;
    parts.problem.textContent = state?.problem || refused;
    for (const part of ["run", "step", "again", "open", "save", "example"]) parts[part].disabled = !state;
    for (const [use, words] of Object.entries(FILES)) parts[use].textContent = words[Number(making === use)];
    for (const node of [parts.lead, parts.verdict, parts.written.parentElement, drawing]) node.hidden = !state;
    if (!state) return;
    const { step, running, over, source, target, written, examples, payload } = state;
    parts.run.textContent = running ? "Pause" : step ? "Go on" : "Train";
    parts.run.disabled = over;
    parts.step.disabled = running || over;
    parts.again.disabled = !step;
    parts.open.disabled = !step || making !== null;
    parts.save.disabled = parts.open.disabled || running;
    for (const button of parts.predictions.children) button.disabled = step > 0;
    press(parts.predictions, predicted);
    parts.verdict.textContent = verdict();
    parts.lead.replaceChildren(...leadOf());
    parts.written.replaceChildren(...rich(`written.${!target ? "own" : written === target ? "right" : "wrong"}`, { source, target, written: written || "\u2026" }));
    if (parts.examples.children.length === 0) parts.examples.replaceChildren(...examples.map((value) => Object.assign(element("option", "", ""), { value })));
    renderTraining({ data: payload, parentElement: root, key: "trained", makeHost: hostOfMaps });
  }

  const show = async (name) => {
    const isOther = place.hidden;
    place.hidden = name !== "train";
    if (place.hidden) return void root.replaceChildren();
    if (isOther) root.replaceChildren(...nodes);
    readTheme(page);
    const asked = chosenIn(link(), settings);
    if (JSON.stringify(asked) !== JSON.stringify(chosen)) {
      chosen = asked;
      start();
    }
    paintSettings();
    paint();
    if (isOther) parts.title.focus();
  };

  fillButtons(parts.tasks, tasks, (name) => say(`tasks.${name}`), (name) => choose({ train_task: name }));
  fillButtons(parts.experiments, Object.keys(experiments), (name) => say(`experiments.${name}.name`), (name) => choose(chosenIn(experiments[name], settings)));
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
    if (parts.example.value.trim()) tell("watch", { source: parts.example.value.trim() });
    parts.example.value = "";
  });
  parts["pasted-label"].textContent = say("pairs.label");
  parts.pairs.placeholder = say("pairs.shown");
  parts.pairs.addEventListener("change", () => {
    start();
    paint();
  });
  parts.fast.addEventListener("change", () => tell("fast", { on: parts.fast.checked }));
  for (const use of Object.keys(FILES))
    parts[use].addEventListener("click", () => {
      making = use;
      tell("file", { use });
      paint();
    });
  parts.load.addEventListener("click", () => parts.given.click());
  parts.given.addEventListener("change", async () => {
    await useFile("load", new Uint8Array(await parts.given.files[0].arrayBuffer()));
    parts.given.value = "";
  });
  parts.close.addEventListener("click", () => open(null));
  return show;
}
