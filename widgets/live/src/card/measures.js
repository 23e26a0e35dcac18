// What the boxes of the graph are coloured by.

import { bytes, number, time, took } from '../shared/format.js';

/**
 * @typedef {object} Measure
 * @property {string} title
 * @property {string} superlative the word for its largest figure
 * @property {string} scale words on the scale, if it is not linear
 * @property {(item: object, inside: number[]) => number} figure of a box; `inside` are the ops in it
 * @property {(figure: number) => string} write
 * @property {(figure: number, most: number, least: number) => number} place where a figure lies between 0 and 1
 */

const linear = (figure, most) => figure / most;

/** On a log scale from 0.1 to 1: norms of one net lie orders of magnitude apart. */
function logarithmic(figure, most, least) {
  if (!figure) {
    return 0;
  }
  return 0.1 + 0.9 * (most > least ? Math.log(figure / least) / Math.log(most / least) : 1);
}

/**
 * @returns {Measure[]} the time first: it is a box's own, and needs no ops inside
 */
export function createMeasures({ ops, tensors, gradients }) {
  const norms = new Map(gradients.map(({ name, norm }) => [name, norm]));
  const parametersOf = (op) => (op.requires_grad ? op.reads.filter((i) => i < 0).map((i) => tensors[~i].name) : []);
  const gradientNorm = (inside) => {
    const names = new Set(inside.flatMap((op) => parametersOf(ops[op])));
    return Math.hypot(...[...names].map((name) => +norms.get(name) || 0));
  };
  const size = (inside) => inside.reduce((total, op) => total + ops[op].size_bytes, 0);
  return [
    { title: 'time', superlative: 'longest', scale: '', figure: took, write: time, place: linear },
    {
      title: 'gradient norm',
      superlative: 'largest',
      scale: ', log scale',
      figure: (_item, inside) => gradientNorm(inside),
      write: number,
      place: logarithmic,
    },
    {
      title: 'memory',
      superlative: 'largest',
      scale: '',
      figure: (_item, inside) => size(inside),
      write: bytes,
      place: linear,
    },
  ];
}
