// The tab "Progress": how the search came closer, and what matters.

import { html, quiet, svg } from '../shared/dom.js';
import { count, isNumber, number, share } from '../shared/format.js';
import { figureCell, lead, plotAttributes, table } from './elements.js';

const WIDTH = 760;
const HEIGHT = 200;
const LEFT = 44;
const RIGHT = WIDTH - 16;
const TOP = 14;
const SLOWEST = 4;

/** What the trials are compared with: a ratio, its name, and whether the name stands on the left with its figure. */
function rulesOf({ bound, default_ms: defaultMs, previous }) {
  const rules = [{ ratio: 1, name: 'default' }];
  if (bound && defaultMs) {
    rules.push({ ratio: bound[0] / defaultMs, name: bound[2] });
  }
  if (previous) {
    rules.push({ ratio: previous[1], name: 'previous best', onLeft: true });
  }
  return rules;
}

function drawRule({ ratio, name, onLeft }, y) {
  const label = onLeft
    ? { class: 'halo', x: LEFT + 4, y: y - 4, 'text-anchor': 'start' }
    : { class: 'halo', x: RIGHT, y: y - 4, 'text-anchor': 'end' };
  return [
    svg('line', { class: 'axis', x1: LEFT, x2: RIGHT, y1: y, y2: y }),
    !onLeft && svg('text', { x: LEFT - 4, y: y + 4, 'text-anchor': 'end' }, number(ratio)),
    svg('text', label, onLeft ? `${name} ${number(ratio)}` : name),
  ];
}

function drawTrials({ trials, timed }, rules) {
  const ratios = timed.map(({ ratio }) => ratio);
  const last = Math.max(trials.length, 2) - 1;
  const lowest = Math.log(Math.min(0.9, ...rules.map(({ ratio }) => ratio), ...ratios));
  const highest = Math.log(Math.min(SLOWEST, Math.max(1.2, ...ratios)));
  const x = (index) => LEFT + (index / last) * (RIGHT - LEFT);
  const y = (ratio) => TOP + ((highest - Math.log(Math.min(ratio, SLOWEST))) / (highest - lowest)) * (HEIGHT - 40);

  let best = Infinity;
  let path = '';
  const dots = trials.map(({ ratio }, index) => {
    if (!isNumber(ratio)) {
      return svg('text', { x: x(index), y: HEIGHT - 20, class: 'flag row', 'text-anchor': 'middle' }, '✕');
    }
    const [cx, cy] = [x(index).toFixed(1), y(ratio).toFixed(1)];
    if (ratio < best) {
      path += path ? ` H${cx} V${cy}` : `M${cx} ${cy}`;
      best = ratio;
    }
    return svg('circle', { cx, cy, r: 2, class: 'dot' });
  });
  const label = `time of the default's, trial by trial; the best so far is ${number(best)}`;
  return svg(
    'svg',
    plotAttributes(WIDTH, HEIGHT, label),
    rules.map((rule) => drawRule(rule, y(rule.ratio))),
    dots,
    path && svg('path', { class: 'first', d: `${path} H${RIGHT}` }),
    svg('text', { x: WIDTH / 2, y: HEIGHT - 4, 'text-anchor': 'middle' }, count(trials.length, 'trial')),
  );
}

function importanceTable({ importance }) {
  const makeRow = ([name, part]) => {
    const bar = html('u', { class: 'f', style: `width:${100 * part}%` });
    return html(
      'tr',
      {},
      html('td', {}, name),
      figureCell(share(part)),
      html('td', {}, html('span', { class: 'track' }, bar)),
    );
  };
  const caption = 'How much of the spread each tunable explains by itself';
  return table(caption, [['tunable'], ['share', true], null], importance.map(makeRow));
}

/** @returns {Child[]} the contents of the tab */
export function progressTab({ session }) {
  return [
    lead(html('b', {}, "Each trial's time, of the default's"), quiet(' · the line is the best so far')),
    drawTrials(session, rulesOf(session)),
    session.importance.length > 0 && importanceTable(session),
  ];
}
