// The whole model in one picture: modules and loops as frames, their ops inside, shapes on the edges.
//
// What is drawn depends on the scale, so that thousands of ops are as quick as twenty: a frame too small to show what
// is in it is one box, an op too small to be read is a speck, and what is out of sight is not drawn.

import { fill, html, linkButton, makeReachable, svg } from '../shared/dom.js';
import { whole } from '../shared/format.js';
import { course, describe, drawBox, drawTip, edgeKind } from './box.js';
import { choiceOf, makeActive, nearestBox } from './node.js';
import { layOut } from './overview_layout.js';
import { CUT } from './record.js';

/** The least size, in pixels, of a frame that shows what is in it. */
const OPEN_WIDTH = 96;
const OPEN_HEIGHT = 60;

/** The scales from which on an op is drawn as in a view, and edges have tips. */
const READABLE = 0.4;
const TIPS = 0.3;

/** Letters, in pixels. */
const TITLE = 12;
const SHAPE = 10.5;
const SMALLEST = 7;
const WIDTH_OF_LETTER = 0.6;

const EDGE = 12;
const LEVELS = 6;

export const OVERVIEW_HELP = 'Enter or a click shows a frame larger, Esc goes out, arrows move, + and − zoom, 0 fits.';

/** How much of the box's size is drawn around it, so that a small movement shows no empty room. */
const MARGIN = 0.2;

const rect = (className, { x, y, w, h }, attributes) =>
  svg('rect', { class: className, x, y, width: w, height: h, ...attributes });
const letters = (size) => `font-size:${size}px`;
const outline = ({ x, y, w, h }) => `M${x} ${y}h${w}v${h}h${-w}z`;

/** Whether a place meets the part that is seen. */
const meets = ({ x, y, w, h }, seen) => x < seen.right && x + w > seen.left && y < seen.bottom && y + h > seen.top;

/** What of the places is drawn, from the outside inwards. */
function visible(root, scale, seen) {
  const frames = [];
  const boxes = [];
  const specks = [];
  const pending = [root];
  while (pending.length) {
    const place = pending.pop();
    const isFrame = place.item.kind === 'group';
    const isOpen = place === root || (isFrame && place.w * scale >= OPEN_WIDTH && place.h * scale >= OPEN_HEIGHT);
    if (!meets(place, seen)) {
      continue;
    }
    if (isOpen) {
      frames.push(place);
      pending.push(...place.children);
    } else {
      (isFrame || scale >= READABLE ? boxes : specks).push(place);
    }
  }
  return { frames, boxes, specks };
}

/** The edges of open frames: one path for each kind, tips and shapes where they can be read. */
function drawEdges(frames, scale, seen, shapes) {
  const paths = new Map();
  const tips = [];
  const labels = [];
  for (const { children, edges, item, gap, ops } of frames) {
    const shapeOn = shapes(item.index, ops);
    const size = Math.max(SHAPE, Math.min(SHAPE / scale, 0.75 * gap));
    const labelled = new Set();
    for (const edge of edges) {
      const { points, from, to } = edge;
      if (!meets(edge, seen)) {
        continue;
      }
      const kind = edgeKind(children[from].item.flags, children[to].item.flags);
      edge.course ||= course(points);
      paths.set(kind, (paths.get(kind) || '') + edge.course);
      if (scale >= TIPS) {
        tips.push(drawTip(points, kind));
      }
      const shape = size * scale >= SMALLEST && shapeOn(from, to);
      const once = `${from} ${shape}`;
      if (shape && !labelled.has(once)) {
        labelled.add(once);
        const below = points[1] + size;
        labels.push(svg('text', { class: 'shape', x: points[0] + 5, y: below, style: letters(size) }, shape));
      }
    }
  }
  return { lines: [...paths].map(([kind, d]) => svg('path', { class: `edge${kind}`, d })), tips, labels };
}

/** Whether two titles would lie on each other. */
const overlap = (a, b) => Math.abs(a.y - b.y) < a.high && a.x < b.x + b.long && b.x < a.x + a.long;

/** The titles of frames: in their heads, or over what is in them where the heads are too low to be read. */
function drawTitles(frames, scale) {
  const size = Math.max(TITLE, TITLE / scale);
  const drawn = [];
  return frames.map(({ x, y, w, item }) => {
    const long = WIDTH_OF_LETTER * size * item.label.length;
    const title = { x: x + 8, y: y + Math.max(17, size * 1.2), long, high: size };
    if (long > w || drawn.some((other) => overlap(title, other))) {
      return null;
    }
    drawn.push(title);
    return svg('text', { class: 'title', x: title.x, y: title.y, style: letters(size) }, item.label);
  });
}

