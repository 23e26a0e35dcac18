// The source of the cell with times, and below it the functions of other cells and files that it called, folded.

import { clip, fill, HIDDEN, html, moveFocus, quiet, scrollIn } from '../shared/dom.js';
import { count, largest, sum, time, took } from '../shared/format.js';
import { choose } from './selection.js';
import { icon, known } from './severity.js';

/** Functions that a click on a line unfolds at most. */
const MOST_UNFOLDED = 3;

/** Characters that the rest of a wrapped line stands further in at most. */
const DEEPEST = 16;

/** Where a line may be wrapped besides its spaces: before a method's dot, behind an opening bracket, a comma, a "=". */
const WRAPS = /(?<=[)\]]|\w{4})(?=\.[A-Za-z_])|(?<=[([{,=])(?=[^\s)\]},=])/;

/**
 * @typedef {object} Page  The cell (page 0), or a function that it called.
 * @property {number} page
 * @property {number} first the number of its first line
 * @property {string[]} text
 * @property {[number, number, string][][]} colours of each line: start, end, class
 * @property {Map<number, {forward: number, backward: number, count: number}>} times by line number
 */

/** Text with the places where it may be wrapped. */
function wrappable(text) {
  return text.split(WRAPS).flatMap((part, index) => (index ? [html('wbr', {}), part] : [part]));
}

/** The columns from `from` to `to` of a line in the colours that Python found. */
function colouredPart(page, index, from, to) {
  const text = page.text[index];
  const parts = [];
  let at = from;
  for (const [colourStart, colourEnd, className] of page.colours[index] || []) {
    const start = Math.max(colourStart, at);
    const end = Math.min(colourEnd, to);
    if (start < end) {
      parts.push(
        ...wrappable(text.slice(at, start)),
        html('span', { class: className }, wrappable(text.slice(start, end))),
      );
      at = end;
    }
  }
  parts.push(...wrappable(text.slice(at, to)));
  return parts;
}

/** A coloured line, with the expression of one op marked. */
function colouredLine(page, index, op) {
  const text = page.text[index];
  const [code] = op ? op.code.split('\n') : [''];
  const start = code ? text.indexOf(code, text.startsWith(code, op.col) ? op.col : 0) : -1;
  if (start < 0) {
    return colouredPart(page, index, 0, text.length);
  }
  const end = start + code.length;
  return [
    ...colouredPart(page, index, 0, start),
    html('mark', {}, ...colouredPart(page, index, start, end)),
    ...colouredPart(page, index, end, text.length),
  ];
}

/** Severity of the gravest finding, by line of the cell. */
function gravest({ findings, data: { error } }) {
  const severities = new Map();
  for (const { line, severity } of findings) {
    if (severities.get(line) !== 'error') {
      severities.set(line, known(severity));
    }
  }
  if (error) {
    severities.set(error.line, 'error');
  }
  return severities;
}

/** What stands in the place of a time beside a line where no op ran; `branch` is what Python says of it. */
function shortly(branch) {
  if (!branch) {
    return '';
  }
  if (branch.startsWith('branch taken')) {
    return 'taken';
  }
  return branch.startsWith('not taken') ? 'not taken' : 'no op';
}

/** The lines that a choice lights, as "page:line". */
function litPlaces(choice, ops) {
  const lines = [...choice.lines].map((line) => `0:${line}`);
  const places = choice.wide ? [...choice.ops].flatMap((op) => ops[op].places) : [];
  return new Set([...lines, ...places]);
}

/** The line that holds an op's expression, as "page:line": of the cell, or of the function that ran it. */
function placeOf(op) {
  return op.file ? op.places.find((place) => !place.startsWith('0')) : `0:${op.line}`;
}

/**
 * @param {Card} card
 * @returns its `element`, the `status` line below it, the number of `lines`, the `folds` and what moves in it
 */
