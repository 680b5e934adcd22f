// Passes an answer from Python to the explorer that asked for it.

import { unpack } from "../shared/bytes.js";
import { mailboxOf } from "../shared/mailbox.js";

/* Equal bytes are the same answer, sent again: each request has a number of its own. */
export default function render({ data }) {
  const { explorer, name } = unpack(data);
  const mailbox = mailboxOf(explorer);
  mailbox.put(name, data);
  return () => mailbox.remove(name, data);
}
