// Passes answers from the components that receive them to the explorer that asked. Each component is a separate script.

import { sameBytes } from "./bytes.js";

class Mailbox {
  /** @type {Map<string, Uint8Array>}  the current answer to each request */
  answers = new Map();
  /** @type {((answer: Uint8Array, name: string) => void) | null} */
  receive = null;

  put(name, answer) {
    const again = sameBytes(this.answers.get(name), answer);
    this.answers.set(name, answer);
    if (!again) this.receive?.(answer, name);
  }

  remove(name, answer) {
    if (this.answers.get(name) === answer) this.answers.delete(name);
  }

  listen(receive) {
    this.receive = receive;
    for (const [name, answer] of this.answers) receive(answer, name);
    return () => {
      if (this.receive === receive) this.receive = null;
    };
  }
}

/** @type {Map<string, Mailbox>}  by the explorer's key */
const mailboxes = (/** @type {any} */ (window).headlightAnswers ??= new Map());

export function mailboxOf(key) {
  if (!mailboxes.has(key)) mailboxes.set(key, new Mailbox());
  return mailboxes.get(key);
}
