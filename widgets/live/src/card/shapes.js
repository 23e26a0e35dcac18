// The shapes of what goes along the edges of each view.

/** Boxes that stand for something made elsewhere: by the op's index, or by a tensor's that was there, from -1 down. */
function sourceBoxes(items) {
  const boxes = new Map();
  items.forEach(({ kind, index }, box) => {
    if (kind === 'port') {
      boxes.set(index, box);
    } else if (kind === 'leaf') {
      boxes.set(~index, box);
    }
  });
  return boxes;
}

/** Shapes by the boxes at the ends of an edge. */
function shapesIn({ ops, tensors, views, boxIn }, view, inside) {
  const sources = sourceBoxes(views[view].items);
  const found = new Map();
  const add = (read, to) => {
    const own = read < 0 ? -1 : boxIn(view, read);
    const from = own < 0 ? sources.get(read) : own;
    if (from === undefined || from === to) {
      return; // a chip stands for it, or one box holds both
    }
    const key = `${from} ${to}`;
    const { shape } = read < 0 ? tensors[~read] : ops[read];
    found.set(key, (found.get(key) || new Set()).add(shape));
  };
  for (const op of inside) {
    const to = boxIn(view, op);
    if (to >= 0) {
      ops[op].reads.forEach((read) => {
        add(read, to);
      });
    }
  }
  return found;
}

/**
 * @param {object} record
 * @returns {(view: number, inside: Iterable<number>) => (from: number, to: number) => string} of a view and the ops in
 *   it: the shape on an edge between two boxes, with a count of the others where there are several
 */
export function edgeShapes(record) {
  const known = new Map();
  return (view, inside) => {
    if (!known.has(view)) {
      known.set(view, shapesIn(record, view, inside));
    }
    return (from, to) => {
      const [first, ...others] = known.get(view).get(`${from} ${to}`) || [''];
      return others.length ? `${first} and ${others.length} more` : first;
    };
  };
}
