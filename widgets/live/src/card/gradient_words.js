// Words and labels that the heat map and the table of gradients share.

import { svg } from '../shared/dom.js';

export const NO_GRADIENT = 'no gradient';

const WORDS = { none: NO_GRADIENT, zero: 'all zero', nan: 'NaN' };

/** @returns {string[]} what is remarkable about a gradient */
export function flagWords({ norm, flags }) {
  return norm === null ? [NO_GRADIENT] : flags.map((flag) => WORDS[flag] || flag);
}

/** The label 2ⁿ of an axis. */
export function powerOfTwo(exponent, attributes) {
  return svg('text', attributes, '2', svg('tspan', { dy: -4, 'font-size': 8 }, String(exponent)));
}
