// Passes an answer from Python to the explorer that asked for it.

import { unpack } from "../shared/bytes.js";
import { mailboxOf } from "../shared/mailbox.js";

/* Two answers never have equal bytes, because each names its request by number: equal bytes are one answer sent twice. */
export default function render({ data }) {
  const { explorer, name } = unpack(data);
  const mailbox = mailboxOf(explorer);
  mailbox.put(name, data);
  return () => mailbox.remove(name, data);
}
