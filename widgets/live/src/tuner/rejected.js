// The tab "Rejected": why configs have no time.

import { html } from '../shared/dom.js';
import { figureCell, lead, table } from './elements.js';

/** @returns {Child[]} the contents of the tab */
export function rejectedTab({ session: { reasons }, send }) {
  if (!reasons.length) {
    const soFar = send ? ' so far' : '';
    return [lead(`None${soFar}: each config that was tried compiles and gives the right answer.`)];
  }
  const makeRow = ([reason, configs]) => html('tr', {}, figureCell(configs), html('td', { class: 'long' }, reason));
  return [table('Why configs have no time', [['configs', true], ['reason']], reasons.map(makeRow))];
}
