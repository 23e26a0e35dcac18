// The graph of the cell: boxes and edges of one view, the way into groups and out again, the search.

import {
  fill,
  html,
  linkButton,
  makeReachable,
  moveFocus,
  reachIfScrolls,
  scrollAcross,
  scrollIn,
  svg,
} from '../shared/dom.js';
import { count } from '../shared/format.js';
import { tool, toolbar } from '../shared/toolbar.js';
import { drawBox, drawEdge } from './box.js';
import { detailsOf } from './details.js';
import { downloads } from './download.js';
import { createMeasures } from './measures.js';
import { choiceOf, makeActive, nearestBox } from './node.js';
import { createOverview, OVERVIEW_HELP, overviewPath } from './overview.js';
import { createSearch } from './search.js';
import { choose } from './selection.js';
import { edgeShapes } from './shapes.js';
import { createZoom } from './zoom.js';

/** The least scale at which labels can be read; a view is drawn at no less until someone zooms. */
const SMALLEST_SCALE = 0.78;
const LARGEST_SCALE = 4;

/**
 * @param {Card} card
 * @returns its `elements`, and how to `show` a view
 */
export function createGraph(card) {
  const { record, selection } = card;
  const { data, ops, views } = record;
  const measures = createMeasures(record);
  const shapes = edgeShapes(record);
  const [byTime] = measures;
  let measure = byTime;
  let shown = 0;
  let nodes = [];
  let picture = null; // what is drawn: the drawing, and its size in its own units
  let overview = null;
  let isOverview = false;

  const crumbs = html('div', { class: 'crumbs', role: 'group', 'aria-label': 'modules' });
  const canvas = html('div', { class: 'scroll' });
  const details = html('div', { class: 'foot details', role: 'group', 'aria-label': 'details', 'aria-live': 'polite' });

  /** Say something below the graph; what is too much for it can be scrolled by keyboard. */
  const say = (...words) => {
    fill(details, ...words);
    reachIfScrolls(details);
  };
  const tell = (item) => say(detailsOf(item, record));

  /** Show a view and give one of its boxes the focus. */
  const enter = (view, box) => {
    show(view, box);
    nodes[box].focus({ preventScroll: true });
  };

  /** The figures of boxes, and how each is drawn; `inside` are the ops in each. */
  const measured = (items, inside) => {
    const figures = items.map((item, box) => measure.figure(item, inside[box]));
    const most = figures.reduce((a, b) => Math.max(a, b), 0) || 1;
    const least = figures.reduce((a, b) => (b > 0 ? Math.min(a, b) : a), most);
    const drawn = figures.map((figure) => ({
      isTime: measure === byTime,
      title: measure.title,
      text: figure && measure.write(figure),
      heat: figure && measure.place(figure, most, least),
    }));
    return { drawn, most };
  };

  /** The ops in each box of a view. */
  const contents = (view) => {
    const inside = views[view].items.map(() => []);
    ops.forEach((_, op) => {
      inside[record.boxIn(view, op)]?.push(op);
    });
    return inside;
  };

  const opsIn = ({ kind, index }, view, box) => {
    if (kind === 'group') {
      return [...ops.keys()].filter((op) => record.boxIn(view, op) === box);
    }
    return kind === 'op' ? [index] : [];
  };

  const makeNode = (view, box, figure) => {
    const item = views[view].items[box];
    const { b: boxes } = data.layouts[views[view].layout];
    const node = drawBox(item, boxes.slice(4 * box, 4 * box + 4), figure, data, box ? -1 : 0);
    const choice = () => choiceOf(record, opsIn(item, view, box));
    const open = () => {
      if (item.kind === 'group') {
        enter(item.index, views[item.index].first);
      } else if (item.kind === 'port') {
        card.reveal([item.index]);
      } else {
        selection.pin(choice());
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
    makeActive(node, selection, { choice, open, leave, go, tell: () => tell(item) });
    return node;
  };

  const drawView = (view, drawn) => {
    const { items, edges, label, layout } = views[view];
    const { w: width, h: height, r: routes } = data.layouts[layout];
    const attributes = {
      viewBox: `-12 -14 ${width + 24} ${height + 30}`,
      role: 'group',
      'aria-label': `graph ${label}, ${count(items.length, 'item')}`,
    };
    const named = new Set();
    const shapeOn = shapes(view, ops.keys());
    const paths = routes.map((points, edge) => {
      const [from, to] = edges[edge];
      const { kind, flags } = items[from];
      const shape = ['group', 'port'].includes(kind) && shapeOn(from, to); // other boxes say it themselves
      const isNew = !named.has(`${from} ${shape}`);
      named.add(`${from} ${shape}`);
      return drawEdge(points, flags, items[to].flags, isNew && shape);
    });
    nodes = items.map((_, box) => makeNode(view, box, drawn[box]));
    return { drawing: svg('svg', attributes, paths, nodes), size: [width + 24, height + 30] };
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

  const legend = (most) => `bar: ${measure.title}, ${measure.superlative} ${measure.write(most)}${measure.scale}`;

  /**
   * Show a view.
   * @param {number} view
   * @param {number} [focus] a box to bring in sight and to describe
   */
  const show = (view, focus = -1) => {
    if (isOverview) {
      overview.show(view, focus);
      selection.rest();
      return;
    }
    const { items, note } = views[view];
    const { drawn, most } = measured(items, measure === byTime ? [] : contents(view));
    shown = view;
    picture = drawView(view, drawn);
    fill(
      crumbs,
      html('span', { class: 'path' }, pathTo(view)),
      html('span', { class: 'end' }, note, items.length && legend(most)),
    );
    fill(canvas, items.length && picture.drawing);
    zoom.begin();
    selection.rest();
    if (nodes[focus]) {
      makeReachable(nodes[0], nodes[focus]);
      tell(items[focus]);
      scrollIn(canvas, nodes[focus]);
    } else {
      canvas.scrollTop = 0;
      const longest = drawn.reduce((best, { heat }, box) => (heat > (drawn[best]?.heat || 0) ? box : best), -1);
      if (nodes[longest]) {
        scrollAcross(canvas, nodes[longest]); // a wide view begins with rows of inputs
      }
      say(data.help);
    }
  };

  const share = (side, room) => Math.max(0.01, room) / picture.size[side];
  const fit = () => Math.min(1, share(0, canvas.clientWidth - 16), share(1, canvas.clientHeight - 8));
  const zoom = createZoom(canvas, {
    most: LARGEST_SCALE,
    fit,
    automatic: () => (isOverview ? fit() : Math.max(SMALLEST_SCALE, Math.min(1, share(0, canvas.clientWidth - 16)))),
    apply: (scale) => {
      const [width, height] = picture.size;
      picture.drawing.setAttribute('width', width * scale);
      picture.drawing.setAttribute('height', height * scale);
      redrawSoon();
    },
  });

  /** Of the overview only what is seen is drawn: again when that changes, once a picture of the screen. */
  let waiting = false;
  const redrawSoon = () => {
    if (isOverview && !waiting) {
      waiting = true;
      requestAnimationFrame(drawOverview);
    }
  };
  const drawOverview = () => {
    waiting = false;
    if (isOverview) {
      fill(largest, legend(overview.draw()));
    }
  };
  canvas.onscroll = redrawSoon;
  const largest = html('span', { class: 'end' });

  const setOverview = (on) => {
    isOverview = on;
    overviewButton.setAttribute('aria-pressed', on);
    if (!on) {
      show(shown);
      return;
    }
    overview ||= createOverview(card, { canvas, zoom, tell, measured, shapes });
    picture = overview;
    fill(
      crumbs,
      html(
        'span',
        { class: 'path' },
        overviewPath(record, () => setOverview(false)),
      ),
      largest,
    );
    fill(canvas, overview.drawing);
    zoom.begin();
    drawOverview();
    say(OVERVIEW_HELP);
  };
  const overviewButton = tool('Overview', () => setOverview(!isOverview), { 'aria-pressed': false });

  selection.watch((choice) => {
    if (isOverview) {
      overview.light(choice);
      return;
    }
    const boxes = new Set([...choice.ops].map((op) => record.boxIn(shown, op)));
    nodes.forEach((node, box) => {
      node.classList.toggle('lit', boxes.has(box));
    });
  });

  const search = createSearch(card, say);
  const onchange = () => {
    measure = measures[selector.selectedIndex];
    if (isOverview) {
      drawOverview();
    } else {
      show(shown);
    }
  };
  const selector = html(
    'select',
    { class: 'find by', 'aria-label': 'colour boxes by', onchange },
    measures.map(({ title }) => html('option', {}, title)),
  );

  const name = () => `${data.head.title || 'autograd'} ${isOverview ? 'overview' : views[shown].label || 'cell'}`;
  const hand = (use) => (isOverview ? overview.withAll(use) : use(picture.drawing));
  const tools = ops.length > 0 && toolbar('picture', [overviewButton, ...zoom.tools, ...downloads(name, hand)]);

  return {
    elements: [html('div', { class: 'top' }, crumbs, selector, search, tools), canvas, details],
    show,

    /** The view that is shown; of the overview the whole cell, which holds all. */
    shown: () => (isOverview ? 0 : shown),
  };
}
