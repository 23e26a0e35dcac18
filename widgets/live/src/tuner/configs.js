// The tab "Configs": every config as a line over its tunables, and the fastest as a table. A stretch of an axis, or
// values chosen above, lets through what passes there.

import { html, linkButton, svg } from '../shared/dom.js';
import { count, number, time, whole } from '../shared/format.js';
import { figureCell, plotAttributes, table } from './elements.js';
import { why } from './words.js';

const WIDTH = 760;
const HEIGHT = 230;
const LEFT = 34;
const TOP = 38;
const BOTTOM = HEIGHT - 20;

/** Ratios from which on lines lie at the end of the axis. */
const SLOWEST = 4;

const MOST_LINES = 400;
const MOST_FASTEST = 30;
const MOST_SLOWEST = 10;

/** The lines that are drawn the strongest. */
const FIRST = 3;

/** A stretch that is shorter is a click: it lets all through again. */
const CLICK = 4;

/** How far beyond a stretch a value may lie. */
const REACH = 6;

const SHARES = [
  ['1', 'all'],
  ['.5', 'the fastest half'],
  ['.1', 'the fastest tenth'],
];
const A_STRETCH = '2';

const byRatio = (a, b) => a.ratio - b.ratio;

/** The controls: values to let through, and ratios. */
export function configsControls(panel) {
  const { session, wanted, within } = panel;
  const chip = (tunable, value, code) => {
    const onclick = (event) => {
      const codes = wanted.get(tunable) || new Set();
      if (!codes.delete(code)) {
        codes.add(code);
      }
      if (codes.size) {
        wanted.set(tunable, codes);
      } else {
        wanted.delete(tunable);
      }
      event.target.setAttribute('aria-pressed', codes.has(code));
      panel.redraw();
    };
    const pressed = Boolean(wanted.get(tunable)?.has(code));
    return html('button', { type: 'button', 'aria-pressed': pressed, onclick }, value);
  };
  const chips = session.various.map((tunable) => {
    const [name, values] = session.tunables[tunable];
    const buttons = values.map((value, code) => chip(tunable, value, code));
    return html('span', { class: 'chips', role: 'group', 'aria-label': name }, html('b', {}, name), buttons);
  });

  const onchange = (event) => {
    const share = Number(event.target.value);
    const ratios = session.timed.map(({ ratio }) => ratio).sort((a, b) => a - b);
    panel.within = share < 1 && ratios.length ? [0, ratios[Math.ceil(ratios.length * share) - 1]] : null;
    panel.redraw();
  };
  const options = SHARES.map(([value, words]) => html('option', { value }, words));
  if (within) {
    const words = `${number(within[0])} to ${number(within[1])}`;
    options.push(html('option', { value: A_STRETCH, selected: '' }, words));
  }
  const select = html('select', { class: 'find by', onchange }, options);

  const showAll = () => {
    wanted.clear();
    panel.within = null;
    panel.open();
  };
  const controls = [...chips, html('label', {}, html('b', {}, 'of default '), select)];
  if (wanted.size > 0 || within) {
    controls.push(linkButton('Show all', showAll));
  }
  return controls;
}

/** Whether a trial has values and a ratio that are let through. */
function passes({ wanted, within }, { codes, ratio }) {
  const hasValues = [...wanted].every(([tunable, wantedCodes]) => wantedCodes.has(codes[tunable]));
  return hasValues && (!within || (ratio >= within[0] && ratio <= within[1]));
}

/**
 * Where values lie: axes beside one another, one a tunable and the last for the ratios, on a log scale.
 * @param {object} session
 * @param {Trial[]} list the fastest first
 */
