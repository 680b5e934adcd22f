// Random bits, the same as Python's for a seed. No DOM.

const SIZE = 624;

/** The function that returns the next 32 random bits of MT19937 (Matsumoto and Nishimura 1998), seeded by an array of one number. @param {number} seed */
export function twister(seed) {
  const state = new Uint32Array(SIZE);
  const before = (at) => state[(at + SIZE - 1) % SIZE];
  const mixed = (at, factor) => Math.imul(before(at) ^ (before(at) >>> 30), factor);
  state[0] = 19650218;
  for (let at = 1; at < SIZE; at++) state[at] = mixed(at, 1812433253) + at;
  let at = 1;
  const each = (times, change) => {
    for (; times > 0; times--) {
      state[at] = change(at);
      if (++at < SIZE) continue;
      [state[0], at] = [state[SIZE - 1], 1];
    }
  };
  each(SIZE, (one) => (state[one] ^ mixed(one, 1664525)) + Math.abs(seed));
  each(SIZE - 1, (one) => (state[one] ^ mixed(one, 1566083941)) - one);
  state[0] = 0x80000000;
  let next = SIZE;
  return () => {
    if (next === SIZE) next = twist(state);
    let drawn = state[next++];
    drawn ^= drawn >>> 11;
    drawn ^= (drawn << 7) & 0x9d2c5680;
    drawn ^= (drawn << 15) & 0xefc60000;
    return (drawn ^ (drawn >>> 18)) >>> 0;
  };
}

/* Replace the state by the next one; return the place of its first number. */
function twist(state) {
  for (let at = 0; at < SIZE; at++) {
    const joined = (state[at] & 0x80000000) | (state[(at + 1) % SIZE] & 0x7fffffff);
    state[at] = state[(at + 397) % SIZE] ^ (joined >>> 1) ^ (joined & 1 && 0x9908b0df);
  }
  return 0;
}