/** A frame that is drawn as one box, with its name where that has room. */
function closedFrame(place, scale, heat) {
  const { item, x, y, w, h } = place;
  const size = TITLE / scale;
  const names = item.label.split('.').map((_, k, all) => all.slice(k).join('.')); // the end of a path says the most
  const name = size < h && names.find(({ length }) => WIDTH_OF_LETTER * size * length < w);
  const middle = { x: x + w / 2, y: y + h / 2 + size / 3, style: letters(size) };
  return [
    rect('ring', { x: x - 4 / scale, y: y - 4 / scale, w: w + 8 / scale, h: h + 8 / scale }),
    rect('box', place, { rx: Math.min(5, h / 4), style: `--heat:${Math.round(32 * heat)}%` }),
    name && svg('text', { class: 'label', ...middle }, name),
  ];
}

/** Ops too small to be read, as few paths: a level of heat each, and those with something wrong by themselves. */
function drawSpecks(specks, heats, scale) {
  const levels = Array.from({ length: LEVELS }, () => '');
  const marks = [];
  specks.forEach((place, k) => {
    levels[Math.min(LEVELS - 1, Math.floor(LEVELS * heats[k]))] += outline(place);
    if (place.item.marks) {
      const sign = place.item.flags & CUT ? '✂' : '✕';
      const at = { x: place.x + place.w / 2, y: place.y + place.h / 2 + 5 / scale, style: letters(TITLE / scale) };
      const isBad = place.item.badge && svg('text', { class: 'mark', ...at }, sign);
      marks.push(svg('g', { class: `node ${place.item.marks}` }, rect('box', place), isBad));
    }
  });
  const drawn = levels.map((d, level) => {
    const heat = `--heat:${Math.round((32 * level) / (LEVELS - 1))}%`;
    return d && svg('g', { class: 'node' }, svg('path', { class: 'box', d, style: heat }));
  });
  return [drawn, marks];
}

/**
 * @param {Card} card
 * @param {object} around
 * @param {HTMLElement} around.canvas the box that scrolls
 * @param {object} around.zoom see zoom.js
 * @param {(item: object) => void} around.tell says below what a box is
 * @param {(items: object[], inside: number[][]) => {drawn: object[]}} around.measured how boxes are coloured
 * @param {object} around.shapes see shapes.js
 */
