// Tables that sort by a click on a column's head, and rows that open.

import { copyText } from '../shared/copy.js';
import { clip, fill, HIDDEN, html, linkButton } from '../shared/dom.js';
import { count, isNumber, whole } from '../shared/format.js';
import { asCsv, asText } from './table_text.js';

/** Rows that are shown before "show all" is pressed. */
const LIMIT = 300;

const ARROWS = { ascending: ' ↑', descending: ' ↓', none: '' };

/**
 * @typedef {object} Column
 * @property {Child} title
 * @property {string | ((entry: object) => any)} [by] what it sorts by, or the key of it; without it, it does not sort
 * @property {(value: any) => Child} [write] how the value of that key is written; as it is, without it
 * @property {(entry: object) => Child} [cell] what stands in a cell, where it is not that value
 * @property {(entry: object) => string} [plain] what is copied, where that is not what is shown
 * @property {string} [unit] of the values that are copied as CSV, where they are written in others
 * @property {string} [kind] the class of its cells if they are no figures: text, code, long
 */

const asItIs = (value) => value;

/** What stands in a cell. */
function contents(entry, { cell, by, write = asItIs }) {
  return clip(cell ? cell(entry) : write(entry[by]));
}

/** A row that opens: row → how many columns it spans, how its details are made, and the row that shows them. */
const foldable = new WeakMap();

/**
 * Let a row open: by its button from the keyboard, by all of it from the mouse.
 * @param {HTMLElement} row holds a button with aria-expanded
 * @param {number} columns that its details span
 * @param {() => Child} makeDetails
 */
export function makeFoldable(row, columns, makeDetails) {
  foldable.set(row, { columns, makeDetails, details: null });
  row.onclick = () => toggle(row);
}

function toggle(row) {
  const state = foldable.get(row);
  row.querySelector('[aria-expanded]').setAttribute('aria-expanded', !state.details);
  if (state.details) {
    state.details.remove();
    state.details = null;
    return;
  }
  const width = row.closest('.scroll').clientWidth - 28;
  const inner = html('div', { style: `max-width:${width}px` }, state.makeDetails());
  state.details = html('tr', {}, html('td', { class: 'open', colspan: state.columns }, inner));
  row.after(state.details);
}

/** Open a row, if it is not open yet, and return the row of its details. */
export function openRow(row) {
  const state = foldable.get(row);
  if (!state.details) {
    toggle(row);
  }
  return state.details;
}

/** A negative number, 0 or a positive one: what is null comes last, in both directions. */
function compare(a, b, sign) {
  if (a === null || b === null) {
    return (a === null) - (b === null);
  }
  if (a === b) {
    return 0;
  }
  return a < b ? -sign : sign;
}

/** What a row sorts by in a column; null for a figure that is not there. */
function sortValue(entry, { by, kind }) {
  const value = typeof by === 'string' ? entry[by] : by(entry);
  return kind || isNumber(value) ? value : null;
}

/** The buttons that copy a table: all rows, in their order now. */
function copyButtons(caption, columns, rows, total) {
  const status = html('span', { 'aria-live': 'polite' });
  const copyAs = (words, write) => {
    const copy = async () => {
      const done = await copyText(write());
      fill(status, done ? `${count(rows.length, 'row')} copied` : 'this page may not copy');
    };
    return linkButton(words, copy, { 'aria-label': `${words}: ${caption}` });
  };
  return html(
    'div',
    { class: 'copies' },
    status,
    ' ',
    copyAs('Copy text', () => asText(columns, rows, total)),
    ' ',
    copyAs('CSV', () => asCsv(columns, rows)),
  );
}

/**
 * @param {string} caption
 * @param {Column[]} columns
 * @param {object[]} entries a row each
 * @param {object} [options]
 * @param {Child[]} [options.total] cells of a last row
 * @param {(entry: object, row: HTMLElement) => void} [options.onRow]
 * @param {number} [options.sortBy] the column by which it is sorted at first
 * @returns {HTMLElement[]} the table with its buttons, and what stands below it
 */
export function table(caption, columns, entries, { total, onRow, sortBy } = {}) {
  const body = html('tbody', {});
  const more = html('div', { class: 'more' });
  const figureClass = (column) => (column.kind ? {} : { class: 'num' });
  const rows = entries.map((entry) => {
    const cells = columns.map((column) => html('td', { class: column.kind || 'num' }, contents(entry, column)));
    const row = html('tr', {}, cells);
    onRow?.(entry, row);
    return { entry, row };
  });
  let showsAll = rows.length <= LIMIT;
  let sortedBy = -1;
  let descending = false;

  const showAll = () => {
    showsAll = true;
    show();
  };
  const show = () => {
    const shown = showsAll ? rows : rows.slice(0, LIMIT);
    const withDetails = shown.flatMap(({ row }) => [row, foldable.get(row)?.details]);
    fill(body, withDetails);
    fill(more, !showsAll && linkButton(`and ${whole(rows.length - LIMIT)} more: show all`, showAll));
  };

  const makeHead = (column, index) => {
    const { title, by } = column;
    if (!title) {
      return html('td', figureClass(column));
    }
    const sorter = () => html('button', { type: 'button', onclick: () => sort(index) }, title, html('span', HIDDEN));
    return html('th', { scope: 'col', ...figureClass(column) }, by ? sorter() : title);
  };
  const heads = columns.map(makeHead);

  const sort = (index) => {
    const column = columns[index];
    descending = index === sortedBy ? !descending : !column.kind; // figures begin with the largest, text with A
    sortedBy = index;
    const sign = descending ? -1 : 1;
    rows.sort((a, b) => compare(sortValue(a.entry, column), sortValue(b.entry, column), sign));
    const direction = descending ? 'descending' : 'ascending';
    heads.forEach((head, k) => {
      if (columns[k].by) {
        const order = k === index ? direction : 'none';
        head.setAttribute('aria-sort', order);
        head.firstChild.lastChild.textContent = ARROWS[order];
      }
    });
    show();
  };

  if (sortBy) {
    sort(sortBy);
  } else {
    show();
  }
  const totalRow = () =>
    html(
      'tr',
      {},
      total.map((cell, k) => html('td', figureClass(columns[k]), cell)),
    );
  const made = html(
    'table',
    {},
    html('caption', {}, caption),
    html('thead', {}, html('tr', {}, heads)),
    body,
    total && html('tfoot', {}, totalRow()),
  );
  return [html('div', { class: 'table' }, copyButtons(caption, columns, rows, total), made), more];
}
