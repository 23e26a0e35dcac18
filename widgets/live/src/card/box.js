// A box of the graph and an edge between two, as SVG.

import { svg } from '../shared/dom.js';
import { time } from '../shared/format.js';
import { CUT, UNREACHED } from './record.js';

/** Characters that are wider than the letters that Python made room for, six in a row. */
const WIDE = /[A-Z@%\u1100-\uffff]{6}/;

/** Width of a character of each kind of text. */
const LABEL_WIDTH = 7.4;
const SMALL_WIDTH = 6;
const CHIP_WIDTH = 5.6;
const BADGE_WIDTH = 6.2;

const CHIP_CLASSES = ['chip', 'chip dead', 'chip slow', 'chip way'];

/** Attributes that squeeze words into the room that was made for them. */
function squeezed(words, width) {
  return WIDE.test(words) ? { textLength: width * words.length, lengthAdjust: 'spacingAndGlyphs' } : {};
}

function rectangle(className, x, y, width, height, rx, attributes) {
  return svg('rect', { class: className, x, y, width, height, rx, ...attributes });
}

/** Words in a pill, the left upper corner of which is at x, y. */
function pill(className, x, y, width, words) {
  const middle = { x: x + width / 2, y: y + 12 };
  return svg(
    'g',
    { class: className },
    rectangle('', x, y, width, 16, 8),
    svg('text', { ...middle, ...squeezed(words, CHIP_WIDTH) }, words),
  );
}

function chips(item, strings, left, y) {
  let x = left;
  return item.chips.map(([text, kind]) => {
    const words = strings[text];
    const width = CHIP_WIDTH * words.length + 14;
    const chip = pill(CHIP_CLASSES[kind], x, y, width, words);
    x += width + 5;
    return chip;
  });
}

/** The bar over a box: as long as its figure; for times, the front part is forward and the other backward. */
function barOver(item, figure, left, y, width) {
  const forward = +item.forward || 0;
  const backward = +item.backward || 0;
  const long = (width - 20) * figure.heat;
  const front = figure.isTime ? (long * forward) / (forward + backward || 1) : long;
  const parts = [];
  if (front > 0.4) {
    parts.push(rectangle('f', left + 10, y, front, 3, 1));
  }
  if (long - front > 0.4) {
    parts.push(rectangle('b', left + 10 + front, y, long - front, 3, 1));
  }
  return parts;
}

/** What a screen reader says of a box. */
export function describe(item, figure, { strings, reached }) {
  const forward = +item.forward || 0;
  const backward = +item.backward || 0;
  const sentences = [
    item.label,
    item.detail,
    item.place,
    forward + backward && `forward ${time(forward)}, backward ${time(backward)}`,
    !figure.isTime && figure.text && `${figure.title} ${figure.text}`,
    item.badge.slice(2),
    item.flags & UNREACHED && reached,
    ...item.chips.map(([text]) => strings[text]),
    item.kind === 'group' && 'Enter opens',
  ];
  return sentences.filter(Boolean).join(', ');
}

/**
 * Draw a box.
 * @param {object} item
 * @param {number[]} place its middle, width and height
 * @param {{isTime: boolean, title: string, text: string, heat: number}} figure what it is coloured by; heat from 0 to 1
 * @param {object} data the card's
 * @param {number} tabindex
 * @returns {SVGElement}
 */
export function drawBox(item, [x, y, width, height], figure, data, tabindex) {
  const { kind, badge } = item;
  const left = -width / 2;
  const top = -height / 2;
  const isPort = kind === 'port';
  const attributes = {
    class: `node ${kind} ${item.marks}`,
    transform: `translate(${x} ${y})`,
    tabindex,
    role: 'button',
    'aria-label': describe(item, figure, data),
  };
  const text = (className, dx, dy, words) => {
    const each = className === 'label' && !isPort ? LABEL_WIDTH : SMALL_WIDTH;
    return svg('text', { class: className, x: dx, y: dy, ...squeezed(words, each) }, words);
  };
  const heat = { style: `--heat:${Math.round(32 * figure.heat)}%` };
  const parts = [
    kind === 'group' && rectangle('box', left + 4, top + 4, width, height, 5),
    rectangle('ring', left - 4, top - 4, width + 8, height + 8, 8),
    rectangle('box', left, top, width, height, isPort ? 11 : 5, heat),
  ];
  if (isPort) {
    parts.push(text('label', 0, 4, item.label));
  } else {
    parts.push(
      text('label', left + 10, top + 16, item.label),
      text('time', -left - 10, top + 16, figure.text),
      text('detail', left + 10, top + 31, item.detail),
      text('place', -left - 10, top + 31, item.place),
      chips(item, data.strings, left + 8, top + 37),
      barOver(item, figure, left, -top - 6, width),
    );
  }
  if (badge) {
    const badgeWidth = BADGE_WIDTH * badge.length + 12;
    parts.push(pill('badge', -left - badgeWidth - 6, top - 11, badgeWidth, badge));
  }
  return svg('g', attributes, parts);
}

/** The course of an edge through its points [x, y, x, y, ...]: straight down, or a curve to another column. */
export function course(points) {
  let path = `M${points[0]} ${points[1]}`;
  for (let i = 2; i < points.length; i += 2) {
    const [x0, y0, x, y] = points.slice(i - 2, i + 2);
    const middle = (y0 + y) / 2;
    path += x === x0 ? `V${y}` : `C${x0} ${middle} ${x} ${middle} ${x} ${y}`;
  }
  return path;
}

/** How an edge is drawn, by the flags of the boxes at its ends. */
export function edgeKind(from, to) {
  if ((from | to) & CUT) {
    return ' cut';
  }
  return from & to & UNREACHED ? ' unreached' : '';
}

/** The tip of an edge, where it comes to its box. */
export function drawTip(points, kind) {
  const [before, x, y] = points.slice(-3);
  const back = y > before ? -6 : 6;
  return svg('path', { class: `tip${kind}`, d: `M${x} ${y}l-3.5 ${back}h7z` });
}

/**
 * Draw an edge and its tip.
 * @param {number[]} points x and y in turn
 * @param {number} from flags of the box where it begins
 * @param {number} to flags of the box where it ends
 * @param {string} [shape] of what goes along it
 * @returns {SVGElement[]}
 */
export function drawEdge(points, from, to, shape) {
  const kind = edgeKind(from, to);
  const [x, y] = points;
  return [
    svg('path', { class: `edge${kind}`, d: course(points) }),
    drawTip(points, kind),
    shape && svg('text', { class: 'shape', x: x + 5, y: y + 14 }, shape),
  ];
}