function scalesFor({ tunables, various }, list) {
  const step = (WIDTH - 76) / various.length;
  const height = BOTTOM - TOP;
  const slowest = Math.log(Math.max(1.01, ...list.map(({ ratio }) => Math.min(ratio, SLOWEST))));
  const fastest = Math.log(list[0]?.ratio || 0.5);
  const span = slowest - fastest || 1;
  return {
    ratioAxis: various.length,
    slowest: Math.exp(slowest),
    axisX: (axis) => LEFT + axis * step,
    valueY: (code, tunable) => {
      const last = tunables[tunable][1].length - 1;
      return BOTTOM - (last > 0 ? code / last : 0.5) * height;
    },
    ratioY: (ratio) => BOTTOM - ((slowest - Math.log(Math.min(ratio, SLOWEST))) / span) * height,
    ratioAt: (y) => Math.exp(slowest - ((BOTTOM - y) / height) * span),
  };
}

/** A stretch of an axis, marked. */
function band(scales, axis, from, to) {
  return svg('rect', {
    class: 'brush',
    x: scales.axisX(axis) - 7,
    width: 14,
    y: Math.min(from, to) - REACH,
    height: Math.abs(to - from) + 2 * REACH,
  });
}

/** What is let through now, as marks on the axes. */
function bands({ session, wanted, within }, scales, list) {
  const drawn = [];
  for (const [tunable, codes] of wanted) {
    const axis = session.various.indexOf(tunable);
    if (axis >= 0) {
      const places = [...codes].map((code) => scales.valueY(code, tunable));
      drawn.push(band(scales, axis, Math.min(...places), Math.max(...places)));
    }
  }
  if (within) {
    const top = scales.ratioY(Math.max(within[0], list[0]?.ratio || 0));
    drawn.push(band(scales, scales.ratioAxis, top, scales.ratioY(within[1])));
  }
  return drawn;
}

/** An axis with its name, its labels [words, y], and the strip that takes the pointer. */
function drawAxis(scales, axis, name, labels) {
  const x = scales.axisX(axis);
  return [
    svg('line', { class: 'axis', x1: x, x2: x, y1: 32, y2: HEIGHT - 14 }),
    svg('text', { x, y: 16, 'text-anchor': 'middle' }, name),
    labels.map(([words, y]) => svg('text', { class: 'row halo', x: x + 5, y: y + 3 }, words)),
    svg('rect', { class: 'grip', x: x - 12, y: 26, width: 24, height: HEIGHT - 34, 'data-axis': axis }),
  ];
}

function drawAxes({ tunables, various }, scales, list) {
  const ofTunables = various.map((tunable, axis) => {
    const [name, values] = tunables[tunable];
    const labels = values.map((value, code) => [value, scales.valueY(code, tunable)]);
    return drawAxis(scales, axis, name, labels);
  });
  const ends = [];
  if (list.length) {
    ends.push([list[0].ratio.toFixed(2), scales.ratioY(list[0].ratio)]);
    ends.push([number(scales.slowest), scales.ratioY(scales.slowest)]);
  }
  return [ofTunables, drawAxis(scales, scales.ratioAxis, 'of default', ends)];
}

/** Let the pointer mark a stretch of an axis: what lies there is let through. */
function makeBrush(panel, scales, drawing) {
  const { session, wanted } = panel;
  let from = null;
  let axis = 0;
  let mark = null;

  const pointerY = (event) => {
    const box = drawing.getBoundingClientRect();
    return ((event.clientY - box.top) * HEIGHT) / box.height;
  };
  const letRatiosThrough = (top, bottom) => {
    panel.within = bottom - top < CLICK ? null : [scales.ratioAt(top), scales.ratioAt(bottom)];
  };
  const letValuesThrough = (tunable, top, bottom) => {
    const isThere = (code) => {
      const y = scales.valueY(code, tunable);
      return y >= top - REACH && y <= bottom + REACH;
    };
    const codes = new Set([...session.tunables[tunable][1].keys()].filter(isThere));
    if (bottom - top < CLICK || !codes.size) {
      wanted.delete(tunable);
    } else {
      wanted.set(tunable, codes);
    }
  };

  drawing.onpointerdown = (event) => {
    const { axis: grasped } = event.target.dataset;
    if (grasped === undefined) {
      return;
    }
    axis = Number(grasped);
    from = pointerY(event);
    drawing.setPointerCapture(event.pointerId);
    event.preventDefault();
    drawing.dataset.busy = 1; // news of a running session wait
  };
  drawing.onpointermove = (event) => {
    if (from === null) {
      return;
    }
    mark?.remove();
    mark = band(scales, axis, from, pointerY(event));
    drawing.append(mark);
  };
  drawing.onpointerup = (event) => {
    if (from === null) {
      return;
    }
    const [top, bottom] = [from, pointerY(event)].sort((a, b) => a - b);
    from = null;
    if (axis === scales.ratioAxis) {
      letRatiosThrough(top, bottom);
    } else {
      letValuesThrough(session.various[axis], top, bottom);
    }
    panel.open();
  };
}

