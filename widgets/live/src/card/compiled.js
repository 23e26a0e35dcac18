// What core.compile made of the functions that the cell called.

import { clip, html } from '../shared/dom.js';
import { lineLink } from './reveal.js';
import { table } from './table.js';

/** How such functions run in a cell with a card. */
const HERE = 'In this cell the compiled functions ran op by op, as the card shows them. Elsewhere they run as follows.';

/** What stays as it was, whoever compiles. */
const CANNOT =
  'Compiling joins elementwise ops and sums of rows, and keeps less in memory. It cannot help where products of ' +
  'matrices, convolutions or attention take the time: those are the same kernels.';

/**
 * The contents of the tab.
 * @param {Card} card
 * @returns {Child[]}
 */
export function compiledTab(card) {
  const { data, rows } = card.record;
  const functions = data.compiled_said.map(([name, said]) =>
    html(
      'p',
      { class: 'lead' },
      html('b', {}, clip(name)),
      said.map((sentence) => html('span', { style: 'display:block' }, sentence)),
    ),
  );
  const columns = [
    { title: 'function', by: 'name', kind: 'code' },
    { title: 'pass', by: 'part', kind: 'text' },
    { title: 'what runs', by: 'what', kind: 'text' },
    { title: 'line', by: 'line', write: (line) => line && lineLink(card, line) },
    { title: 'all lines', by: 'place', kind: 'text' },
  ];
  const pieces = rows('compiled');
  return [
    html('p', { class: 'lead' }, HERE),
    ...functions,
    ...(pieces.length ? table('Loops and kernels', columns, pieces) : []),
    html('p', { class: 'lead' }, CANNOT),
  ];
}
