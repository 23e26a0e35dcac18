// The data of a card (widgets/payload.py) as the card's parts use it.

import { isNumber, whole } from '../shared/format.js';

/** Bits of an op's or a box's flags. */
export const CUT = 1;
export const FAILED = 4;
export const UNREACHED = 8;

/** The names of a table's columns; one whose values are numbers of `strings` begins with $. */
function namesOf(keys) {
  return keys.map((key) => (key.startsWith('$') ? { name: key.slice(1), isString: true } : { name: key }));
}

/**
 * The names and values of a row as an object.
 * @param {object[]} names
 * @param {(index: number) => any} valueAt of the column at an index
 * @param {string[]} strings
 */
function toObject(names, valueAt, strings) {
  const row = {};
  names.forEach(({ name, isString }, index) => {
    const value = valueAt(index);
    row[name] = isString ? strings[value] : value;
  });
  return row;
}

/** Ops come by column: one value stands for all rows. */
function readOps({ keys, ops: [total, columns], strings }) {
  const names = namesOf(keys.ops);
  const cellOf = (column, row) => (column.length > 1 ? column[row] : column[0]);
  return Array.from({ length: total }, (_, row) => {
    const op = toObject(names, (k) => cellOf(columns[k], row), strings);
    op.places = op.at ? op.at.split(' ') : [''];
    return op;
  });
}

/** The box of which an op says all. */
function boxOfOp(op, index) {
  return {
    kind: 'op',
    index,
    label: withCount(op),
    detail: op.dtype && op.shape,
    place: '',
    badge: '',
    marks: '',
    chips: [],
  };
}

/** An op's name, and how often it ran. */
export function withCount(op) {
  return op.count > 1 ? `${op.op} ×${whole(op.count)}` : op.op;
}

/**
 * Read a record.
 * @param {object} data what widgets/payload.py made; its small parts are used as they are
 */
export function readRecord(data) {
  const { keys, strings } = data;
  const fromRow = (row, names) => toObject(names, (k) => row[k], strings);
  const rows = (table) => {
    const names = namesOf(keys[table]);
    return data[table].map((row) => fromRow(row, names));
  };
  const ops = readOps(data);

  /** The view and the box that draw an op as itself, by the op's index. */
  const home = [];
  const itemNames = namesOf(keys.items);
  const readItem = (item, view, box) => {
    const read = isNumber(item) ? boxOfOp(ops[item], item) : fromRow(item, itemNames);
    if (read.kind !== 'op') {
      return read;
    }
    home[read.index] = [view, box];
    const { forward, backward, flags } = ops[read.index];
    return { ...read, forward, backward, flags };
  };
  const views = data.views.map((view, number) => ({
    ...view,
    items: view.items.map((item, box) => readItem(item, number, box)),
  }));

  /** "page:line" → the ops that ran there or below; page 0 is the cell. */
  const opsByPlace = new Map();
  ops.forEach((op, index) => {
    for (const place of op.places) {
      if (!opsByPlace.has(place)) {
        opsByPlace.set(place, []);
      }
      opsByPlace.get(place).push(index);
    }
  });

  return {
    data,
    rows,
    ops,
    views,
    home,
    tensors: rows('tensors'),
    lines: rows('lines'),
    gradients: rows('gradients'),
    kernels: rows('kernels'),
    findings: rows('findings'),

    /** The ops that a line ran, by their indices. */
    opsOfLine: (line, page = 0) => opsByPlace.get(`${page}:${line}`) || [],

    /** The text of a line of the cell. */
    sourceLine: (line) => (data.source[line - 1] || '').trim(),

    /** The box of a view that holds an op; -1 where the op is elsewhere. */
    boxIn: (view, op) => {
      let [at, box] = home[op];
      while (at !== view) {
        if (!views[at].up) {
          return -1;
        }
        [at, box] = views[at].up;
      }
      return box;
    },
  };
}
