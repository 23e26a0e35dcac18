// The shapes of what goes along the edges of each view.

/** The boxes that hold an op, from the one that draws it to that of the whole cell: pairs of view and box. */
function boxesAround({ home, views }, op) {
  const found = [home[op]];
  while (views[found.at(-1)[0]].up) {
    found.push(views[found.at(-1)[0]].up);
  }
  return found;
}

/** Boxes that stand for something made elsewhere, by "view kind index": an op's result, or a tensor that was there. */
function sourceBoxes({ views }) {
  const boxes = new Map();
  views.forEach(({ items }, view) => {
    items.forEach(({ kind, index }, box) => {
      if (kind === 'port' || kind === 'leaf') {
        boxes.set(`${view} ${kind} ${index}`, box);
      }
    });
  });
  return boxes;
}

/**
 * @param {object} record
 * @returns {(view: number, from: number, to: number) => string} the shape on an edge between two boxes, with a count
 *   of the others where there are several
 */
export function edgeShapes(record) {
  const { ops, tensors } = record;
  const sources = sourceBoxes(record);
  const around = ops.map((_, op) => boxesAround(record, op));
  const found = new Map();
  const add = (view, from, to, shape) => {
    const key = `${view} ${from} ${to}`;
    if (!found.has(key)) {
      found.set(key, new Set());
    }
    found.get(key).add(shape);
  };

  /** The box of a view from which an op's reader has what it reads; undefined where no box stands for it. */
  const boxOf = (view, read) => {
    if (read < 0) {
      return sources.get(`${view} leaf ${~read}`);
    }
    return around[read].find(([at]) => at === view)?.[1] ?? sources.get(`${view} port ${read}`);
  };
  const addRead = (op, read) => {
    const { shape } = read < 0 ? tensors[~read] : ops[read];
    for (const [view, to] of around[op]) {
      const from = boxOf(view, read);
      if (from === to) {
        return; // further out one box holds both
      }
      if (from !== undefined) {
        add(view, from, to, shape);
      }
    }
  };
  for (const [op, { reads }] of ops.entries()) {
    for (const read of reads) {
      addRead(op, read);
    }
  }
  return (view, from, to) => {
    const [first, ...others] = found.get(`${view} ${from} ${to}`) || [''];
    return others.length ? `${first} and ${others.length} more` : first;
  };
}