export function createSource(card) {
  const { record, selection } = card;
  const { data, ops, lines } = record;
  const cell = {
    page: 0,
    first: 1,
    text: data.source,
    colours: data.colours,
    times: new Map(lines.map((line) => [line.line, line])),
  };
  const pages = record.rows('pages').map((page, index) => ({
    ...page,
    page: index + 1,
    times: new Map(page.lines.map(([line, forward, backward, runs]) => [line, { forward, backward, count: runs }])),
  }));
  const slowest = largest(lines, (line) => Math.max(line.forward, line.backward, line.other));
  const severities = gravest(record);
  const status = html('div', { class: 'foot', 'aria-live': 'polite' }, data.hint);

  /** "page:line" → its row, the op marked in it, and how to mark another. */
  const rows = new Map();

  const bar = (ms, className) => {
    const width = ms && Math.min(100, Math.max(2, (100 * ms) / slowest));
    return html('u', { class: className, style: `width:${width}%` });
  };
  const bars = (times) => {
    const drawn = [];
    if (times?.forward || times?.backward) {
      drawn.push(bar(times.forward, 'f'), bar(times.backward, 'b'));
    }
    if (times?.other > 0.01 * slowest) {
      drawn.push(bar(times.other, 'o'));
    }
    return html('span', { class: 'bars' }, drawn);
  };

  /** What a line took and which way a branch went, in words. */
  const describe = (page, line, times, branch) => {
    const place = page.page ? `${page.name}, line ${line}` : `line ${line}`;
    if (!times) {
      return `${place}: ${branch || 'no op ran'}`;
    }
    const ops = `forward ${time(times.forward)}, backward ${time(times.backward)}`;
    const spent = [took({ ...times, other: 0 }) > 0 || times.count ? ops : 'no op ran'];
    if (times.other) {
      spent.push(`other ${time(times.other)}`);
    }
    if (times.count) {
      spent.push(count(times.count, 'run'));
    }
    return branch ? `${place}: ${spent.join(', ')}; ${branch}` : `${place}: ${spent.join(', ')}`;
  };

  /** A click on a line: what ran there is pinned, the functions that it called unfold, its boxes come in sight. */
  const pinLine = (page, choice) => {
    selection.pinned = choice;
    card.tabs.open(0);
    const chosen = [...choice.ops];
    if (!page.page) {
      const innermost = chosen.map((op) => Number.parseInt(ops[op].places.at(-1), 10));
      const called = new Set(innermost);
      if (called.size <= MOST_UNFOLDED) {
        for (const number of called) {
          folds[number - 1]?.setOpen(true);
        }
      }
    }
    if (chosen.length && chosen.every((op) => record.boxIn(card.graph.shown(), op) < 0)) {
      card.graph.show(record.home[chosen[0]][0]);
    } else {
      selection.rest();
    }
  };

  const makeRow = (page, text, index) => {
    const line = page.first + index;
    const times = page.times.get(line);
    const severity = page.page ? '' : severities.get(line);
    const branch = page.page ? '' : data.branches[line];
    const words = describe(page, line, times, branch);
    const chosen = () => ({ ...choose(record.opsOfLine(line, page.page), page.page ? 0 : line), wide: true });
    const enter = () => {
      selection.light(chosen());
      fill(status, words);
    };
    const leave = () => {
      selection.rest();
      fill(status, data.hint);
    };
    const indent = Math.min(DEEPEST, text.search(/\S|$/)) + 2; // what is wrapped stands further in than what begins
    const code = html('span', { class: 't', style: `--in:${indent}ch` }, colouredLine(page, index));
    const attributes = {
      role: 'option',
      tabindex: index ? -1 : 0,
      class: severity || '',
      'aria-label': `${words}${severity ? `, ${severity}` : ''}. ${text}`,
      onmouseenter: enter,
      onmouseleave: leave,
      onfocus: enter,
      onblur: leave,
      onclick: () => pinLine(page, chosen()),
    };
    const element = html(
      'div',
      attributes,
      html('span', { class: 'n' }, severity && html('b', HIDDEN, `${icon(severity)} `), line),
      code,
      bars(times),
      html('span', { class: 'ms' }, times ? time(took(times)) : shortly(branch)),
    );
    const mark = (op) => fill(code, colouredLine(page, index, op));
    rows.set(`${page.page}:${line}`, { element, mark, marked: null });
    return element;
  };

  /** The lines of a page as one list for the arrow keys. */
  const makeListing = (page, label) => {
    const listed = page.text.map((text, index) => makeRow(page, text, index));
    const digits = String(page.first + page.text.length).length;
    const onkeydown = (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      const next = listed[listed.indexOf(event.target) + step];
      if (next) {
        moveFocus(event.target, next, event.currentTarget.closest('.scroll'));
      }
      if (event.key === 'Enter') {
        event.target.click();
      }
      if (step || event.key === 'Enter') {
        event.preventDefault();
      }
    };
    const attributes = {
      class: 'lines',
      style: `--digits:${digits + 4.2}ch`,
      role: 'listbox',
      'aria-label': label,
      onkeydown,
    };
    return { element: html('div', attributes, listed), rows: listed };
  };

  /** A called function: its name and times, and its lines when it is unfolded. */
  const makeFold = (page) => {
    const spent = [...page.times.values()];
    const total = { forward: sum(spent, 'forward'), backward: sum(spent, 'backward') };
    const place = `${page.file}, line ${page.first}`;
    const enter = () => selection.light(choose([...page.times.keys()].flatMap((n) => record.opsOfLine(n, page.page))));
    const attributes = {
      type: 'button',
      'aria-expanded': false,
      class: 'fold',
      onclick: () => setOpen(head.getAttribute('aria-expanded') === 'false'),
      onmouseenter: enter,
      onmouseleave: selection.rest,
      onfocus: enter,
      onblur: selection.rest,
    };
    const head = html(
      'button',
      attributes,
      html('span', { class: 't' }, html('span', { class: 'code' }, clip(page.name)), quiet(` ${place}`)),
      bars(total),
      html('span', { class: 'ms' }, time(took(total))),
    );
    const element = html('div', {}, head);
    let body = null;
    const setOpen = (open) => {
      head.setAttribute('aria-expanded', open);
      if (!body) {
        body = makeListing(page, `${page.name}, ${place}`).element;
        element.append(body);
      }
      body.hidden = !open;
    };
    return { element, setOpen };
  };

  selection.watch((choice) => {
    const lit = litPlaces(choice, ops);
    const [first] = choice.ops;
    const only = choice.ops.size === 1 ? ops[first] : null;
    const place = only && placeOf(only);
    for (const [key, row] of rows) {
      row.element.classList.toggle('lit', lit.has(key));
      const op = key === place ? only : null;
      if (row.marked !== op) {
        row.marked = op;
        row.mark(op);
      }
    }
  });

  const listing = makeListing(cell, 'source with times');
  const folds = pages.map(makeFold);
  return {
    element: listing.element,
    status,
    folds: folds.map((fold) => fold.element),

    /** Unfold called functions, from the first on, for as long as they have room; `room` is a number of lines. */
    unfold: (room) => {
      let left = room;
      for (const [index, { text }] of pages.entries()) {
        left -= text.length;
        if (left < 0) {
          return;
        }
        folds[index].setOpen(true);
      }
    },
    lines: listing.rows.length,

    /** Bring a line of the cell in sight. */
    scrollTo: (line) => {
      const row = listing.rows[line - 1];
      if (row) {
        scrollIn(listing.element.parentElement, row);
      }
    },
  };
}
