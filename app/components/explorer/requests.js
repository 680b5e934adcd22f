// Asks Python for what the browser does not hold, waits, and says in one line if it does not come.

import { currentMap } from "./focus.js";
import { isMasked, ROLLOUT } from "./maps.js";

const ANSWER_WITHIN = 20_000;

/*
 * `name` is the component's state in which Python finds `value`. `what` names the answer to the reader; `take` is told
 * of new data and returns whether the answer came with it; `giveUp` undoes what was shown while waiting. `by` sends it:
 * as a state that stays, or, with `explorer.tell`, once.
 */
export function request(explorer, name, value, { what, take, giveUp = () => {}, by = explorer.ask }) {
  forgetRequest(explorer, name);
  const late = () => refuse(explorer, name, `${what} did not come within ${ANSWER_WITHIN / 1000} s: choose it again.`);
  explorer.requests[name] = { take, giveUp, timer: setTimeout(late, ANSWER_WITHIN) };
  sayRefusal(explorer, "");
  by(name, value);
}

/** @param {Explorer} explorer */
export function forgetRequest(explorer, name) {
  clearTimeout(explorer.requests[name]?.timer);
  delete explorer.requests[name];
}

/** @param {Explorer} explorer */
function refuse(explorer, name, line) {
  const waiting = explorer.requests[name];
  forgetRequest(explorer, name);
  sayRefusal(explorer, line);
  waiting?.giveUp();
}

const sayRefusal = ({ dom: { parts } }, line) => (parts["request-note"].textContent = line);

/**
 * New data may answer what was asked, refuse it, or be of something else.
 *
 * @param {Explorer} explorer
 */
export function settleRequests(explorer) {
  const { data, requests } = explorer;
  for (const [name, line] of Object.entries(data.failed)) refuse(explorer, name, line);
  for (const [name, { take }] of Object.entries(requests)) if (take(data)) forgetRequest(explorer, name);
}

/**
 * What was asked of one sentence is no longer wanted with the next, `but` for one request.
 *
 * @param {Explorer} explorer
 */
export function forgetRequests(explorer, but = null) {
  for (const name of Object.keys(explorer.requests)) if (name !== but) forgetRequest(explorer, name);
  sayRefusal(explorer, "");
}

/* The maps behind the chosen one: null for all layers or all heads. */
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
 * Calls `then` with the explorer's data once it holds the chosen map's own numbers, which Python has.
 *
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

/**
 * A pinned cell is read to the last digit: its number is asked for where only a rounded one was sent.
 *
 * @param {Explorer} explorer
 */
export function pinExact(explorer) {
  const { query, key } = explorer.view.pinned;
  if (query === null || key === null || isMasked(currentMap(explorer), query, key)) return;
  if (!explorer.requests.exact) withExact(explorer, () => {});
}
