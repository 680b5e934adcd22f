// Requests to the page around the explorer: send, wait, and report a timeout or failure in one line.

import { currentMap } from "./focus.js";
import { isMasked, ROLLOUT } from "./maps.js";

const ANSWER_WITHIN = 20_000; // ms

/* Number of the last request. Answers name the request, so that no two of them are equal. */
let lastRequest = 0;

/**
 * Ask the host for something that the reader knows as `what`. `take` receives the data and each answer to requests
 * of this name, and returns whether the request is now fulfilled. `giveUp` reverts what was shown while waiting.
 * @param {Explorer} explorer
 * @param {keyof Requests} name
 * @param {{what: string, take?: (data: RecordData, answer: Answer) => boolean, giveUp?: () => void, isQuiet?: boolean}} response
 *   isQuiet: the visitor did not ask for it, so that they need not learn of a failure
 */
export function request(explorer, name, value, response) {
  const { what, take = () => false, giveUp = () => {}, isQuiet = false } = response;
  cancelRequest(explorer, name);
  const late = () => fail(explorer, name, `${what} did not arrive within ${ANSWER_WITHIN / 1000} s: choose it again.`);
  explorer.requests[name] = { number: lastRequest + 1, take, giveUp, isQuiet, timer: setTimeout(late, ANSWER_WITHIN) };
  if (!isQuiet) showError(explorer, "");
  sendRequest(explorer, name, value);
}

/** Send a request without waiting for its answer. @param {Explorer} explorer @param {keyof Requests} name */
export const sendRequest = ({ host }, name, value) => host.ask(name, { request: ++lastRequest, ...value });

/** @param {Explorer} explorer */
export function cancelRequest(explorer, name) {
  clearTimeout(explorer.requests[name]?.timer);
  delete explorer.requests[name];
}

/** @param {Explorer} explorer */
function fail(explorer, name, line) {
  const waiting = explorer.requests[name];
  cancelRequest(explorer, name);
  if (!waiting?.isQuiet) showError(explorer, line);
  waiting?.giveUp();
}

const showError = ({ dom: { parts } }, line) => (parts["request-note"].textContent = line);

/**
 * Match an answer against the pending request of its name. Returns whether the request failed.
 * @param {Explorer} explorer
 * @param {Answer} answer
 */
export function settleRequest(explorer, answer) {
  const { name, failed } = answer;
  const waiting = explorer.requests[name];
  const isOlder = waiting && waiting.number !== answer.request;
  if (!failed && waiting?.take(explorer.data, answer)) cancelRequest(explorer, name);
  if (!failed || isOlder) return false;
  fail(explorer, name, failed);
  return true;
}

/** The answer to an edit is the payload of the edited pass. @param {Explorer} explorer */
export function settleEdit(explorer) {
  const { data, requests } = explorer;
  if (requests.edit && requests.edit.number === data.whatIf?.request) cancelRequest(explorer, "edit");
}

/** Cancel pending requests, except `but`, when the sentence changes. @param {Explorer} explorer */
export function cancelRequests(explorer, but = null) {
  for (const name of Object.keys(explorer.requests)) if (name !== but) cancelRequest(explorer, name);
  showError(explorer, "");
}

/* The single maps from which the shown one is computed; null means all layers or all heads. */
function mapsBehind(data, { quantity, kind, layer, head }) {
  const rows = quantity === ROLLOUT ? 1 : data.headsOf[kind];
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
 * Call `then` with data that holds the shown map's most exact numbers, requesting them if necessary.
 * @param {Explorer} explorer
 */
export function withExact(explorer, then) {
  const { data, host } = explorer;
  if (isExact(explorer)) return then(data);
  if (!host.answers.has("exact")) return then(data); // there are no better numbers
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
