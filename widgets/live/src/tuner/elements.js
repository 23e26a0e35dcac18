// Elements that several tabs of the panel have.

import { HIDDEN, html } from '../shared/dom.js';
import { isNumber } from '../shared/format.js';

/** A paragraph. */
export function lead(...children) {
  return html('p', { class: 'lead' }, ...children);
}

/**
 * A table.
 * @param {string} caption
 * @param {([text: string, isOfFigures?: boolean] | null)[]} titles null for a column without one
 * @param {HTMLElement[]} rows
 * @param {object} [attributes]
 */
export function table(caption, titles, rows, attributes = {}) {
  const cells = titles.map((title) => {
    if (!title) {
      return html('td', {});
    }
    const [text, isFigure] = title;
    return html('th', { scope: 'col', ...(isFigure && { class: 'num' }) }, text);
  });
  return html(
    'table',
    attributes,
    html('caption', {}, caption),
    html('thead', {}, html('tr', {}, cells)),
    html('tbody', {}, rows),
  );
}

/** A cell that holds a figure. */
export function figureCell(text) {
  return html('td', { class: 'num' }, text);
}

/** The attributes of a drawing as wide as the panel. */
export function plotAttributes(width, height, label) {
  return { class: 'plot wide', viewBox: `0 0 ${width} ${height}`, width, role: 'img', 'aria-label': label };
}

/** The bar of a row: as long as its ratio, with the interval marked on it. */
export function ratioBar(ratio, low, high, most) {
  const share = (part) => `${(100 * part) / most}%`;
  return html(
    'span',
    { class: 'bar', ...HIDDEN },
    html('u', { style: `width:${share(ratio)}` }),
    isNumber(low) && html('s', { style: `left:${share(low)};width:${share(high - low)}` }),
  );
}
