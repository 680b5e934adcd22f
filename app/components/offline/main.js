// The page without a server: reads the choice from the fragment, has the worker translate it, and shows the explorer.

import { withProbabilities } from "../explorer/data.js";
import { render } from "../explorer/main.js";
import { asFloats, unpack } from "../shared/bytes.js";
import { confirmComplete, damagedTexts } from "../shared/checksum.js";
import { labelOf } from "../shared/labels.js";
import { save } from "../shared/save.js";
import { displayTokens, tokenName } from "../shared/tokens.js";
import { BEAMS, choiceOf, languagesOf, linkOfChoice, modelOf, searchName } from "./choice.js";
import { leastCertain, lessCertain, reasonsToDoubt, typographyNote } from "./doubts.js";
import { listenToForm, paintForm } from "./form.js";
import { isFragmentEscaped, onFragment, readFragment, writeFragment } from "./fragment.js";
import { offlineHost } from "./host.js";
import { lessonPlace } from "./lesson_place.js";
import { linkOfStop, listenToTour, unknownStop } from "./tour.js";
import { takeWeights } from "./weights_text.js";
import { startWorker } from "./worker_client.js";

/**
 * @typedef {import("./choice.js").Choice} Choice
 * @typedef {import("./choice.js").OfflineModel} OfflineModel
 */

/* Parameters of a link that set the explorer's view; without `kind`, all are ignored. */
const VIEW = ["kind", "layer", "head", "view", "words", "hide", "sort", "effect", "combine", "quantity", "mass", "states", "q", "k"];

const ESCAPED_LINK = "In this link, & had become &amp;. It was read as meant.";

const LOST_NETWORK = "The network of this link was trained in a tab that is closed: train it again, or load it if it was saved.";

/** The page's elements by name. @returns {Record<string, any>} */
const pageParts = () => {
  const parts = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-page]"));
  return Object.fromEntries([...parts].map((part) => [part.dataset.page, part]));
};

/* Return the view of a link, or null if it has none: `openingView` then picks a head. */
function viewOfFragment(link) {
  return link.kind ? Object.fromEntries(VIEW.filter((name) => name in link).map((name) => [name, link[name]])) : null;
}

