// Replays a unit's merges, and says in words how many were applied and why no more apply. No DOM.

/** The symbols before any merge and after each: one row per state. */
export function statesOf({ first, merges, symbols }) {
  const states = [first];
  for (const [at] of merges) {
    const before = states.at(-1);
    const made = [before[at][0] + before[at + 1][0], -1];
    states.push([...before.slice(0, at), made, ...before.slice(at + 2)]);
  }
  states[states.length - 1] = symbols; // these have ids
  return states;
}

export const placeText = (step, last) => `${step} of ${last} merge${last === 1 ? "" : "s"} applied`;

/** Say why no further merge applies. */
export function leftText({ symbols, isEntry }, entries) {
  const vocabulary = `the vocabulary's ${entries.toLocaleString("en")} entries`;
  if (symbols.length === 1) {
    return symbols[0][1] === null ? `Not among ${vocabulary}: the network reads <unk>.` : `All of it is one token, one of ${vocabulary}.`;
  }
  const pairs = symbols.slice(1).map((right, n) => [symbols[n], right]);
  const known = pairs.filter(([left, right]) => left[1] !== null && right[1] !== null);
  const named = known.map(([left, right]) => `${left[0]} + ${right[0]}`).join(" or ");
  const stops = known.length ? `No learned merge joins ${named}. ` : "";
  const missing = symbols.some(([, id]) => id === null) ? `A dashed symbol is not among ${vocabulary}: the network reads <unk>. ` : "";
  return `${stops}${missing}${isEntry ? "" : `The whole unit is not among ${vocabulary}.`}`.trim();
}
