// Memory: bytes alive over time, and by the line that made them.

import { fill, html, quiet, svg, track } from '../shared/dom.js';
import { bytes, isNumber, largest, sum, time, whole } from '../shared/format.js';
import { lineLink } from './reveal.js';
import { choose } from './selection.js';
import { table } from './table.js';

const WIDTH = 640;
const HEIGHT = 120;
const EDGE = 8;

/** Padding of the drawing in the page, in its style sheet's pixels. */
const PADDING = 14;

/** The bytes at a moment: those of the last change before it. */
function bytesAt({ times, sizes }, moment) {
  const index = times.findLastIndex((changed) => changed <= moment);
  return index < 0 ? 0 : sizes[index];
}

/** The course of the bytes alive, with its peak; a moment that is pointed at is told below. */
function course(memory) {
  const { peak, at, times, sizes, line, by } = memory;
  const last = times.at(-1) || 1;
  const x = (moment) => EDGE + ((WIDTH - 2 * EDGE) * moment) / last;
  const y = (size) => 14 + HEIGHT * (1 - size / peak);
  const status = quiet('Point at the course for the bytes at a moment.');
  const pointer = svg('path', { class: 'edge', d: '' });
  const peakWords = [`peak ${bytes(peak)}`, line && `line ${line}`, by].filter(Boolean).join(', ');

  let path = `M${x(0)} ${y(0)}`;
  times.forEach((moment, index) => {
    path += `H${x(moment).toFixed(1)}V${y(sizes[index]).toFixed(1)}`;
  });

  const point = (event) => {
    const box = drawing.getBoundingClientRect();
    const across = ((event.clientX - box.left - PADDING) * WIDTH) / (box.width - 2 * PADDING);
    const moment = Math.min(last, Math.max(0, ((across - EDGE) * last) / (WIDTH - 2 * EDGE)));
    pointer.setAttribute('d', `M${x(moment)} 14V${y(0)}`);
    fill(status, `${bytes(bytesAt(memory, moment))} alive at ${time(moment)}`);
  };

  const rightHalf = at > last / 2;
  const peakLabel = { x: x(at) + (rightHalf ? -5 : 5), y: 10, 'text-anchor': rightHalf ? 'end' : 'start' };
  const attributes = {
    class: 'plot',
    viewBox: `0 0 ${WIDTH} ${HEIGHT + 34}`,
    width: WIDTH,
    height: HEIGHT + 34,
    role: 'img',
    'aria-label': `bytes alive over ${time(last)}, ${peakWords} at ${time(at)}`,
    onmousemove: point,
  };
  const drawing = svg(
    'svg',
    attributes,
    svg('path', { class: 'area', d: `${path}V${y(0)}Z` }),
    svg('path', { class: 'edge', d: `M${EDGE} ${y(0)}H${WIDTH - EDGE}` }),
    pointer,
    svg('path', { class: 'edge peak', d: `M${x(at)} 12V${y(0)}` }),
    svg('text', peakLabel, peakWords),
    svg('text', { x: EDGE, y: HEIGHT + 30 }, '0'),
    svg('text', { x: WIDTH - EDGE, y: HEIGHT + 30, 'text-anchor': 'end' }, time(last)),
  );
  return html('div', { class: 'lead' }, drawing, status);
}

/** A column of bytes, with a title on two lines. */
function bytesColumn(above, below, key) {
  return { title: [above, html('br', {}), below], by: key, unit: 'bytes', write: bytes };
}

function byLine(card) {
  const { record } = card;
  const rows = record.rows('memory_rows');
  const most = largest(rows, (row) => Math.max(row.peak, row.held));
  const total = (key) => bytes(sum(rows, key));
  const columns = [
    { title: 'line', cell: ({ line }) => lineLink(card, line), by: ({ line }) => line || 0 },
    { title: 'source', cell: ({ line }) => record.sourceLine(line), kind: 'code long' },
    bytesColumn('made, alive', 'at the peak', 'peak'),
    bytesColumn('kept', 'at the peak', 'held'),
    { title: '', cell: ({ held }) => track([['b', held / most]]), kind: 'text' },
    bytesColumn('made', 'in all', 'made'),
    bytesColumn('alive', 'at the end', 'end'),
    { title: 'arrays', by: 'count', write: whole },
  ];
  const totals = [
    '',
    'all lines',
    total('peak'),
    total('held'),
    '',
    total('made'),
    total('end'),
    whole(sum(rows, 'count')),
  ];
  return table('By line', columns, rows, { total: totals, sortBy: 3 });
}

function atThePeak(card) {
  const { record, selection } = card;
  const held = record.rows('held');
  if (!held.length) {
    return [];
  }
  const most = largest(held, (array) => array.bytes);
  const name = (array) =>
    html('span', {}, array.name, array.count > 1 && quiet(` ×${whole(array.count)}`), ' ', quiet(array.shape));
  const columns = [
    { title: 'what', cell: name, by: 'name', kind: 'code' },
    { title: 'size', by: 'bytes', unit: 'bytes', write: bytes },
    { title: '', cell: (array) => track([['f', array.bytes / most]]), kind: 'text' },
    { title: 'made on', cell: ({ line }) => lineLink(card, line), by: ({ line }) => line || 0 },
    { title: 'kept by', cell: ({ keeper }) => lineLink(card, keeper), by: ({ keeper }) => keeper || 0 },
    { title: 'because', by: 'why', kind: 'text' },
  ];
  const onRow = ({ op, keeper }, row) => {
    if (isNumber(op)) {
      row.onmouseenter = () => selection.light(choose([op], keeper));
      row.onmouseleave = selection.rest;
    }
  };
  return table('Alive at the peak', columns, held, { sortBy: 1, onRow });
}

/**
 * The contents of the tab.
 * @param {Card} card
 * @returns {Child[]}
 */
export function memoryTab(card) {
  const { memory } = card.record.data;
  const { peak, at, end, line, by } = memory;
  const lead = html(
    'p',
    { class: 'lead' },
    'Results of ops took at most ',
    html('b', {}, bytes(peak)),
    ` at once, at ${time(at)}`,
    line > 0 && [', when line ', lineLink(card, line), ` ran ${by}`],
    `; ${bytes(end)} were alive at the end. Parameters and data that were there before are not counted.`,
  );
  return [lead, course(memory), ...byLine(card), ...atThePeak(card)];
}
