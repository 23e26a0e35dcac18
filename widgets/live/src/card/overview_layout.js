// Where everything stands in the overview: each group's own layout inside the box that it has in the view above.
//
// Nothing is laid out anew. A box that grows to hold its contents stretches its stretch of both axes, as a magnifying
// glass does: order, straight lines and the room between boxes stay. Then tall parts are cut into columns.

const HEAD = 26;
const PAD = 12;
const GUTTER = 44;

/** How much wider than high a part may be before it is not cut into columns. */
const ASPECT = 1.7;

/** Room between layers, for the shapes on edges: in the data, and here at least. */
const LAID_GAP = 24;
const LEAST_GAP = 40;

/** Room between frames and above what is in them, as shares of their (median) height: to be read from afar. */
const GAP_SHARE = 0.2;
const HEAD_SHARE = 0.08;

/** Width of a character of a frame's title. */
const TITLE_WIDTH = 7.6;

/**
 * A map of an axis on which each span has at least the length it needs.
 * @param {[number, number, number][]} spans from, to, and the length that is needed
 * @param {number} gap by how much what is outside of all spans grows
 */
function stretched(spans, gap) {
  const cuts = [...new Set(spans.flatMap((span) => span.slice(0, 2)))].sort((a, b) => a - b);
  const index = new Map(cuts.map((cut, k) => [cut, k]));
  const factors = cuts.map(() => 0);
  for (const [from, to, need] of spans) {
    for (let k = index.get(from); k < index.get(to); k += 1) {
      factors[k] = Math.max(factors[k], 1, need / (to - from));
    }
  }
  const places = [cuts[0]];
  for (let k = 1; k < cuts.length; k += 1) {
    places.push(places[k - 1] + (cuts[k] - cuts[k - 1]) * (factors[k - 1] || gap));
  }
  return (at) => {
    const k = Math.max(
      0,
      cuts.findLastIndex((cut) => cut <= at),
    );
    return places[k] + (at - cuts[k]) * (at < cuts[k] ? 1 : factors[k] || 1);
  };
}

/** Where a part of a height is cut into columns: at the room between layers that comes after an equal share. */
function cutsOf(spans, width, height) {
  const columns = Math.round(Math.sqrt((ASPECT * height) / width));
  const cuts = [0];
  let bottom = 0;
  for (const [top, end] of spans.sort(([a], [b]) => a - b)) {
    if (bottom && top > bottom && bottom - cuts.at(-1) >= height / columns - 1) {
      cuts.push((bottom + top) / 2);
    }
    bottom = Math.max(bottom, end);
  }
  return cuts;
}

/** The points of an edge in columns: at a cut it goes round by the gutter to the top of the next column. */
function routed(points, columnOf, place, cuts, gutterOf) {
  const [first] = points;
  const result = [place(...first)];
  for (let k = 1; k < points.length; k += 1) {
    const [x0, y0] = points[k - 1];
    const [x, y] = points[k];
    for (let column = columnOf(y0) + 1; column <= columnOf(y); column += 1) {
      const bottom = cuts[column] - cuts[column - 1];
      const gutter = gutterOf(column);
      result.push([place(x0, y0)[0], bottom - 12], [gutter, bottom], [gutter, 0], [place(x, cuts[column])[0], 12]);
    }
    result.push(place(x, y));
  }
  return result.flat();
}

/**
 * One view with its boxes at the sizes that they need.
 * @param {object} layout of the data
 * @param {[number, number][]} edges
 * @param {[number, number][]} sizes
 */
function arranged({ b: flat, r: routes }, edges, sizes) {
  const boxes = sizes.map(([w, h], k) => ({ x: flat[4 * k], y: flat[4 * k + 1], w, h, was: flat.slice(4 * k + 2) }));
  const across = stretched(
    boxes.map(({ x, w, was }) => [x - was[0] / 2, x + was[0] / 2, w]),
    1,
  );
  const heights = boxes.map(({ h }) => h).sort((a, b) => a - b);
  const gap = Math.max(LEAST_GAP, GAP_SHARE * heights[heights.length >> 1]);
  const gutterWidth = Math.max(GUTTER, gap / 2);
  const down = stretched(
    boxes.map(({ y, h, was }) => [y - was[1] / 2, y + was[1] / 2, h]),
    gap / LAID_GAP,
  );
  const middle = (map, at, size) => (map(at - size / 2) + map(at + size / 2)) / 2;
  for (const box of boxes) {
    box.x = middle(across, box.x, box.was[0]) - box.w / 2;
    box.y = middle(down, box.y, box.was[1]) - box.h / 2;
  }
  const mapped = routes.map((route) =>
    Array.from({ length: route.length / 2 }, (_, k) => [across(route[2 * k]), down(route[2 * k + 1])]),
  );
  const all = mapped.flat();
  const left = Math.min(...boxes.map(({ x }) => x), ...all.map(([x]) => x));
  const width = Math.max(...boxes.map(({ x, w }) => x + w), ...all.map(([x]) => x)) - left;
  const height = Math.max(...boxes.map(({ y, h }) => y + h));
  const cuts = cutsOf(
    boxes.map(({ y, h }) => [y, y + h]),
    width + gutterWidth,
    height,
  );
  const columnOf = (y) => cuts.findLastIndex((cut) => cut <= y);
  const place = (x, y) => {
    const column = Math.max(0, columnOf(y));
    return [x - left + column * (width + gutterWidth), y - cuts[column]];
  };
  const lines = mapped.map((points, edge) => {
    const [from, to] = edges[edge].map((box) => boxes[box]);
    const isDown = points[0][1] < points.at(-1)[1];
    points[0][1] = isDown ? from.y + from.h : from.y; // to the box itself, which may be lower than its layer
    points.at(-1)[1] = isDown ? to.y : to.y + to.h;
    points.at(-1)[0] = Math.max(to.x + 8, Math.min(to.x + to.w - 8, points.at(-1)[0]));
    return routed(points, columnOf, place, cuts, (column) => column * (width + gutterWidth) - gutterWidth / 2);
  });
  return {
    gap,
    width: cuts.length * (width + gutterWidth) - gutterWidth,
    height: Math.max(...cuts.map((cut, k) => (cuts[k + 1] ?? height) - cut)),
    boxes: boxes.map(({ x, y, w, h }) => [...place(x, y), w, h]),
    lines,
  };
}

