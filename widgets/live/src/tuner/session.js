// One moment of a tuning session (widgets/tuner.py), as the panel's tabs use it.

import { isNumber } from '../shared/format.js';

/**
 * @typedef {object} Trial
 * @property {number[]} codes the place of its value among those of each tunable
 * @property {string} status "right", "same" as another's binary, or why it has no time
 * @property {number | null} ratio to the default's time
 * @property {number | null} ms
 * @property {string} reason
 * @property {object} facts what it occupies
 */

function readTrial([codes, status, ratio, ms, reason, facts]) {
  return { codes, status, ratio, ms, reason, facts };
}

/** The fastest; once there is a choice, it is the choice. */
function bestOf(timed, chosen, words) {
  const candidates = chosen ? timed.filter(({ codes }) => words(codes) === chosen) : timed;
  return candidates.reduce((best, trial) => (!best || trial.ratio < best.ratio ? trial : best), null);
}

/**
 * @param {object} data the fields of `Tuning`, and what `payload` adds to them
 * @returns the same, with trials as objects, those that have a time, the best of them and a few helpers
 */
export function readSession(data) {
  const { tunables } = data;
  const trials = data.trials.map(readTrial);
  const timed = trials.filter(({ ratio }) => isNumber(ratio));
  const words = (codes) => tunables.map(([name, values], k) => `${name}=${values[codes[k]]}`).join(' ');
  return {
    ...data,
    trials,

    /** @type {Trial[]} */
    timed,

    /** @type {Trial | null} */
    best: bestOf(timed, data.chosen, words),

    /** A config on one line. */
    words,

    /** Tunables that have more than one value, by their index. */
    various: [...tunables.keys()].filter((k) => tunables[k][1].length > 1),
  };
}
