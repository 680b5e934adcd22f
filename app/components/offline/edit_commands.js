// Adds and removes edits by the explorer's commands, as `plus` and `without` in core/record/edits.py do.

import { editsText, listEdits, parseEdits } from "../network/edits.js";

const MOST_EDITS = 200; // as in core/record/edits.py

const isPass = (text) => text.startsWith("pass."), isCopy = (text) => /^copy(head)?\./.test(text);

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
  if (command[0] === "-") {
    const left = before.filter((other) => other !== one);
    const alone = one.startsWith("pass.") ? isCopy : isCopy(one) && !left.some(isCopy) ? isPass : () => false;
    return left.filter((other) => !alone(other)).join("~"); // copies go with their pass, and the pass with its last copy
  }
  const problems = [], added = listEdits(parseEdits(one, problems)).map(editsText);
  if (problems.length) throw new Error(problems[0]);
  const kept = before.filter((other) => {
    const isOfOther = isCopy(other) && added.some(isPass) && !before.some((pass) => added.includes(pass) && isPass(pass));
    return !isOfOther && !added.includes(other) && listEdits(parseEdits(`${one}~${other}`)).length === added.length + 1;
  });
  const count = kept.length + added.length;
  if (count > MOST_EDITS) throw new Error(`${count} edits are too many: the limit is ${MOST_EDITS}. Undo some.`);
  return editsText(parseEdits([...kept, one].join("~")));
}
