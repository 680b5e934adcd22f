// Adds and removes edits by the explorer's commands, as `plus` and `without` in core/record/edits.py do.

import { editsText, listEdits, parseEdits } from "../network/edits.js";

const MOST_EDITS = 200; // as in core/record/edits.py

/**
 * Return the text form of the edits after a command. "+off.cross.2.0" adds an edit, which replaces those that it conflicts
 * with; "-off.cross.2.0" removes it; "" removes all.
 * @param {string} text  all edits so far
 * @param {string} command
 * @throws {Error} one line, for an edit that cannot be added
 */
export function changedEdits(text, command) {
  if (!command) return "";
  const one = command.slice(1);
  const before = listEdits(parseEdits(text)).map(editsText);
  if (command[0] === "-") return before.filter((other) => other !== one).join("~");
  const problems = [];
  parseEdits(one, problems);
  if (problems.length) throw new Error(problems[0]);
  const kept = before.filter((other) => listEdits(parseEdits(`${one}~${other}`)).length === 2);
  if (kept.length >= MOST_EDITS) throw new Error(`${kept.length + 1} edits are too many: the limit is ${MOST_EDITS}. Undo some.`);
  return editsText(parseEdits([...kept, one].join("~")));
}
