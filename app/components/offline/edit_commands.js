// Adds and removes edits by the explorer's commands, as core.record.edits does with `plus` and `without`.

import { editsText, listEdits, parseEdits } from "../network/edits.js";

/**
 * Return the text form of the edits after a command: "+off.cross.2.0" adds one, "-off.cross.2.0" removes it, ""
 * removes all.
 * @param {string} text  all edits so far
 * @param {string} command
 * @throws {Error} one line, for an edit that cannot be added
 */
export function changedEdits(text, command) {
  if (!command) return "";
  const one = command.slice(1);
  if (command[0] === "-") {
    return listEdits(parseEdits(text)).map(editsText).filter((other) => other !== one).join("~");
  }
  // Of two edits of the same place the first one holds, so that the new one replaces the old one.
  const count = listEdits(parseEdits(text)).length;
  const changed = parseEdits(text ? `${one}~${text}` : one);
  if (listEdits(changed).length < count) throw new Error(`${count + 1} edits are too many: the limit is ${count}, undo some`);
  return editsText(changed);
}