/**
 * @typedef {object} Place  A box of the overview; a group is a frame with `children` in it.
 * @property {number} view
 * @property {number} box
 * @property {object} item
 * @property {number} x left
 * @property {number} y top
 * @property {number} w
 * @property {number} h
 * @property {Place | null} parent
 * @property {Place[]} children
 * @property {object[]} edges between its children: points, from, to, and the rectangle around them
 * @property {number} gap between the layers of its children
 * @property {number[]} ops
 */

/** The rectangle around points. */
function spanOf(points) {
  const span = { x: Infinity, y: Infinity, w: 0, h: 0 };
  const end = [-Infinity, -Infinity];
  for (let k = 0; k < points.length; k += 2) {
    span.x = Math.min(span.x, points[k]);
    span.y = Math.min(span.y, points[k + 1]);
    end[0] = Math.max(end[0], points[k]);
    end[1] = Math.max(end[1], points[k + 1]);
  }
  return { ...span, w: end[0] - span.x, h: end[1] - span.y };
}

const headOf = (height) => Math.max(HEAD, HEAD_SHARE * height);

/**
 * @param {object} record
 * @returns {Place} the whole cell; no function calls itself, since modules may be nested thousands of times
 */
export function layOut({ data, views }) {
  const parts = [];
  const known = new Map();
  const sizeOf = (item, layout, box) => {
    if (item.kind !== 'group') {
      return layout.b.slice(4 * box + 2, 4 * box + 4);
    }
    const { width, height } = parts[item.index];
    return [Math.max(width, TITLE_WIDTH * item.label.length) + 2 * PAD, height + headOf(height) + PAD];
  };
  for (let view = views.length - 1; view >= 0; view -= 1) {
    const { items, edges, layout: number } = views[view]; // a group's own view has a larger number
    const layout = data.layouts[number];
    const sizes = items.map((item, box) => sizeOf(item, layout, box));
    const key = `${number} ${sizes}`;
    if (items.length && !known.has(key)) {
      known.set(key, arranged(layout, edges, sizes)); // once for all that are built alike, as in the data
    }
    parts[view] = known.get(key) || { gap: 0, width: 0, height: 0, boxes: [], lines: [] };
  }
  const place = (view, box, item, [x, y, w, h], parent) => {
    const ops = item.kind === 'op' ? [item.index] : [];
    return { view, box, item, x, y, w, h, parent, children: [], edges: [], gap: 0, ops };
  };
  const [{ width, height }] = parts;
  const whole = [0, 0, width + 2 * PAD, height + headOf(height) + PAD];
  const root = place(-1, 0, { kind: 'group', index: 0, label: 'cell' }, whole, null);
  const frames = [root];
  for (const frame of frames) {
    const { items, edges } = views[frame.item.index];
    const { boxes, lines, gap, height: inner } = parts[frame.item.index];
    const left = frame.x + PAD;
    const top = frame.y + headOf(inner);
    frame.gap = gap;
    frame.children = items.map((item, box) => {
      const [x, y, w, h] = boxes[box];
      return place(frame.item.index, box, item, [x + left, y + top, w, h], frame);
    });
    frame.edges = lines.map((line, edge) => {
      const [from, to] = edges[edge];
      const points = line.map((value, k) => value + (k % 2 ? top : left));
      return { points, from, to, ...spanOf(points) };
    });
    frames.push(...frame.children.filter(({ item }) => item.kind === 'group'));
  }
  for (const frame of frames.reverse()) {
    frame.ops = frame.children.flatMap(({ ops }) => ops);
  }
  return root;
}
