// Run: what the loop went through, step by step, over the last runs of its cell.

import { clip, html, quiet, svg } from '../shared/dom.js';
import { lineLink } from './reveal.js';
import { table } from './table.js';

/** One plot as `widgets.training.drawn` lays it out. */
function plot({ said, axis, shapes, y, x, tips, strips, lone }) {
  const word = (kind, style, ...words) => html('span', { class: kind, style }, ...words);
  const box = { viewBox: '0 0 1000 1000', preserveAspectRatio: 'none', role: 'img', 'aria-label': said };
  const drawing = svg(
    'svg',
    box,
    Object.entries(shapes).map(([name, d]) => svg('path', { class: name, d })),
  );
  const strip = ([left, width, late, words]) =>
    html(
      'i',
      { class: late ? 'late' : '', style: `left:${left}%;width:${width}%` },
      html('u', {}, html('s', {}, words.join('\n'))),
    );
  return html(
    'div',
    { class: lone ? 'plot lone' : 'plot' },
    drawing,
    y.map(([top, text]) => word('y', `top:${top}`, text)),
    x.map(([left, text]) => word('x', `left:${left}`, text)),
    word('axis', '', axis),
    tips.map(([kind, name, value, left, top]) =>
      word(`tip ${kind}`, `left:${left};top:${top}`, clip(name), html('b', {}, value)),
    ),
    strips.map(strip),
  );
}

/** A course without a scale. */
function spark(d) {
  const drawing = svg('svg', { class: 'spark', viewBox: '0 0 100 20', 'aria-hidden': 'true' }, svg('path', { d }));
  return d && drawing;
}

function layersTable({ layers, layers_left: left, measured }) {
  if (!layers.length) {
    return [];
  }
  const columns = [
    { title: 'layer', cell: ([name]) => name, kind: 'code long' },
    { title: 'gradient norm, first', cell: (row) => row[1] },
    { title: '', cell: (row) => spark(row[2]), kind: 'text' },
    { title: 'last', cell: (row) => row[3] },
    { title: 'step / weight, first', cell: (row) => row[4] },
    { title: '', cell: (row) => spark(row[5]), kind: 'text' },
    { title: 'last', cell: (row) => row[6] },
  ];
  const note = `Measured at ${measured} of the steps. Each course has a scale of its own.`;
  return [
    table('By layer', columns, layers),
    html('p', { class: 'lead' }, note, left > 0 && ` ${left} more layers are not shown.`),
  ];
}

function runsTable({ runs, changes, unit }) {
  if (!runs.length) {
    return [];
  }
  const titles = ['run', `${unit}s`, 'time', 'a second', 'memory', 'loss', 'validation'];
  const shown = titles.map((title, k) => ({ title, cell: (row) => row[k], ...(k ? {} : { kind: 'text' }) }));
  const columns = shown.filter((_, k) => runs.some((row) => row[k]));
  const said = changes.length
    ? html(
        'ul',
        { class: 'lead changes' },
        changes.map((sentence) => html('li', {}, clip(sentence))),
      )
    : html('p', { class: 'lead' }, 'Nothing changed beyond the noise of two runs.');
  return [table('Beside the last runs of this cell', columns, runs), said];
}

/**
 * The contents of the tab.
 * @param {Card} card
 * @returns {Child[]}
 */
export function runTab(card) {
  const { run } = card.record.data;
  const [first, ...rest] = run.plots;
  const named = (one) =>
    html(
      'div',
      {},
      html('p', { class: 'name' }, one.name, one.line && quiet([' line ', lineLink(card, one.line)])),
      plot(one),
    );
  return [
    html('p', { class: 'lead' }, run.lead),
    run.said.map((sentence) => html('p', { class: 'lead said' }, sentence)),
    html(
      'div',
      { class: 'gradlab-fit' },
      first && named(first),
      rest.length > 0 && html('div', { class: 'small' }, rest.map(named)),
    ),
    runsTable(run),
    layersTable(run),
  ];
}
