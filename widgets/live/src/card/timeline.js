// The cell's runs over time: forward, backward and update, a lane each; it zooms, and scrolls from side to side.

import { fill, html, linkButton, svg } from '../shared/dom.js';
import { time, whole } from '../shared/format.js';
import { toolbar } from '../shared/toolbar.js';
import { downloads } from './download.js';
import { choose } from './selection.js';
import { createZoom } from './zoom.js';

const PHASES = ['forward', 'backward', 'update'];
const EDGE = 8;
const LANE = 36;
const LOWEST_WIDTH = 300;

/** Pixels between two times of the axis at least. */
const APART = 90;

const LARGEST_SCALE = 5000;

/** What stands below the timeline until a run is pointed at. */
function hint({ runs_left: left }, runs) {
  const which = left ? `The ${whole(runs)} longest of ${whole(runs + left)} runs. ` : '';
  return `${which}Point at a run, or go from one to the next by the arrow keys.`;
}

/** A round length of time, at least as long as given: 1, 2 or 5 times a power of ten. */
function roundUp(ms) {
  const power = 10 ** Math.floor(Math.log10(ms));
  return power * [1, 2, 5, 10].find((digit) => digit * power >= ms);
}

/**
 * @param {Card} card
 * @returns {Child[]} nothing for fewer than two runs
 */
export function timeline(card) {
  const {
    record: { data, ops, rows },
    selection,
  } = card;
  const runs = rows('runs').filter(({ phase }) => PHASES.includes(phase));
  const lanes = PHASES.filter((phase) => runs.some((run) => run.phase === phase));
  const last = runs.reduce((end, { start, ms }) => Math.max(end, start + ms), 0);
  if (runs.length < 2 || !last) {
    return [];
  }
  const status = html('div', { class: 'quiet', 'aria-live': 'polite' }, hint(data, runs.length));
  const height = LANE * lanes.length + 26;
  const bottom = LANE * lanes.length + 6;
  let perMs = 1; // pixels
  let at = -1; // the run that was told last

  const choiceOf = ({ op: index }) => {
    const op = ops[index];
    return choose([index], op.file ? 0 : op.line);
  };
  const reveal = ({ op: index }) => card.reveal([index], ops[index].file ? 0 : ops[index].line);
  const told = (index, more) => {
    const run = runs[index];
    const { op, line, module } = ops[run.op];
    const words = [op, `${run.phase} ${time(run.ms)} at ${time(run.start)}`, line && `line ${line}`, module];
    bars[at]?.classList.remove('at');
    bars[index].classList.add('at');
    at = index;
    selection.light({ ...choiceOf(run), lines: new Set(line && !ops[run.op].file ? [line] : []) });
    fill(status, words.filter(Boolean).join(', '), more);
  };
  const link = (run) => [' ', linkButton('show it', () => reveal(run))];

  const bars = runs.map((run, index) => {
    const onclick = (event) => {
      if (event.pointerType === 'touch') {
        told(index, link(run)); // a finger cannot point first
      } else {
        reveal(run);
      }
    };
    const attributes = {
      class: run.phase[0],
      y: LANE * lanes.indexOf(run.phase) + 20,
      height: 16,
      onmouseenter: () => told(index),
      onmouseleave: selection.rest,
      onclick,
    };
    return svg('rect', attributes);
  });
  const names = lanes.map((phase, lane) => svg('text', { y: LANE * lane + 15 }, phase));
  const ticks = svg('g', {});
  const drawing = svg(
    'svg',
    { class: 'plot', role: 'img', 'aria-label': `timeline of ${time(last)}`, height },
    ticks,
    names,
    bars,
  );
  const box = html('div', { class: 'times', tabindex: 0, role: 'group', 'aria-label': 'runs over time' }, drawing);

  /** The names of lanes and the times of the axis, as far as they are in sight. */
  const drawAxis = () => {
    const left = box.scrollLeft;
    const width = box.clientWidth || LOWEST_WIDTH;
    const step = roundUp(APART / perMs);
    const marks = [];
    for (let k = Math.max(0, Math.floor((left - EDGE) / perMs / step)); k * step <= last; k += 1) {
      const x = EDGE + k * step * perMs;
      if (x > left + width) {
        break;
      }
      const isEnd = x > left + width - 50;
      marks.push(
        svg('path', { class: 'edge', d: `M${x} 2V${bottom}` }),
        !isEnd && svg('text', { x: x + 3, y: height - 6 }, k ? time(+(k * step).toPrecision(12)) : '0'),
      );
    }
    fill(ticks, marks);
    for (const name of names) {
      name.setAttribute('x', left + EDGE);
    }
  };
  const apply = (scale) => {
    const width = Math.max(LOWEST_WIDTH, box.clientWidth) * scale;
    perMs = (width - 2 * EDGE) / last;
    drawing.setAttribute('width', width);
    drawing.setAttribute('viewBox', `0 0 ${width} ${height}`);
    bars.forEach((bar, index) => {
      const { start, ms } = runs[index];
      bar.setAttribute('x', (EDGE + start * perMs).toFixed(2));
      bar.setAttribute('width', Math.max(0.6, ms * perMs).toFixed(2));
    });
    drawAxis();
  };
  const zoom = createZoom(box, { automatic: () => 1, fit: () => 1, apply, most: LARGEST_SCALE });
  box.onscroll = drawAxis;

  const step = (by) => {
    const index = (at + by + runs.length) % runs.length;
    told(index, ', Enter shows it');
    const middle = EDGE + (runs[index].start + runs[index].ms / 2) * perMs;
    if (middle < box.scrollLeft || middle > box.scrollLeft + box.clientWidth) {
      box.scrollLeft = middle - box.clientWidth / 2;
    }
  };
  box.onkeydown = (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by && !event.shiftKey) {
      step(by);
      event.preventDefault();
    } else if (event.key === 'Enter' && at >= 0) {
      reveal(runs[at]);
    }
  };
  box.onblur = selection.rest;

  /** Hand over what is in sight. */
  const hand = (use) => {
    const whole = drawing.getAttribute('viewBox');
    drawing.setAttribute('viewBox', `${box.scrollLeft} 0 ${box.clientWidth} ${height}`);
    use(drawing);
    drawing.setAttribute('viewBox', whole);
  };
  const name = () => `${data.head.title || 'autograd'} timeline`;
  const later =
    data.runs_later > 0 &&
    `The timeline ends here, at ${time(last)}: ` +
      `the cell's ${whole(data.runs_later)} later runs are in the tables alone.`;
  zoom.begin();
  return [
    html(
      'div',
      { class: 'lead' },
      toolbar('timeline', [...zoom.tools, ...downloads(name, hand)]),
      box,
      status,
      later && html('div', { class: 'quiet' }, later),
    ),
  ];
}
