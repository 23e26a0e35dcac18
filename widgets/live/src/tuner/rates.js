// How near the device's limits a config is: its rates, and the roof over them.

import { isNumber, number } from '../shared/format.js';

const UNITS = [
  [1e12, ' T'],
  [1e9, ' G'],
  [1e6, ' M'],
];

/** A large number with a letter for its thousands: "1.20 G". */
export function large(x) {
  const [size, letter] = UNITS.find(([unit]) => x >= unit) || [1, ' '];
  return number(x / size) + letter;
}

export function percent(x) {
  return x > 1 ? 'more than 100 %' : `${+(100 * x).toPrecision(2)} %`;
}

/** What the device reaches, as { peak, bandwidth, whose }; null where it is not known. */
export function limitsOf({ roof }) {
  if (!roof) {
    return null;
  }
  const [peak, bandwidth, whose] = roof;
  return { peak, bandwidth, whose };
}

/** Operations a second that the device allows at an intensity. */
export function allowed({ peak, bandwidth }, intensity) {
  return Math.min(peak, intensity * bandwidth);
}

/** A trial's operations a second (`rate`), and its operations a byte (`intensity`). */
export function speedOf(session, { facts, ms, ratio }) {
  const [operations, bytes] = facts.work || session.roof.slice(3);
  const seconds = (ms || ratio * session.default_ms) / 1e3;
  return { rate: operations / seconds, intensity: operations / bytes };
}

/** A trial's rate in words, beside what the device could give at its intensity; nothing where that is not known. */
export function reachedWords(session, trial) {
  const limits = limitsOf(session);
  if (!limits || !session.default_ms || !isNumber(trial.ratio)) {
    return '';
  }
  const { rate, intensity } = speedOf(session, trial);
  const roof = allowed(limits, intensity);
  const limit = roof < limits.peak ? 'the memory' : 'the arithmetic';
  return ` That is ${large(rate)}FLOP/s, ${percent(rate / roof)} of the ${large(roof)}FLOP/s that ${limit} allows.`;
}
