// The gradients at one glance: a row a parameter, a column a power of two, darker where more of its elements lie.

import { html, linkButton, svg } from '../shared/dom.js';
import { flagWords, NO_GRADIENT, powerOfTwo } from './gradient_words.js';
import { choose } from './selection.js';

const MOST_ROWS = 100;
const LONGEST_NAME = 36;
const LEVELS = 6;
const WIDTH = 666;
const LEFT = 226;
const ROW_HEIGHT = 13;
const BINS = 64;

/** Bin of 2 to the power of 0; a histogram begins at 2 to the power of -40. */
const BIN_OF_ONE = 40;

/** From which row on a link leads to the table below. */
const LONG = 24;

const firstBin = ({ histogram }) => histogram.findIndex((elements) => elements);
const lastBin = ({ histogram }) => BINS - 1 - [...histogram].reverse().findIndex((elements) => elements);

/** The bins that are drawn: those with elements in them, eight at least. */
function range(gradients) {
  const full = gradients.filter((gradient) => firstBin(gradient) >= 0);
  const low = full.reduce((bin, gradient) => Math.min(bin, firstBin(gradient)), BINS);
  const high = full.reduce((bin, gradient) => Math.max(bin, lastBin(gradient)), 0) + 1;
  const from = Math.max(0, Math.min(low, BINS - 8));
  return [from, Math.max(high, from + 8)];
}

/** Scroll the table below into sight. */
function goToTable(event) {
  const box = event.target.closest('.scroll');
  box.scrollTop += box.querySelector('table').getBoundingClientRect().top - box.getBoundingClientRect().top;
}

/**
 * @param {Card} card
 * @param {(gradient: object) => void} open shows a gradient's row of the table
 * @returns {Child[]} nothing for fewer than two parameters
 */
export function heatMap(card, open) {
  const {
    record: { gradients },
    selection,
  } = card;
  const step = Math.ceil(gradients.length / MOST_ROWS) || 1;
  const kept = gradients.filter(({ flags }, index) => index % step === 0 || (flags.length && index < MOST_ROWS * step));
  if (kept.length < 2) {
    return [];
  }
  const [from, to] = range(kept);
  const binWidth = Math.min(20, 420 / (to - from));
  const height = ROW_HEIGHT * kept.length + 40;
  const levels = Array.from({ length: LEVELS }, () => ''); // one path a level: thousands of elements would be slow

  const addCells = ({ histogram }, row) => {
    const most = Math.max(1, ...histogram);
    histogram.forEach((elements, bin) => {
      if (elements && bin >= from && bin < to) {
        const level = Math.min(LEVELS - 1, Math.floor(LEVELS * Math.sqrt(elements / most)));
        const corner = `${LEFT + binWidth * (bin - from)} ${ROW_HEIGHT * row + 6}`;
        levels[level] += `M${corner}h${binWidth}v${ROW_HEIGHT - 1}h${-binWidth}z`;
      }
    });
  };

  const labelsOf = (gradient, row) => {
    const { name } = gradient;
    const [words] = flagWords(gradient);
    const top = ROW_HEIGHT * row;
    const inPlace = words && firstBin(gradient) < 0; // no cell is drawn, so there is room for words
    const hit = {
      class: 'hit',
      x: 0,
      y: top + 5,
      width: WIDTH,
      height: ROW_HEIGHT,
      onmouseenter: () => selection.light(choose([], 0, [name])),
      onmouseleave: selection.rest,
      onclick: () => open(gradient),
    };
    const label = { x: LEFT - 8, y: top + 16, 'text-anchor': 'end', class: words ? 'row flag' : 'row' };
    const short = name.length > LONGEST_NAME ? `…${name.slice(1 - LONGEST_NAME)}` : name;
    return [
      inPlace && svg('text', { x: LEFT + 4, y: top + 16, class: 'row flag' }, words === NO_GRADIENT ? 'none' : words),
      svg('text', label, short),
      svg('rect', hit),
    ];
  };

  const colour = (level) =>
    `color-mix(in srgb, var(--forward) ${Math.round(18 + (82 * level) / (LEVELS - 1))}%, var(--bg))`;
  const axis = () => {
    const every = Math.max(Math.ceil(34 / binWidth), Math.round((to - from) / 8));
    const labels = [];
    for (let bin = from; bin <= to; bin += every) {
      const place = { x: LEFT + binWidth * (bin - from), y: height - 18, 'text-anchor': 'middle' };
      labels.push(powerOfTwo(bin - BIN_OF_ONE, place));
    }
    return labels;
  };

  kept.forEach(addCells);
  const attributes = {
    class: 'plot',
    viewBox: `0 0 ${WIDTH} ${height}`,
    width: WIDTH,
    height,
    role: 'img',
    'aria-label': 'heat map of log2 |gradient| by parameter',
  };
  const drawing = svg(
    'svg',
    attributes,
    kept.map(labelsOf),
    levels.map((d, level) => svg('path', { d, fill: colour(level) })),
    axis(),
  );
  return [
    html(
      'div',
      { class: 'lead' },
      'Elements of each gradient by power of two',
      step > 1 && `, every ${step}th parameter`,
      ', from input to loss: the darker, the more. A row opens its histogram. ',
      kept.length > LONG && linkButton('to the table', goToTable),
      drawing,
    ),
  ];
}