/** The lines of all configs, and the axes. */
function drawLines(panel, list, through) {
  const { session, chosen } = panel;
  const scales = scalesFor(session, list);
  const line = (trial, className) => {
    const points = session.various.map(
      (tunable, axis) => `${scales.axisX(axis)},${scales.valueY(trial.codes[tunable], tunable).toFixed(1)}`,
    );
    points.push(`${scales.axisX(scales.ratioAxis)},${scales.ratioY(trial.ratio).toFixed(1)}`);
    return svg('polyline', { class: className, points: points.join(' ') });
  };
  // what is drawn last lies on top
  const dimmed = list
    .slice(0, MOST_LINES)
    .reverse()
    .filter((trial) => !passes(panel, trial));
  const strong = through.slice(0, MOST_LINES).reverse();
  const label = 'configs as lines over their tunables, the fastest on top; the table below says the same';
  const drawing = svg(
    'svg',
    plotAttributes(WIDTH, HEIGHT, label),
    dimmed.map((trial) => line(trial, 'dim')),
    strong.map((trial, index) => line(trial, index >= strong.length - FIRST ? 'first' : 'some')),
    chosen && line(chosen, 'picked'),
    bands(panel, scales, list),
    drawAxes(session, scales, list),
  );
  makeBrush(panel, scales, drawing);
  return drawing;
}

/** The fastest of what passes, and the slowest; a config says why it is slow. */
function configsTable(panel, list, through) {
  const { session } = panel;
  const choose = (event, trial) => {
    panel.chosen = trial;
    for (const row of panel.scrollBox().querySelectorAll('tr.lit')) {
      row.classList.remove('lit');
    }
    event.target.closest('tr').classList.add('lit');
    panel.say(why(session, trial));
  };
  const makeRow = (trial) => {
    const link = linkButton(session.words(trial.codes), (event) => choose(event, trial), { class: 'link code' });
    return html(
      'tr',
      { class: trial === panel.chosen ? 'lit' : '' },
      figureCell(trial.ratio.toFixed(3)),
      figureCell(time(trial.ms)),
      html('td', { class: 'long' }, link),
    );
  };
  const shown = [...through.slice(0, MOST_FASTEST), ...through.slice(MOST_FASTEST).slice(-MOST_SLOWEST)];
  const caption = `${whole(through.length)} of ${count(list.length, 'config')}; choose one to read why it is slow`;
  return table(caption, [['of default', true], ['time', true], ['config']], shown.map(makeRow));
}

/** @returns {Child[]} the contents of the tab */
export function configsTab(panel) {
  const list = [...panel.session.timed].sort(byRatio);
  const through = list.filter((trial) => passes(panel, trial));
  const advice = 'Draw along an axis, or choose values above, to keep the configs that pass there.';
  return [
    drawLines(panel, list, through),
    html('p', { class: 'lead quiet' }, advice),
    configsTable(panel, list, through),
  ];
}
