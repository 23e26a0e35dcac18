// What is different beside the last run of this cell.

import { clip, html } from '../shared/dom.js';
import { lineLink } from './reveal.js';
import { table } from './table.js';

/**
 * The contents of the tab.
 * @param {Card} card
 * @param {object[]} changes
 * @returns {Child[]}
 */
export function changesTab(card, changes) {
  const { beside, beside_note: note } = card.record.data;
  const words = changes.length ? 'What is different beside ' : 'Nothing changed beyond the noise of two runs, beside ';
  const lead = html('p', { class: 'lead' }, words, html('b', {}, clip(beside)), '. ', note);
  if (!changes.length) {
    return [lead];
  }
  const orDash = (value) => value || '–';
  const columns = [
    { title: 'what', by: 'kind', kind: 'text' },
    { title: 'name', by: 'name', kind: 'code long' },
    { title: 'before', by: 'before', kind: 'text', write: orDash },
    { title: 'now', by: 'after', kind: 'text', write: orDash },
    { title: 'note', by: 'note', kind: 'text' },
    { title: 'line', by: 'line', write: (line) => line && lineLink(card, line) },
  ];
  return [lead, ...table('All changes', columns, changes)];
}
