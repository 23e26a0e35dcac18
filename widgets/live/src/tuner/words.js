// What the panel says of a config.

import { html } from '../shared/dom.js';
import { fixed, isNumber, number } from '../shared/format.js';
import { reachedWords } from './rates.js';

const FAILURES = {
  compile: 'does not compile',
  constraints: 'exceeds a limit',
  runtime: 'fails',
  correctness: 'is wrong',
  timeout: 'takes too long',
};

/** The ratio of the default's time from which on a config counts as faster than another. */
const FASTER = 0.97;

/** A ratio to the default's time, in words. */
export function comparedToDefault({ estimate }, ratio) {
  if (ratio === 1) {
    return 'nothing is faster than the default';
  }
  const source = estimate ? ', by the estimate' : '';
  const words =
    ratio < 1 ? `${fixed(1 / ratio)} times as fast as the default` : `${fixed(ratio)} times the default's time`;
  return words + source;
}

/** An interval; nothing where an end is missing. */
export function interval(low, high) {
  return isNumber(low) && isNumber(high) ? `${low.toFixed(3)} to ${high.toFixed(3)}` : '';
}

const written = (fact) => (isNumber(fact) ? number(fact) : String(fact));

/** The values that differ between two configs: "BLOCK 64 → 128". */
function changedValues({ tunables }, from, to) {
  const changed = [...tunables.keys()].filter((k) => from.codes[k] !== to.codes[k]);
  const words = changed.map((k) => {
    const [name, values] = tunables[k];
    return `${name} ${values[from.codes[k]]} → ${values[to.codes[k]]}`;
  });
  return words.join(', ');
}

/** The facts that differ between two configs: "registers 32 → 64". */
function changedFacts(from, to) {
  const names = Object.keys(from.facts).filter((name) => name in to.facts && name !== 'work'); // for the roofline
  const changed = names.filter((name) => from.facts[name] !== to.facts[name]);
  const words = (name) => `${name.replaceAll('_', ' ')} ${written(from.facts[name])} → ${written(to.facts[name])}`;
  return changed.map(words).join(', ');
}

/** The nearest config that is faster; among equally near ones the fastest. */
function nearestFaster({ timed }, trial) {
  const distance = ({ codes }) => codes.filter((code, k) => code !== trial.codes[k]).length;
  const faster = timed.filter(({ ratio }) => ratio < FASTER * trial.ratio);
  faster.sort((a, b) => distance(a) - distance(b) || a.ratio - b.ratio);
  return faster[0];
}

/**
 * Why a config is slow: the nearest one that is faster, and what differs between the two.
 * @returns {HTMLElement[]}
 */
export function why(session, trial) {
  const { status, ratio, reason } = trial;
  const name = html('b', {}, session.words(trial.codes));
  if (!isNumber(ratio)) {
    return [html('p', {}, name, ` ${FAILURES[status] || status}: ${reason}`)];
  }
  const estimate = session.estimate ? ', by the estimate' : '';
  const twin = reason && status === 'same' ? `; its machine code is that of ${reason}` : '';
  const own = ` takes ${number(ratio)} of the default's time${estimate}${twin}.${reachedWords(session, trial)}`;
  const sentence = html('p', {}, name, own);
  const faster = nearestFaster(session, trial);
  if (!faster) {
    return [sentence, html('p', {}, 'None that was tried is faster by 3 % or more.')];
  }
  const change = changedValues(session, trial, faster);
  const facts = changedFacts(trial, faster);
  const end = facts ? ` (${facts}).` : '.';
  const compared = `The nearest that is faster: ${change} takes ${number(faster.ratio / ratio)} of its time${end}`;
  return [sentence, html('p', {}, compared)];
}
