// The tab "Map": two tunables against each other, the best time for each pair of values.

import { html, moveFocus, quiet } from '../shared/dom.js';
import { isNumber } from '../shared/format.js';
import { lead } from './elements.js';
import { why } from './words.js';

/** Ratios from which on a cell is as pale as can be. */
const SLOWEST = 4;

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

const logRatio = ({ ratio }) => Math.log(Math.min(ratio, SLOWEST));

/** The controls: which tunable goes down, and which across. */
export function mapControls(panel) {
  const { axes, session } = panel;
  const picker = (axis) => {
    const onchange = (event) => {
      axes[axis] = Number(event.target.value);
      panel.redraw();
    };
    const options = session.tunables.map(([name], index) => html('option', { value: index }, name));
    const select = html('select', { class: 'find by', onchange }, options);
    select.value = axes[axis];
    return html('label', {}, axis ? 'across ' : 'down ', select);
  };
  return [picker(0), picker(1)];
}

/** The best trial for each pair of values of two tunables, by "value,value". */
function bestPairs(trials, down, across) {
  const best = new Map();
  for (const trial of trials) {
    const pair = `${trial.codes[down]},${trial.codes[across]}`;
    const before = best.get(pair);
    if (!before || (isNumber(trial.ratio) && !(before.ratio <= trial.ratio))) {
      best.set(pair, trial);
    }
  }
  return best;
}

/** The limit that forbids a pair of values, by "value,value"; the data has each two tunables once, in their order. */
function forbiddenPairs({ never }, down, across) {
  const flipped = down > across;
  const pairs = never[flipped ? `${across},${down}` : `${down},${across}`] || [];
  return new Map(pairs.map(([a, b, reason]) => [flipped ? `${b},${a}` : `${a},${b}`, reason]));
}

/** How a cell looks, and what is said of it: no config, not tried, a time, or a failure. */
function appearance(trial, forbidden, best) {
  if (forbidden) {
    return { kind: 'never', text: '', label: 'no config' };
  }
  if (!trial) {
    return { kind: 'open', text: '·', label: 'not tried' };
  }
  if (!isNumber(trial.ratio)) {
    return { kind: 'flag', text: '✕', label: trial.reason };
  }
  const text = trial.ratio.toFixed(2);
  const label = `${text} of the default's time`;
  if (trial === best) {
    return { kind: 'top', text, label: `${label}, the best` };
  }
  return { kind: '', text, label };
}

function legend(cells, best) {
  const key = (className, sign, words) =>
    html('span', { class: 'legend' }, html('span', { class: `key ${className}` }, sign), words);
  const any = (className) => cells.some((cell) => cell.matches(className));
  return lead(
    best && key('top', '', 'the best'),
    any('.never') && key('never', '', 'no config can be'),
    any('.flag') && key('flag', '✕', 'failed'),
    key('open', '·', 'not tried'),
  );
}

/** @returns {Child[]} the contents of the tab */
export function mapTab(panel) {
  const { session } = panel;
  const [down, across] = panel.axes;
  const { tunables, trials, best } = session;
  const pairs = bestPairs(trials, down, across);
  const forbidden = forbiddenPairs(session, down, across);
  const logs = [...pairs.values()].filter(({ ratio }) => isNumber(ratio)).map(logRatio);
  const fastest = Math.min(...logs);
  const slowest = Math.max(...logs);
  const isOneTunable = down === across; // then only the diagonal can be
  const [downName, downValues] = tunables[down];
  const [acrossName, acrossValues] = tunables[across];

  const heatOf = (trial) =>
    isNumber(trial?.ratio) ? Math.round((45 * (slowest - logRatio(trial))) / (slowest - fastest || 1)) : 0;
  const makeCell = (a, b) => {
    const trial = pairs.get(`${a},${b}`);
    const reason = forbidden.get(`${a},${b}`);
    const name = `${downName} ${downValues[a]}, ${acrossName} ${acrossValues[b]}: `;
    const { kind, text, label } = appearance(trial, reason, best);
    const tell = () => {
      if (reason) {
        panel.say(html('p', {}, `${name}no config: ${reason}`));
      } else {
        panel.say(trial ? why(session, trial) : html('p', {}, `${name}not tried`));
      }
    };
    const attributes = {
      type: 'button',
      tabindex: -1,
      class: `cell ${kind}`,
      style: `--heat:${heatOf(trial)}%`,
      'aria-label': name + label,
      onclick: tell,
      onfocus: tell,
    };
    return html('button', attributes, text);
  };
  const makeRow = (a) => (isOneTunable ? [makeCell(a, a)] : acrossValues.map((_, b) => makeCell(a, b)));
  const grid = downValues.map((_, a) => makeRow(a));
  grid[0][0].tabIndex = 0;

  const onkeydown = (event) => {
    const step = STEPS[event.key];
    const row = grid.findIndex((cells) => cells.includes(event.target));
    if (!step || row < 0) {
      return;
    }
    const next = grid[row + step[0]]?.[grid[row].indexOf(event.target) + step[1]];
    if (next) {
      event.preventDefault();
      moveFocus(event.target, next, panel.scrollBox());
    }
  };
  const heads = isOneTunable ? [''] : acrossValues;
  const body = grid.map((cells, a) =>
    html(
      'tr',
      {},
      html('th', { scope: 'row' }, downValues[a]),
      cells.map((cell) => html('td', {}, cell)),
    ),
  );
  const explanation =
    ' · the stronger the colour, the faster; a cell is the best of all configs tried that have its two values. ' +
    'Choose one to read why it is slow.';
  return [
    lead(html('b', {}, "Best time found, of the default's"), quiet(explanation)),
    html(
      'table',
      { class: 'map', onkeydown },
      html(
        'thead',
        {},
        html(
          'tr',
          {},
          html('td', {}),
          heads.map((value) => html('th', { scope: 'col' }, value)),
        ),
      ),
      html('tbody', {}, body),
    ),
    legend(grid.flat(), best),
  ];
}
