// Gradients: a heat map, a table, a histogram under each row.

import { html, linkButton, scrollIn, svg } from '../shared/dom.js';
import { count, number, share, whole } from '../shared/format.js';
import { flagWords, powerOfTwo } from './gradient_words.js';
import { heatMap } from './heat_map.js';
import { choose } from './selection.js';
import { makeFoldable, openRow, table } from './table.js';

const COLUMNS = 8;

/** Sorts behind whatever begins with a letter. */
const LAST = '~';

function histogram(gradient) {
  const most = Math.max(...gradient.histogram, 1);
  const bars = gradient.histogram.map((elements, bin) => {
    const height = elements && Math.max(1, (72 * elements) / most);
    return svg('rect', { class: 'f', x: 8 + 8 * bin, y: 76 - height, width: 7, height });
  });
  const axis = [svg('path', { class: 'edge', d: 'M8 76.5H520' })];
  for (let exponent = -40; exponent <= 24; exponent += 8) {
    axis.push(powerOfTwo(exponent, { x: 328 + 8 * exponent, y: 92 }));
  }
  const size = { viewBox: '0 0 528 96', width: 528, height: 96 };
  const figures = [
    `Rms ${number(gradient.rms)}`,
    `largest ${number(gradient.max_abs)}`,
    `weights' rms ${number(gradient.weight_rms)}`,
    `accumulated ${count(gradient.count, 'time')}`,
  ];
  if (gradient.nonfinite) {
    figures.push(`NaN or infinite ${whole(gradient.nonfinite)}`);
  }
  return [
    html('div', { class: 'quiet' }, `Elements by power of two of |gradient|. ${figures.join(', ')}.`),
    svg('svg', { ...size, role: 'img', 'aria-label': 'histogram of log2 |gradient|' }, bars, axis),
  ];
}

/** What is remarkable about a gradient, and the line that a finding says it of. */
function remarks(card, gradient) {
  const { findings } = card.record;
  const finding = findings.find(({ line, parameters }) => line && parameters.includes(gradient.name));
  const go = (event) => {
    event.stopPropagation(); // the row would open
    card.reveal(finding.ops, finding.line, finding.parameters);
  };
  return [
    html('span', { class: 'flag' }, flagWords(gradient).join(', ')),
    finding && [' ', linkButton(`line ${finding.line}`, go)],
  ];
}

function gradientTable(card) {
  const { gradients, data } = card.record;
  const figure = (title, key, write = number) => ({ title, by: key, write });
  const opener = (name) => html('button', { type: 'button', 'aria-expanded': 'false' }, name);
  const columns = [
    { title: 'parameter', by: 'name', kind: 'code', write: opener },
    { title: 'shape', by: 'shape', kind: 'text' },
    figure('norm', 'norm'),
    figure('mean', 'mean'),
    figure('std', 'std'),
    figure('zeros', 'zeros', share),
    figure(['update /', html('br', {}), 'weight'], 'update_ratio'),
    {
      title: 'flags',
      cell: (gradient) => remarks(card, gradient),
      by: (gradient) => flagWords(gradient).join() || LAST,
      kind: 'text',
    },
  ];
  const onRow = (gradient, row) => {
    card.gradientRows.push({ gradient, row });
    makeFoldable(row, COLUMNS, () => (gradient.norm === null ? [data.unreached] : histogram(gradient)));
  };
  return table('By parameter', columns, gradients, { onRow });
}

/**
 * The contents of the tab.
 * @param {Card} card
 * @returns {Child[]}
 */
export function gradientsTab(card) {
  if (!card.record.gradients.length) {
    return ['No parameter took part.'];
  }
  /** From the map to the row that holds the figures and the histogram. */
  const open = (gradient) => {
    const row = card.gradientRows.find((one) => one.gradient === gradient)?.row;
    if (!row?.isConnected) {
      return; // beyond the rows that are shown
    }
    openRow(row);
    card.selection.pin(choose([], 0, [gradient.name]));
    scrollIn(row.closest('.scroll'), row);
    row.querySelector('[aria-expanded]').focus({ preventScroll: true });
  };
  return [...heatMap(card, open), ...gradientTable(card)];
}
