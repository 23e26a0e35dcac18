// The cell's runs over time: forward, backward and update, a lane each.

import { fill, html, quiet, svg } from '../shared/dom.js';
import { time, whole } from '../shared/format.js';
import { choose } from './selection.js';

const PHASES = ['forward', 'backward', 'update'];
const WIDTH = 640;
const LEFT = 70;
const RIGHT = WIDTH - 8;
const LANE = 22;

/** What stands below the timeline until a run is pointed at. */
function hint({ runs_left: left }, runs) {
  return left ? `The ${whole(runs)} longest of ${whole(runs + left)} runs. Point at one.` : 'Point at a run.';
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
  const status = quiet(hint(data, runs.length));
  const length = (ms) => ((RIGHT - LEFT) * ms) / last;

  const lane = (phase, index) => [
    svg('text', { x: LEFT - 6, y: LANE * index + 18, 'text-anchor': 'end' }, phase),
    svg('path', { class: 'edge', d: `M${LEFT} ${LANE * index + 24}H${RIGHT}` }),
  ];
  const bar = ({ op: index, phase, start, ms }) => {
    const op = ops[index];
    const enter = () => {
      const choice = choose([index]);
      if (op.line && !op.file) {
        choice.lines.add(op.line);
      }
      selection.light(choice);
      const words = [op.op, `${phase} ${time(ms)} at ${time(start)}`, op.line && `line ${op.line}`, op.module];
      fill(status, words.filter(Boolean).join(', '));
    };
    return svg('rect', {
      class: phase[0],
      x: (LEFT + length(start)).toFixed(2),
      y: LANE * lanes.indexOf(phase) + 6,
      width: Math.max(0.6, length(ms)).toFixed(2),
      height: 16,
      onmouseenter: enter,
      onmouseleave: selection.rest,
      onclick: () => card.reveal([index], op.file ? 0 : op.line),
    });
  };

  const height = LANE * lanes.length + 24;
  const attributes = {
    class: 'plot',
    viewBox: `0 0 ${WIDTH} ${height}`,
    width: WIDTH,
    height,
    role: 'img',
    'aria-label': `timeline of ${time(last)}`,
  };
  const drawing = svg(
    'svg',
    attributes,
    lanes.map(lane),
    runs.map(bar),
    svg('text', { x: LEFT, y: height - 4 }, '0'),
    svg('text', { x: RIGHT, y: height - 4, 'text-anchor': 'end' }, time(last)),
  );
  const later =
    data.runs_later > 0 &&
    `The timeline ends here, at ${time(last)}: ` +
      `the cell's ${whole(data.runs_later)} later runs are in the tables alone.`;
  return [html('div', { class: 'lead' }, drawing, status, later && html('div', { class: 'quiet' }, later))];
}
