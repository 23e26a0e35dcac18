// Timings: a timeline, then by line, op, module and kernel.

import { track } from '../shared/dom.js';
import { isNumber, largest, sum, took, whole } from '../shared/format.js';
import { kernelsTable } from './kernels.js';
import { lineLink } from './reveal.js';
import { table } from './table.js';
import { timeline } from './timeline.js';

/** How many digits behind the point tell the times of a table apart. */
function digitsFor(longest) {
  if (longest >= 100) {
    return 1;
  }
  return longest >= 10 ? 2 : 3;
}

/**
 * The columns of times that every table has, and what its last row says in them.
 * @param {object[]} rows
 * @param {boolean} [onlyForward] where rows have one time alone
 * @returns {{columns: Column[], totals: string[]}}
 */
function timeColumns(rows, onlyForward = false) {
  const longest = largest(rows, took);
  const digits = digitsFor(longest);
  const write = (ms) => (isNumber(ms) ? ms.toFixed(digits) : (ms ?? ''));
  const bar = {
    title: '',
    cell: ({ forward, backward, other }) =>
      track([
        ['f', forward / longest],
        ['b', backward / longest],
        ['o', (other || 0) / longest],
      ]),
    kind: 'text',
  };
  const runs = { title: 'runs', by: 'count', write: whole };
  const runsTotal = whole(sum(rows, 'count'));
  const forward = sum(rows, 'forward');
  if (onlyForward) {
    const total = { title: 'total ms', by: 'forward', write };
    return { columns: [runs, total, bar], totals: [runsTotal, write(forward), ''] };
  }
  const backward = sum(rows, 'backward');
  const other = sum(rows, 'other');
  const columns = [
    runs,
    { title: 'forward ms', by: 'forward', write },
    { title: 'backward ms', by: 'backward', write },
    ...(other ? [{ title: 'other ms', by: 'other', write }] : []),
    { title: 'sum ms', cell: (row) => write(took(row)), by: took },
    bar,
  ];
  const sums = [write(forward), write(backward), ...(other ? [write(other)] : []), write(forward + backward + other)];
  return { columns, totals: [runsTotal, ...sums, ''] };
}

function byLine(card) {
  const { lines, sourceLine } = card.record;
  const { columns, totals } = timeColumns(lines);
  const all = [
    { title: 'line', by: 'line', write: (line) => lineLink(card, line) },
    { title: 'source', cell: ({ line }) => sourceLine(line), kind: 'code long' },
    ...columns,
  ];
  return table('By line', all, lines, { total: ['', 'all lines', ...totals] });
}

/** The table of ops or of modules; both call their name `op`. */
function byName(caption, title, allWords, rows) {
  const { columns, totals } = timeColumns(rows);
  const name = { title, by: 'op', kind: 'code' };
  return table(caption, [name, ...columns], rows, { total: [allWords, ...totals], sortBy: 4 });
}

/**
 * The contents of the tab.
 * @param {Card} card
 * @returns {Child[]}
 */
export function timingsTab(card) {
  const { record } = card;
  const modules = record.rows('by_module');
  return [
    timeline(card),
    byLine(card),
    byName('By op', 'op', 'all ops', record.rows('by_op')),
    modules.length > 1 && byName('By module', 'module', 'all modules', modules),
    kernelsTable(card, timeColumns(record.kernels, true)),
  ];
}
