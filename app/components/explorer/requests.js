// Requests to Python: send, wait, and report a timeout or failure in one line.

import { currentMap } from "./focus.js";
import { isMasked, ROLLOUT } from "./maps.js";

const ANSWER_WITHIN = 20_000;

/*
 * Send `value` to Python as component state `name` (`by` sends it: as persistent state, or with `explorer.trigger` as a
 * one-time trigger). `what` names the response for the reader; `take` receives each new payload and returns whether it
 * holds the response; `giveUp` reverts what was shown while waiting.
 */
export function request(explorer, name, value, { what, take, giveUp = () => {}, by = explorer.setState }) {
  cancelRequest(explorer, name);
  const late = () => fail(explorer, name, `${what} did not arrive within ${ANSWER_WITHIN / 1000} s: choose it again.`);
  explorer.requests[name] = { take, giveUp, timer: setTimeout(late, ANSWER_WITHIN) };
  showError(explorer, "");
  by(name, value);
}

/** @param {Explorer} explorer */
export function cancelRequest(explorer, name) {
  clearTimeout(explorer.requests[name]?.timer);
  delete explorer.requests[name];
}

/** @param {Explorer} explorer */
function fail(explorer, name, line) {
  const waiting = explorer.requests[name];
  cancelRequest(explorer, name);
  showError(explorer, line);
  waiting?.giveUp();
}

const showError = ({ dom: { parts } }, line) => (parts["request-note"].textContent = line);

/** Match a new payload against pending requests: answered, refused or unrelated. @param {Explorer} explorer */
export function settleRequests(explorer) {
  const { data, requests } = explorer;
  for (const [name, line] of Object.entries(data.failed)) fail(explorer, name, line);
  for (const [name, { take }] of Object.entries(requests)) if (take(data)) cancelRequest(explorer, name);
}

/** Cancel pending requests, except `but`, when the sentence changes. @param {Explorer} explorer */
export function cancelRequests(explorer, but = null) {
  for (const name of Object.keys(explorer.requests)) if (name !== but) cancelRequest(explorer, name);
  showError(explorer, "");
}

/* The single maps from which the shown one is computed; null means all layers or all heads. */
function mapsBehind(data, { quantity, kind, layer, head }) {
  const rows = quantity === ROLLOUT ? 1 : data.heads;
  return {
    quantity,
    kind,
    layer: layer < data.layers[kind] ? layer : null,
    head: rows === 1 ? 0 : head < data.heads ? head : null,
  };
}

/** @param {Explorer} explorer */
const isExact = (explorer) => currentMap(explorer).error === 0;

/**
 * Call `then` with data that holds the shown map's exact numbers, requesting them if necessary.
 * @param {Explorer} explorer
 */
export function withExact(explorer, then) {
  const { data } = explorer;
  if (isExact(explorer)) return then(data);
  if (data.alone) return undefined;
  const chosen = { ...explorer };
  return request(explorer, "exact", { sentence: data.sentence, ...mapsBehind(data, explorer.view) }, {
    what: "The exact numbers",
    take: (held) => {
      if (!isExact({ ...chosen, data: held })) return false;
      then(held);
      return true;
    },
  });
}

/** Request the exact number of a pinned cell if only a rounded one was sent. @param {Explorer} explorer */
export function pinExact(explorer) {
  const { query, key } = explorer.view.pinned;
  if (query === null || key === null || isMasked(currentMap(explorer), query, key)) return;
  if (!explorer.requests.exact) withExact(explorer, () => {});
}