export function createOverview(card, { canvas, zoom, tell, measured, shapes }) {
  const { record, selection } = card;
  const root = layOut(record);
  const size = [root.w + 2 * EDGE, root.h + 2 * EDGE];
  const byPlace = new Map();
  const listed = [root];
  for (const place of listed) {
    byPlace.set(`${place.view} ${place.box}`, place);
    listed.push(...place.children);
  }
  const lit = svg('path', { class: 'found', d: '' });
  const drawing = svg('svg', {
    class: 'map',
    viewBox: `${-EDGE} ${-EDGE} ${size[0]} ${size[1]}`,
    role: 'group',
    'aria-label': `overview of ${whole(record.ops.length)} ops`,
  });
  let nodes = []; // what takes the focus: {place, node}
  let specks = [];
  let current = null;

  const parts = ({ x, y, w, h }) => [x + EDGE - 20, y + EDGE - 20, w + 40, h + 40];
  const nodeOf = (place) => nodes.find((one) => one.place === place)?.node;
  const reach = (place) => {
    const [from, to] = [nodeOf(current), nodeOf(place)];
    if (to) {
      makeReachable(from || to, to);
      current = place;
    }
  };

  /** Bring a place in sight; an op or a closed group at a scale at which it can be read. */
  const bring = (place) => {
    zoom.showPart(parts(place), place.children.length ? 1.5 : 1);
    draw();
    reach(place);
  };
  const focus = (place) => {
    bring(place);
    (nodeOf(place) || canvas).focus({ preventScroll: true });
  };

  const does = (place, isOpen) => ({
    choice: () => {
      const choice = choiceOf(record, place.ops);
      return isOpen ? { ...choice, ops: new Set() } : choice; // what is in an open frame speaks for itself
    },
    tell: () => {
      reach(place);
      tell(place.item);
    },
    open: () => {
      if (place.children.length) {
        focus(place);
      } else if (place.item.kind === 'port') {
        card.reveal([place.item.index]);
      } else {
        selection.pin(choiceOf(record, place.ops));
        tell(place.item);
      }
    },
    leave: () => {
      if (place.parent !== root) {
        focus(place.parent);
        return;
      }
      zoom.showPart(parts(root), 1);
      selection.pin(choiceOf(record, []));
      draw();
      nodeOf(place)?.focus({ preventScroll: true });
    },
    go: (direction) => {
      const boxes = nodes.flatMap((one) => middleOf(one));
      const from = nodes.findIndex((one) => one.place === place);
      const next = nodes[nearestBox(boxes, from, direction)];
      next.node.focus({ preventScroll: true });
      keepInSight(next);
    },
  });

  /** Where the arrow keys find a place: an open frame at its title. */
  const middleOf = ({ place, isOpen }) => [place.x + place.w / 2, isOpen ? place.y : place.y + place.h / 2, 0, 0];

  const keepInSight = ({ place, isOpen }) => {
    const outer = canvas.getBoundingClientRect();
    const inner = drawing.getBoundingClientRect();
    const [x, y] = middleOf({ place, isOpen });
    const right = inner.left + (x + EDGE) * zoom.scale() - outer.left;
    const down = inner.top + (y + EDGE) * zoom.scale() - outer.top;
    const beyond = (at, length) => (at < 40 || at > length - 40 ? at - length / 2 : 0);
    canvas.scrollBy(beyond(right, canvas.clientWidth), beyond(down, canvas.clientHeight));
  };

  const activate = (place, node, isOpen) => {
    makeActive(node, selection, does(place, isOpen));
    nodes.push({ place, node, isOpen });
    return node;
  };

  const drawFrame = (place) => {
    const attributes = {
      class: 'node frame',
      tabindex: -1,
      role: 'button',
      'aria-label': [place.item.label, place.item.detail, 'Enter shows all of it'].filter(Boolean).join(', '),
    };
    const body = rect('box', place, { rx: 6 });
    const ring = rect('ring', place, { rx: 6 });
    const node = activate(place, svg('g', attributes, body, ring), true);
    node.onmouseenter = null; // the pointer is always in some frame
    return node;
  };

  const drawPlace = (place, figure, scale) => {
    const { item, x, y, w, h } = place;
    if (item.kind !== 'group') {
      const box = drawBox(item, [x + w / 2, y + h / 2, w, h], figure, record.data, -1);
      return activate(place, box, false);
    }
    const label = { role: 'button', tabindex: -1, 'aria-label': describe(item, figure, record.data) };
    const group = svg('g', { class: `node group ${item.marks}`, ...label }, closedFrame(place, scale, figure.heat));
    return activate(place, group, false);
  };

  /** The part of the picture that is seen, in its own units. */
  const seen = (scale) => {
    const outer = canvas.getBoundingClientRect();
    const inner = drawing.getBoundingClientRect();
    const left = (outer.left - inner.left) / scale - EDGE;
    const top = (outer.top - inner.top) / scale - EDGE;
    const [width, height] = [outer.width / scale, outer.height / scale];
    return {
      left: left - MARGIN * width,
      right: left + (1 + MARGIN) * width,
      top: top - MARGIN * height,
      bottom: top + (1 + MARGIN) * height,
    };
  };

  /** Draw what is seen at a scale, or all of it. */
  const compose = (scale, area) => {
    const { frames, boxes, specks: small } = visible(root, scale, area);
    const all = [...boxes, ...small];
    const { drawn, most } = measured(
      all.map(({ item }) => item),
      all.map(({ ops }) => ops),
    );
    const heats = drawn.slice(boxes.length).map(({ heat }) => heat || 0);
    const { lines, tips, labels } = drawEdges(frames, scale, area, shapes);
    nodes = [];
    specks = small;
    const inner = frames.slice(1);
    fill(
      drawing,
      inner.map(drawFrame),
      lines,
      tips,
      drawSpecks(small, heats, scale),
      boxes.map((place, k) => drawPlace(place, drawn[k], scale)),
      labels,
      drawTitles(inner, scale),
      lit,
    );
    return most;
  };

  let choice = selection.pinned;
  const isLit = ({ ops }) => ops.some((op) => choice.ops.has(op));
  const light = (next) => {
    choice = next;
    for (const { place, node, isOpen } of nodes) {
      node.classList.toggle('lit', !isOpen && isLit(place));
    }
    lit.setAttribute('d', specks.filter(isLit).map(outline).join(''));
  };

  const draw = () => {
    const scale = zoom.scale();
    const hadFocus = drawing.contains(canvas.getRootNode().activeElement);
    const most = compose(scale, seen(scale));
    light(choice);
    const node = nodeOf(current) || nodes[0]?.node;
    node?.setAttribute('tabindex', 0);
    canvas.tabIndex = node ? -1 : 0;
    if (hadFocus) {
      (nodeOf(current) || canvas).focus({ preventScroll: true });
    }
    return most;
  };

  return {
    drawing,
    size,
    draw,
    light,

    /** Draw all of it, readable, for as long as `use` runs. */
    withAll: (use) => {
      const everywhere = { left: -Infinity, top: -Infinity, right: Infinity, bottom: Infinity };
      compose(1, everywhere);
      use(drawing);
      draw();
    },

    /** Bring a box of a view in sight, or all of a view where no box is given. */
    show: (view, box) => {
      const frame = listed.find((place) => place.item.kind === 'group' && place.item.index === view);
      const place = byPlace.get(`${view} ${box}`);
      bring(place || frame);
      if (place) {
        tell(place.item);
      }
    },
  };
}

/** The way back from the overview, in the place of the crumbs. */
export function overviewPath({ ops }, leave) {
  return [linkButton('views', leave), '›', html('b', { 'aria-current': 'true' }, `all ${whole(ops.length)} ops`)];
}
