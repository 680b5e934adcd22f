// Opens weights and answers queries in a browser page, after the network's scripts.

const base64 = (numbers) => btoa(Array.from(new Uint8Array(numbers.buffer), (byte) => String.fromCharCode(byte)).join(""));

async function opened(weights) {
  const answer = await fetch(`data:application/octet-stream;base64,${weights}`);
  const stored = readWeights(new Uint8Array(await answer.arrayBuffer()));
  return { network: await makeNetwork(stored), tokenizers: tokenizersOf(stored) };
}

const inspect = (...options) => {
  const { record, makeChecks } = inspectUnchecked(...options);
  return { ...record, checks: makeChecks() };
};

/* Return a record with its arrays in base64, or `failed`: the reason in one line. */
function recordAnswer({ network, tokenizers }, text, { edits, ...options }) {
  try {
    const record = inspect(network, tokenizers, text, { ...options, edits: parseEdits(edits) });
    return Object.fromEntries(
      Object.entries(record).map(([name, value]) => [name, value instanceof Float32Array ? base64(value) : value]),
    );
  } catch (error) {
    if (!(error instanceof InputError)) throw error;
    return { failed: error.message };
  }
}

const hypothesesAnswer = ({ network, tokenizers }, text, beam) =>
  translate(network, tokenizers, text, { beam }).hypotheses.map(({ ids }) => ids);

async function effectsAnswer({ network, tokenizers }, text, edits) {
  const found = await headEffects(network, inspect(network, tokenizers, text, { edits: parseEdits(edits) }));
  return Object.fromEntries(Object.entries(found).map(([kind, changes]) => [kind, base64(changes)]));
}
