// The graph of the cell: boxes and edges of one view, the way into groups and out again, the search.

import { fill, html, linkButton, makeReachable, moveFocus, scrollIn, svg } from '../shared/dom.js';
import { count } from '../shared/format.js';
import { drawBox, drawEdge } from './box.js';
import { detailsOf } from './details.js';
import { createMeasures } from './measures.js';
import { createSearch } from './search.js';
import { choose } from './selection.js';

/** The least scale at which labels can be read. */
const SMALLEST_SCALE = 0.78;

const DIRECTIONS = { ArrowDown: [0, 1], ArrowUp: [0, -1], ArrowRight: [1, 0], ArrowLeft: [-1, 0] };

/** The box that is nearest in a direction; what lies aside counts as farther. `boxes`: x, y, width, height in turn. */
function nearestBox(boxes, from, [right, down]) {
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

/**
 * @param {Card} card
 * @returns its `elements`, and how to `show` a view
 */
export function createGraph(card) {
  const { record, selection } = card;
  const { data, ops, views } = record;
  const measures = createMeasures(record);
  const [byTime] = measures;
  let measure = byTime;
  let shown = 0;
  let nodes = [];

  const crumbs = html('div', { class: 'crumbs', role: 'group', 'aria-label': 'modules' });
  const canvas = html('div', { class: 'scroll' });
  const details = html('div', { class: 'foot details', 'aria-live': 'polite' });

  const tell = (item) => fill(details, detailsOf(item, record));

  /** Show a view and give one of its boxes the focus. */
  const enter = (view, box) => {
    show(view, box);
    nodes[box].focus({ preventScroll: true });
  };

  /** The figures of a view's boxes, and how each is drawn. */
  const measured = (view) => {
    const { items } = views[view];
    const inside = items.map(() => []);
    if (measure !== byTime) {
      ops.forEach((_, op) => {
        inside[record.boxIn(view, op)]?.push(op);
      });
    }
    const figures = items.map((item, box) => measure.figure(item, inside[box]));
    const most = Math.max(...figures) || 1;
    const least = Math.min(most, ...figures.filter((figure) => figure > 0));
    const drawn = figures.map((figure) => ({
      isTime: measure === byTime,
      title: measure.title,
      text: figure && measure.write(figure),
      heat: figure && measure.place(figure, most, least),
    }));
    return { drawn, most };
  };

  /** The ops of a box, with their lines of the cell. */
  const choiceOf = (item, view, box) => {
    let list = [];
    if (item.kind === 'op') {
      list = [item.index];
    } else if (item.kind === 'group') {
      list = [...ops.keys()].filter((op) => record.boxIn(view, op) === box);
    }
    const choice = choose(list);
    for (const op of list) {
      if (!ops[op].file) {
        choice.lines.add(ops[op].line);
      }
    }
    return choice;
  };

  const makeNode = (view, box, figure) => {
    const item = views[view].items[box];
    const { b: boxes } = data.layouts[views[view].layout];
    const node = drawBox(item, boxes.slice(4 * box, 4 * box + 4), figure, data, box ? -1 : 0);
    const light = () => selection.light(choiceOf(item, view, box));
    const open = () => {
      if (item.kind === 'group') {
        enter(item.index, views[item.index].first);
      } else if (item.kind === 'port') {
        card.reveal([item.index]);
      } else {
        selection.pin(choiceOf(item, view, box));
        tell(item);
      }
    };
    const leave = () => {
      const { up } = views[view];
      if (up) {
        enter(...up);
      } else {
        selection.pin(choose([]));
      }
    };
    const go = (direction) => {
      const next = nearestBox(boxes, box, direction);
      if (next !== box) {
        moveFocus(node, nodes[next], canvas);
      }
    };
    const actions = { Enter: open, ' ': open, Escape: leave, Backspace: leave };
    node.onmouseenter = light;
    node.onmouseleave = selection.rest;
    node.onblur = selection.rest;
    node.onclick = open;
    node.onfocus = () => {
      light();
      tell(item);
    };
    node.onkeydown = (event) => {
      const direction = DIRECTIONS[event.key];
      const action = direction ? () => go(direction) : actions[event.key];
      if (action) {
        action();
        event.preventDefault();
      }
    };
    return node;
  };

  const drawView = (view, drawn) => {
    const { items, edges, label, layout } = views[view];
    const { w: width, h: height, r: routes } = data.layouts[layout];
    const scale = Math.max(SMALLEST_SCALE, Math.min(1, (canvas.clientWidth - 16) / (width + 24) || 1));
    const attributes = {
      width: (width + 24) * scale,
      height: (height + 30) * scale,
      viewBox: `-12 -14 ${width + 24} ${height + 30}`,
      role: 'group',
      'aria-label': `graph ${label}, ${count(items.length, 'item')}`,
    };
    const paths = routes.map((points, edge) => {
      const [from, to] = edges[edge];
      return drawEdge(points, items[from].flags, items[to].flags);
    });
    nodes = items.map((_, box) => makeNode(view, box, drawn[box]));
    return svg('svg', attributes, paths, nodes);
  };

  /** The way from the cell to a view, as links with signs between them. */
  const pathTo = (view) => {
    const name = (of) => views[of].label || 'cell';
    const path = [html('b', { 'aria-current': 'true' }, name(view))];
    let { up } = views[view];
    while (up) {
      const [parent, box] = up; // the box of the parent that leads to where we are
      path.unshift(
        linkButton(name(parent), () => enter(parent, box)),
        '›',
      );
      ({ up } = views[parent]);
    }
    return path;
  };

  /**
   * Show a view.
   * @param {number} view
   * @param {number} [focus] a box to bring in sight and to describe
   */
  const show = (view, focus = -1) => {
    const { items, note } = views[view];
    const { drawn, most } = measured(view);
    shown = view;
    const drawing = drawView(view, drawn);
    const legend = `bar: ${measure.title}, ${measure.superlative} ${measure.write(most)}${measure.scale}`;
    fill(
      crumbs,
      html('span', { class: 'path' }, pathTo(view)),
      html('span', { class: 'end' }, note, items.length && legend),
    );
    fill(canvas, items.length && drawing);
    selection.rest();
    if (nodes[focus]) {
      makeReachable(nodes[0], nodes[focus]);
      tell(items[focus]);
      scrollIn(canvas, nodes[focus]);
    } else {
      canvas.scrollTop = 0;
      fill(details, data.help);
    }
  };

  selection.watch((choice) => {
    const boxes = new Set([...choice.ops].map((op) => record.boxIn(shown, op)));
    nodes.forEach((node, box) => {
      node.classList.toggle('lit', boxes.has(box));
    });
  });

  const search = createSearch(card, (words) => fill(details, words));
  const onchange = () => {
    measure = measures[selector.selectedIndex];
    show(shown);
  };
  const selector = html(
    'select',
    { class: 'find by', 'aria-label': 'colour boxes by', onchange },
    measures.map(({ title }) => html('option', {}, title)),
  );

  return {
    elements: [html('div', { class: 'top' }, crumbs, selector, search), canvas, details],
    show,

    /** The view that is shown. */
    shown: () => shown,
  };
}
