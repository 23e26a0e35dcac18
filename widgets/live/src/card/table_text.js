// A table as text in columns, and as CSV (RFC 4180).

import { isNumber } from '../shared/format.js';

/** What a spreadsheet would take for a formula. */
const FORMULA = /^[=+\-@\t\r]/;

/** A head in words: it may be broken in two lines. */
function words(title) {
  return [title]
    .flat()
    .map((part) => (typeof part === 'string' ? part : ' '))
    .join('');
}

/** The columns that say something in words or figures; bars do not. */
function said(columns) {
  return columns.map((column, index) => ({ ...column, index })).filter(({ title }) => title);
}

function shownText({ row }, { index }) {
  return row.cells[index].textContent.trim();
}

/** A value as a field: a figure in full, anything else as it is shown. */
function field(value) {
  if (isNumber(value)) {
    return String(+value.toPrecision(12)); // a sum of figures has digits that none of them has
  }
  const text = FORMULA.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function copied(line, column) {
  const { by, write, plain } = column;
  if (plain) {
    return plain(line.entry);
  }
  if (typeof by === 'function') {
    const value = by(line.entry); // to sort by: 0 and words stand for what is shown
    return value && isNumber(value) ? value : shownText(line, column);
  }
  const value = line.entry[by];
  return isNumber(value) || (typeof value === 'string' && !write) ? value : shownText(line, column);
}

/**
 * @param {Column[]} columns
 * @param {{entry: object, row: HTMLElement}[]} lines
 * @returns {string} a line for each, figures unrounded in the unit that the head names
 */
export function asCsv(columns, lines) {
  const kept = said(columns);
  const heads = kept.map(({ title, unit }) => field(unit ? `${words(title)} (${unit})` : words(title)));
  const body = lines.map((line) => kept.map((column) => field(copied(line, column))).join(','));
  return `${[heads.join(','), ...body].join('\r\n')}\r\n`;
}

/**
 * @param {Column[]} columns
 * @param {{entry: object, row: HTMLElement}[]} lines
 * @param {Child[]} [total] cells of a last row
 * @returns {string} columns as wide as what is in them
 */
export function asText(columns, lines, total) {
  const kept = said(columns);
  const plain = (line, column) => (column.plain ? column.plain(line.entry) : shownText(line, column));
  const rows = [
    kept.map(({ title }) => words(title)),
    ...lines.map((line) => kept.map((column) => plain(line, column).replaceAll(/\s+/g, ' '))),
  ];
  if (total) {
    rows.push(kept.map(({ index }) => String(total[index] || '')));
  }
  const widths = kept.map((_, k) => rows.reduce((most, row) => Math.max(most, row[k].length), 0));
  const padded = (cell, k) => (kept[k].kind ? cell.padEnd(widths[k]) : cell.padStart(widths[k]));
  return rows.map((row) => `${row.map(padded).join('  ').trimEnd()}\n`).join('');
}