/** Open the page: translate what its link says. */
export function openPage() {
  const parts = pageParts();
  document.body.classList.toggle("embed", new URLSearchParams(window.location.search).get("embed") === "1");
  /** @type {OfflineModel[]} */
  const models = JSON.parse(document.getElementById("models").textContent);
  const functionWords = JSON.parse(document.getElementById("function-words").textContent);
  const worker = startWorker(document.getElementById("worker").textContent, {
    onRestart: () => tell("status", "The network ended and starts again\u2026"),
    onSlow: () => tell("status", "Still computing. If this line stays, reload the page."),
  });
  const opened = new Map(); // by direction: a promise of the network
  const isOpen = new Set();

  /* Pass a direction's weights to the worker, once. The worker refuses damaged weights. */
  const open = (direction) => {
    if (!opened.has(direction)) opened.set(direction, openNetwork(direction));
    return opened.get(direction);
  };
  const openChosen = async () => {
    const { direction, from, to } = choice, model = modelOf(models, direction);
    await open(direction);
    if (model.spoken) await worker.ask("speak", { direction, codes: [from, to], names: languagesOf(model, choice) }, { known: `speak ${direction}` });
  };
  const openNetwork = async (direction) => {
    const plain = readFragment().plain === "1"; // for comparisons, and to test browsers without WebAssembly
    const { sha256 } = modelOf(models, direction);
    const fields = async () => ({ direction, weights: await takeWeights(direction), sha256, plain });
    const { simd } = await worker.ask("open", fields, { known: `open ${direction}`, moved: ["weights"] });
    tell("products", `Matrix products run as ${simd ? "WebAssembly" : "JavaScript, which takes longer than WebAssembly"}.`);
    isOpen.add(direction);
  };

  const planned = models.find(({ plan, tour }) => plan && tour.length);
  if (planned && !Object.keys(readFragment()).length) writeFragment(linkOfStop(planned, 1));
  let choice = choiceOf(readFragment(), models);
  let shown = null; // the last translation: its text, translation and payload
  const isLost = /-\d+$/.test(readFragment().direction ?? "");
  let remark = isFragmentEscaped() ? ESCAPED_LINK : isLost ? LOST_NETWORK : ""; // on the link
  let latest = 0; // number of the newest refresh; the answers of older ones are dropped

  const { host, deliver, navigate } = offlineHost({
    answer: async (name, value) => (await worker.ask("answer", { name, value })).answer,
    fail: (line) => tell("problem", line),
    edit: async (command, request) => {
      let problem = "";
      try {
        const { edits } = await worker.ask("edited", { edits: choice.edits, command });
        choice = Object.freeze({ ...choice, edits });
        writeFragment(linkOfChoice(choice), true);
      } catch (error) {
        problem = error.message;
      }
      await refresh(null, request);
      if (problem) tell("problem", problem);
    },
  });
  const paint = () => shown && render({ data: shown.payload, parentElement: parts.place, key: "explorer", host });

  /*
   * Translate the choice and show it. `view` is from a link, or null; `request` is the number of
   * the explorer's `edit` request that led here.
   */
  async function refresh(view, request = null) {
    const turn = ++latest;
    const { direction, source, target, beam, edits } = choice;
    paintForm(parts, models, choice, change);
    paintTour();
    document.title = source ? `${source} \u00b7 Headlight` : "Headlight";
    parts.own.hidden = true;
    tell("problem", unknownStop(modelOf(models, direction), readFragment().stop));
    tell("uncertain", "");
    tell("doubts", "");
    const lesson = lessons.paint();
    if (lessons.isOpen()) return lesson;
    if (!source) return showNothing(`Type a sentence in ${languagesOf(modelOf(models, direction), choice)[0]}, or choose an example.`);
    tell("status", isOpen.has(direction) ? "Translating\u2026" : "Reading the weights\u2026");
    tell("captions", "");
    parts.result.setAttribute("aria-busy", "true");
    try {
      await openChosen();
      const started = performance.now();
      const question = { direction, text: source, target: target || null, beam, edits, view, request };
      const answer = await worker.ask("translate", question, { known: "translate" });
      if (turn !== latest) return undefined;
      const again = edits ? worker.ask("again") : null; // the worker searches while this page paints
      shown = { source, translation: answer.translation, payload: answer.payload };
      parts.result.hidden = false;
      paint();
      tell("translation", answer.translation);
      tellDoubts(unpack(answer.payload));
      tellCaptions(unpack(answer.payload), source);
      tell("status", `${searchName(beam)}, computed in this page in ${Math.round(performance.now() - started)} ms.`);
      if (target) await ownTranslation(turn);
      if (again) await pass(turn, again, "The new translation could not be made");
      await pass(turn, worker.ask("checks"), "The checks could not be made");
    } catch (error) {
      if (turn !== latest) return undefined;
      showNothing("");
      tell("problem", error.message);
    } finally {
      if (turn === latest) parts.result.setAttribute("aria-busy", "false");
    }
    return undefined;
  }

  /* For a given target, also show what the network itself writes. */
  async function ownTranslation(turn) {
    const { direction, source, beam } = choice;
    const { record } = await worker.ask("inspect", { direction, text: source, beam, edits: "" });
    if (turn !== latest) return;
    parts.own.hidden = false;
    tell("own", `The network itself writes: ${record.translation}`);
  }

  /* Pass an answer that comes after the maps were painted to the explorer. A newer translation cancels it. */
  async function pass(turn, asked, failure) {
    try {
      const { answer } = await asked;
      if (turn === latest) deliver(answer);
    } catch (error) {
      if (turn === latest) tell("problem", `${failure}: ${error.message}`);
    }
  }

  /* Show the reasons to doubt the translation. */
  function tellDoubts({ source, source_text, source_language, translation, given_target, log_probs }) {
    const unknown = source.filter((token) => token.unknown).map(labelOf);
    const logProbs = asFloats(log_probs);
    const probability = given_target ? 1 : Math.exp(logProbs.reduce((sum, logProb) => sum + logProb, 0) / logProbs.length);
    const { learned, certainty } = modelOf(models, choice.direction);
    const limits = certainty[searchName(choice.beam).toLowerCase()];
    tell("uncertain", given_target || !limits ? "" : lessCertain(limits, probability));
    const doubted = { source: source_text, translation, language: source_language, unknown, probability: limits ? 1 : probability };
    const reasons = reasonsToDoubt(doubted, functionWords);
    tell(
      "doubts",
      reasons.length &&
        `Do not trust this translation: ${reasons.join("; ")}. The network was trained on ${learned}. The maps are still ` +
          "exact: they show what attention does when a translation cannot be trusted.",
    );
  }

  /* Notes on how the text was read, and the least certain token. */
  function tellCaptions({ target_out, log_probs, given_target }, typed) {
    const names = displayTokens(withProbabilities(target_out, asFloats(log_probs)), 1).map((token) => ({ name: tokenName(token), probability: token.probability }));
    tell("captions", [modelOf(models, choice.direction).note, remark, typographyNote(typed), given_target ? "" : leastCertain(names)].filter(Boolean).join(" "));
  }

  const tell = (part, line) => (parts[part].textContent = line || "");

  function showNothing(line) {
    shown = null;
    parts.result.hidden = true;
    tell("translation", "");
    tell("status", line);
  }

  /* `view` is that of an example: it is about the pass of the usual search, without edits. */
  function change(changes, view = null) {
    const next = Object.freeze({ ...choice, ...changes });
    if (view && next.beam === BEAMS.usual && !next.edits) return openLink({ ...linkOfChoice(next), ...view });
    const same = Object.keys(next).every((name) => next[name] === choice[name]);
    choice = next;
    remark = "";
    // Keep kind, layer and head, but not the pinned cell: it belongs to the earlier pass.
    if (!same) writeFragment({ ...linkOfChoice(choice), q: null, k: null }, true);
    return refresh(null);
  }

  const follow = () => {
    remark = isFragmentEscaped() ? ESCAPED_LINK : "";
    const link = readFragment();
    choice = choiceOf(link, models);
    navigate();
    return refresh(viewOfFragment(link));
  };

  /* Open a link, whose parameters replace all present ones. */
  const openLink = (link) => {
    writeFragment({ ...Object.fromEntries(Object.keys(readFragment()).map((name) => [name, null])), ...link }, true);
    return follow();
  };
  const paintTour = listenToTour(parts, {
    model: () => modelOf(models, choice.direction),
    other: () => models.find(({ direction, tour }) => direction !== choice.direction && tour.length),
    source: () => choice.source,
    link: readFragment,
    open: openLink,
    close: () => writeFragment({ stop: null }, true),
  });

  const openLesson = (name) => {
    writeFragment({ lesson: name, stop: null }, true);
    return follow();
  };
  const lessonPass = async (edits) => {
    const { direction, source, beam } = choice;
    const turn = latest;
    await openChosen();
    const answer = await worker.ask("lesson", { direction, text: source, beam, edits });
    if (!edits && turn === latest) tellDoubts(unpack(answer.payload));
    return answer;
  };
  /* Ask the worker about the page's sentence and another one. */
  const askStates = async (what, question) => {
    const { direction, source, beam } = choice;
    await openChosen();
    return worker.ask(what, { ...question, direction, text: source, beam });
  };
  const states = {
    ask: askStates,
    write: (changes) => writeFragment(changes, true),
    pairs: () => modelOf(models, choice.direction).pairs,
    source: () => choice.source,
    /* Both sentences of a pair, or the explorer on a sentence under edits. */
    openLink: (changes) => {
      writeFragment(changes, true);
      return follow();
    },
  };
  /* Offer a network that was trained or loaded here until the page is closed, and translate with it. */
  const offer = async (model, stored, source) => {
    const direction = `${model.direction}-${models.filter(({ note }) => note).length + 1}`;
    opened.set(direction, worker.ask("open", { direction, stored }, { known: `open ${direction}` }));
    await opened.get(direction);
    isOpen.add(direction);
    models.push({ ...model, direction });
    openLink({ direction, source });
  };
  const lessons = lessonPlace(parts, { link: readFragment, open: openLesson, pass: lessonPass, states, offer });

  listenToForm(parts, models, { choice: () => choice, shown: () => shown, change });
  onFragment(follow);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => (lessons.isOpen() ? lessons.paint() : paint()));
  // A link to the section's id would replace the state in the fragment.
  parts["to-about"].addEventListener("click", () => parts.about.scrollIntoView());
  parts["save-record"].addEventListener("click", async () => {
    const { npz, name } = await worker.ask("npz");
    save(name, new Blob([npz]));
  });
  const first = viewOfFragment(readFragment());
  writeFragment(linkOfChoice(choice)); // complete a link that left out the direction or the text
  const ready = refresh(first);
  /*
   * For programs: translate a text without showing it. `maps` are Float32Arrays [layer, head, query, key] by kind,
   * `source` and `target` the tokens, `ids` the target's, `logProbs` in nats. `addLessons`, `addStates` and `addTrain` are for the page's
   * next scripts, `confirm` for its last one: with the checksums of the page's texts by the ids of their elements.
   */
  const translate = async (text, { beam = choice.beam, edits = "" } = {}) => {
    const { direction } = choice;
    await openChosen();
    return (await worker.ask("inspect", { direction, text, beam, edits })).record;
  };
  const confirm = (checksums) => {
    const texts = Object.entries(checksums).map(([name, checksum]) => ({ name, checksum, text: document.getElementById(name)?.textContent }));
    confirmComplete(damagedTexts(texts.filter(({ text }) => text !== undefined))); // the worker checks the weights that it has
  };
  Object.assign(window, { headlight: Object.freeze({ ready, translate, addLessons: lessons.add, addStates: lessons.addStates, addTrain: lessons.addTrain, confirm }) });
}
