// How a box of the graph answers to the pointer and to keys, in a view and in the overview.

import { choose } from './selection.js';

const DIRECTIONS = { ArrowDown: [0, 1], ArrowUp: [0, -1], ArrowRight: [1, 0], ArrowLeft: [-1, 0] };

/** The box that is nearest in a direction; what lies aside counts as farther. `boxes`: x, y, width, height in turn. */
export function nearestBox(boxes, from, [right, down]) {
  const x = boxes[4 * from];
  const y = boxes[4 * from + 1];
  const distance = (box) => {
    const dx = boxes[4 * box] - x;
    const dy = boxes[4 * box + 1] - y;
    const along = dx * right + dy * down;
    return along > 4 ? along + 2.5 * Math.abs(dx * down + dy * right) : Infinity;
  };
  let best = from;
  for (let box = 0; box < boxes.length / 4; box += 1) {
    if (distance(box) < distance(best)) {
      best = box;
    }
  }
  return best;
}

/** Choose ops with their lines of the cell. */
export function choiceOf({ ops }, list) {
  const choice = choose(list);
  for (const op of list) {
    if (!ops[op].file) {
      choice.lines.add(ops[op].line);
    }
  }
  return choice;
}

/**
 * @param {SVGElement} node
 * @param {object} selection
 * @param {object} does
 * @param {() => object} does.choice what is lit while the pointer or the focus is there
 * @param {() => void} does.open on a click, Enter and the space bar
 * @param {() => void} does.leave on Esc and Backspace
 * @param {(direction: number[]) => void} does.go by an arrow key
 * @param {() => void} does.tell what the line below says
 */
export function makeActive(node, selection, { choice, open, leave, go, tell }) {
  const light = () => selection.light(choice());
  const actions = { Enter: open, ' ': open, Escape: leave, Backspace: leave };
  node.onmouseenter = light;
  node.onmouseleave = selection.rest;
  node.onblur = selection.rest;
  node.onclick = open;
  node.onfocus = () => {
    light();
    tell();
  };
  node.onkeydown = (event) => {
    const direction = !event.shiftKey && DIRECTIONS[event.key];
    const action = direction ? () => go(direction) : actions[event.key];
    if (action) {
      action();
      event.preventDefault();
    }
  };
}
