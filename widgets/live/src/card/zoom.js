// Zoom and pan of a drawing in a box that scrolls: by buttons, keys, the wheel with Ctrl, dragging, and two fingers.
//
// To pan is to scroll, so that one finger, the wheel and the scroll bars do what they do everywhere.

import { fill } from '../shared/dom.js';
import { tool } from '../shared/toolbar.js';

const STEP = 1.3;

/** Pixels that Shift and an arrow key move. */
const PAN = 80;

/** Pixels that the pointer moves before a press is a drag. */
const SLACK = 4;

const PANS = { ArrowDown: [0, PAN], ArrowUp: [0, -PAN], ArrowRight: [PAN, 0], ArrowLeft: [-PAN, 0] };

/** Move the box's contents with a pressed mouse; the click at the end of a drag is not one. */
function panByDrag(box) {
  let from = null;
  let dragged = false;
  box.onpointerdown = (event) => {
    dragged = false;
    from = event.pointerType !== 'touch' && event.button === 0 && [event.clientX, event.clientY];
  };
  box.onpointermove = (event) => {
    if (!from || !event.buttons) {
      return;
    }
    const [x, y] = from;
    const right = event.clientX - x;
    const down = event.clientY - y;
    if (dragged || Math.hypot(right, down) > SLACK) {
      if (!dragged) {
        box.setPointerCapture(event.pointerId);
      }
      dragged = true;
      box.scrollBy(-right, -down);
      from = [event.clientX, event.clientY];
    }
  };
  box.onpointerup = () => {
    from = null;
  };
  const swallow = (event) => {
    if (dragged) {
      event.stopPropagation();
      dragged = false;
    }
  };
  box.addEventListener('click', swallow, true);
}

/** Zoom with two fingers; one finger scrolls, which is the browser's. */
function zoomByPinch(box, zoomBy) {
  let apart = 0;
  const measure = ([one, other]) => [
    Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY),
    [(one.clientX + other.clientX) / 2, (one.clientY + other.clientY) / 2],
  ];
  const pinch = (event) => {
    if (event.touches.length !== 2 || !event.cancelable) {
      return;
    }
    event.preventDefault();
    const [distance, middle] = measure(event.touches);
    if (event.type === 'touchmove' && apart) {
      zoomBy(distance / apart, middle);
    }
    apart = distance;
  };
  for (const type of ['touchstart', 'touchmove']) {
    box.addEventListener(type, pinch, { passive: false });
  }
}

/**
 * @param {HTMLElement} box scrolls; its first child is the drawing
 * @param {object} drawing
 * @param {() => number} drawing.automatic the scale until someone zooms
 * @param {() => number} drawing.fit the scale at which all is in sight
 * @param {(scale: number) => void} drawing.apply draws at a scale
 * @param {number} drawing.most the largest scale
 */
export function createZoom(box, { automatic, fit, apply, most }) {
  let scale = 1;
  let choose = automatic; // what says the scale when the box changes its size; null once someone zoomed
  const percent = tool('', () => to(1));

  const set = (next) => {
    scale = Math.min(most, Math.max(Math.min(0.1, fit()), next));
    const words = `${Math.round(100 * scale)} %`;
    fill(percent, words);
    percent.setAttribute('aria-label', `zoom ${words}, press for 100 %`);
    apply(scale);
  };

  /** Zoom so that the point of the drawing at a place of the window, or in the middle of the box, stays where it is. */
  const to = (next, at) => {
    if (!box.firstChild) {
      return;
    }
    const frame = box.getBoundingClientRect();
    const [x, y] = at || [frame.left + box.clientWidth / 2, frame.top + box.clientHeight / 2];
    const before = box.firstChild.getBoundingClientRect();
    choose = null;
    set(next);
    const after = box.firstChild.getBoundingClientRect();
    const across = (x - before.left) / before.width;
    const along = (y - before.top) / before.height;
    box.scrollBy(after.left + across * after.width - x, after.top + along * after.height - y);
  };
  const zoomBy = (factor, at) => to(scale * factor, at);

  const reset = (how) => {
    choose = how;
    set(how());
  };

  const actions = {
    '+': () => zoomBy(STEP),
    '=': () => zoomBy(STEP),
    '-': () => zoomBy(1 / STEP),
    0: () => reset(fit),
  };
  const onkeydown = (event) => {
    const pan = event.shiftKey && PANS[event.key];
    const action = pan ? () => box.scrollBy(...pan) : actions[event.key];
    if (action && !event.ctrlKey && !event.metaKey && !event.altKey) {
      action();
      event.preventDefault();
    }
  };
  box.addEventListener('keydown', onkeydown);
  const onwheel = (event) => {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault(); // the browser would zoom the page
      zoomBy(Math.exp(-Math.max(-50, Math.min(50, event.deltaY)) / 200), [event.clientX, event.clientY]);
    }
  };
  box.addEventListener('wheel', onwheel, { passive: false });
  panByDrag(box);
  zoomByPinch(box, zoomBy);
  new ResizeObserver(() => box.firstChild && choose && set(choose())).observe(box, { box: 'border-box' });

  return {
    tools: [
      tool('−', () => zoomBy(1 / STEP), { 'aria-label': 'zoom out' }),
      percent,
      tool('+', () => zoomBy(STEP), { 'aria-label': 'zoom in' }),
      tool('Fit', () => reset(fit)),
    ],
    scale: () => scale,

    /** Show another drawing in the box, at its automatic scale. */
    begin: () => reset(automatic),

    /** Bring a part of the drawing, in its own units, into the middle, at a scale that shows all of it. */
    showPart: ([x, y, width, height], largest) => {
      choose = null;
      set(Math.min(largest, (box.clientWidth - 24) / width, (box.clientHeight - 24) / height));
      const outer = box.getBoundingClientRect();
      const inner = box.firstChild.getBoundingClientRect();
      box.scrollBy(
        inner.left - outer.left + (x + width / 2) * scale - box.clientWidth / 2,
        inner.top - outer.top + (y + height / 2) * scale - box.clientHeight / 2,
      );
    },
  };
}
