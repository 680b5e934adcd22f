// The explorer's host in the offline page: the worker answers its requests, the fragment holds its view.

import { readFragment, writeFragment } from "./fragment.js";

/**
 * @param {object} page
 * @param {(name: string, value: object) => Promise<Uint8Array>} page.answer  ask the worker for a packed `Answer`
 * @param {(line: string) => void} page.fail  say why there is none
 * @param {(command: string, request: number) => void} page.edit  add or remove an edit and render the edited pass
 * @returns {{host: Host, deliver: (packed: Uint8Array) => void, navigate: () => void}} deliver: pass an answer that was not
 *   requested; navigate: announce that the fragment has changed
 */
export function offlineHost({ answer, fail, edit }) {
  const receivers = new Set();
  const followers = new Set();
  const listener = (all) => (one) => {
    all.add(one);
    return () => all.delete(one);
  };
  const ask = (name, value) => {
    if (name === "edit") return edit(value.command, value.request);
    return answer(name, value).then(deliver, ({ message }) => fail(message));
  };
  const deliver = (packed) => receivers.forEach((receive) => receive(packed));
  /** @type {Host} */
  const host = {
    answers: new Set(["quantity", "effects", "edit", "lens"]),
    ask,
    listen: listener(receivers),
    link: {
      read: readFragment,
      write: (parameters) => writeFragment(parameters),
      listen: listener(followers),
      url: () => window.location.href,
    },
    headPage: null,
  };
  return { host, deliver, navigate: () => followers.forEach((follow) => follow()) };
}
