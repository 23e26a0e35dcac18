// A finding's link: to its line, and to its ops in the graph.

import { linkButton } from '../shared/dom.js';
import { choose } from './selection.js';

const MANY = 8;

/** The view where ops are shown: that of the first, or where all can be seen if they are many; -1 without ops. */
function viewFor({ home, views, boxIn }, ops) {
  if (!ops.length) {
    return -1;
  }
  let [view] = home[ops[0]];
  if (ops.length > MANY) {
    while (views[view].up && ops.some((op) => boxIn(view, op) < 0)) {
      [view] = views[view].up;
    }
  }
  return view;
}

/** A link to a line of the cell; "elsewhere" where there is none. */
export function lineLink(card, line) {
  const go = (event) => {
    event.stopPropagation(); // the row that holds the link may open by a click
    card.reveal([], line);
  };
  return line ? linkButton(line, go) : 'elsewhere';
}

/**
 * @param {Card} card
 * @returns {(ops: number[], line?: number, names?: string[]) => void} pins ops (those of the line where none are
 *   given), a line and parameters, and brings the graph and the line in sight
 */
export function createReveal(card) {
  const { record, selection } = card;
  return (ops, line, names) => {
    selection.pinned = choose(ops.length ? ops : record.opsOfLine(line), line, names);
    card.tabs.open(0);
    const all = [...selection.pinned.ops];
    const view = viewFor(record, all);
    if (view < 0) {
      selection.rest();
    } else {
      card.graph.show(view, record.boxIn(view, all[0]));
    }
    card.source.scrollTo(line);
  };
}
