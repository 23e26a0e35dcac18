// The tab "Roofline": operations a second over operations a byte, below what the device allows.
// Williams, Waterman and Patterson, Roofline: an insightful visual performance model, 2009.

import { html, quiet, svg } from '../shared/dom.js';
import { number, time } from '../shared/format.js';
import { lead, plotAttributes } from './elements.js';
import { allowed, large, limitsOf, percent, speedOf } from './rates.js';

const WIDTH = 760;
const HEIGHT = 260;
const LEFT = 52;
const RIGHT = WIDTH - 22;
const TOP = 12;
const BOTTOM = HEIGHT - 40;

const THOUSANDS = ['', ' k', ' M', ' G', ' T', ' P'];

/** Ten to a power in short: "100 k". */
function decadeLabel(exponent) {
  const thousands = Math.floor(exponent / 3);
  const digits = ['1', '10', '100'][exponent - 3 * thousands];
  return digits + (THOUSANDS[thousands] ?? `e${3 * thousands}`);
}

/** The exponents of the powers of ten between two exponents. */
function decades(from, to) {
  const exponents = [];
  for (let exponent = Math.ceil(from); exponent <= Math.floor(to); exponent += 1) {
    exponents.push(exponent);
  }
  return exponents;
}

/** Log scales that hold all points and the ridge, where the slope meets the roof. */
function scalesFor({ peak, bandwidth }, speeds) {
  const log = Math.log10;
  const ridge = peak / bandwidth;
  const intensities = speeds.map(({ intensity }) => intensity);
  const slowest = Math.min(...speeds.map(({ rate }) => rate));
  const x0 = Math.floor(log(Math.min(ridge / 4, ...intensities)));
  const x1 = Math.max(Math.ceil(log(Math.max(ridge * 4, ...intensities))), x0 + 1);
  const y1 = log(peak) + 0.25;
  const y0 = Math.min(log(slowest) - 0.2, y1 - 1.5);
  return {
    ridge,
    x: (intensity) => LEFT + ((log(intensity) - x0) / (x1 - x0)) * (RIGHT - LEFT),
    y: (rate) => TOP + ((y1 - log(rate)) / (y1 - y0)) * (BOTTOM - TOP),
    xDecades: decades(x0, x1),
    yDecades: decades(y0, y1),
    corner: Math.max(10 ** y0 / bandwidth, 10 ** x0), // where the slope begins, left or below
  };
}

function drawGrid({ x, y, xDecades, yDecades }) {
  const plain = (exponent) =>
    exponent < -2 || exponent > 3 ? `1e${exponent}` : String(+(10 ** exponent).toPrecision(1));
  const vertical = (exponent) => {
    const at = x(10 ** exponent);
    return [
      svg('line', { class: 'axis faint', x1: at, x2: at, y1: TOP, y2: BOTTOM }),
      svg('text', { class: 'row', x: at, y: BOTTOM + 14, 'text-anchor': 'middle' }, plain(exponent)),
    ];
  };
  const horizontal = (exponent) => {
    const at = y(10 ** exponent);
    return [
      svg('line', { class: 'axis faint', x1: LEFT, x2: RIGHT, y1: at, y2: at }),
      svg('text', { class: 'row', x: LEFT - 6, y: at + 3, 'text-anchor': 'end' }, decadeLabel(exponent)),
    ];
  };
  return [xDecades.map(vertical), yDecades.map(horizontal)];
}

function drawRoof({ peak, bandwidth }, { x, y, ridge, corner }) {
  const slope = `M${x(corner).toFixed(1)} ${y(corner * bandwidth).toFixed(1)}`;
  const d = `${slope} L${x(ridge).toFixed(1)} ${y(peak).toFixed(1)} H${RIGHT}`;
  return [
    svg('path', { class: 'roof', d }),
    svg('text', { x: WIDTH / 2, y: HEIGHT - 8, 'text-anchor': 'middle' }, 'operations a byte'),
    svg('text', { class: 'halo', x: LEFT + 4, y: TOP + 12 }, 'operations a second'),
  ];
}

/** All configs as dots, a ring around the default, and the best. */
function drawPoints(session, { x, y }, speeds) {
  const { best, trials } = session;
  const standard = trials.find(({ ratio }) => ratio === 1);
  const place = (trial) => {
    const { rate, intensity } = speedOf(session, trial);
    return { cx: x(intensity), cy: y(rate) };
  };
  const named = (trial, name, dy) => {
    const { cx, cy } = place(trial);
    return svg('text', { class: 'halo', x: cx + 9, y: cy + dy }, name);
  };
  const dot = ({ rate, intensity }) =>
    svg('circle', { class: 'dot', r: 2.5, cx: x(intensity).toFixed(1), cy: y(rate).toFixed(1) });
  return [
    speeds.map(dot),
    standard && svg('circle', { class: 'ring', r: 5, ...place(standard) }),
    svg('circle', { class: 'top', r: 5, ...place(best) }),
    standard && standard !== best && named(standard, 'default', 12),
    named(best, standard === best ? 'the default is the best' : 'best', -5),
  ];
}

/** @returns {Child[]} the contents of the tab */
export function rooflineTab({ session }) {
  const { timed, best, bound, default_ms: defaultMs, estimate } = session;
  const limits = limitsOf(session);
  if (!limits) {
    const missing = "nobody has counted this kernel's operations, or what this device reaches is not known.";
    return [lead(`There is no roofline: ${missing}`)];
  }
  if (!timed.length || !defaultMs) {
    return [lead('Nothing has a time yet.')];
  }
  const speeds = timed.map((trial) => speedOf(session, trial));
  const scales = scalesFor(limits, speeds);
  const { rate, intensity } = speedOf(session, best);
  const { peak, bandwidth, whose } = limits;
  const figures =
    ` · ${large(peak)}FLOP/s and ${large(bandwidth)}B/s are ${whose} figures` +
    (estimate ? '; the points are estimates' : '') +
    (whose.includes('measured') ? '; arrays that lie in the cache may pass the slope' : '');
  const reaches = `the best reaches ${large(rate)}FLOP/s at ${number(intensity)} a byte`;
  const limit = intensity < scales.ridge ? 'memory' : 'arithmetic';
  const reached = percent(rate / allowed(limits, intensity));
  return [
    lead(html('b', {}, 'Roofline'), quiet(figures)),
    svg(
      'svg',
      plotAttributes(WIDTH, HEIGHT, `operations a second over operations a byte; ${reaches}`),
      drawGrid(scales),
      drawRoof(limits, scales),
      drawPoints(session, scales, speeds),
    ),
    lead(
      `The best: ${large(rate)}FLOP/s at ${number(intensity)} operations a byte, ` +
        `where the ${limit} is the limit: ${reached} of what it allows.`,
    ),
    bound && html('p', { class: 'lead quiet' }, `At best ${time(bound[0])}: ${bound[1]}.`),
  ];
}
