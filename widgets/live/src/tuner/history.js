// The tab "History": the sessions of this problem that have ended, and the last beside the one before.

import { html, quiet } from '../shared/dom.js';
import { isNumber, time } from '../shared/format.js';
import { figureCell, lead, ratioBar, table } from './elements.js';
import { interval } from './words.js';

/** @returns {Child[]} the contents of the tab */
export function historyTab({ session: { history, beside, estimate, title } }) {
  if (!history.length) {
    const why = estimate ? 'Estimates are not kept.' : 'No session of this problem has ended before.';
    return [lead(why)];
  }
  const most = Math.max(1, ...history.map(({ ratio, high }) => high ?? ratio ?? 0));
  const makeRow = ({ number, when, verdict, tried, took, config, ratio, low, high, time_ms: ms }) =>
    html(
      'tr',
      {},
      figureCell(number),
      html('td', {}, when),
      figureCell(tried),
      figureCell(took),
      figureCell(isNumber(ratio) ? ratio.toFixed(3) : ''),
      figureCell(interval(low, high)),
      figureCell(isNumber(ms) ? time(ms) : ''),
      html(
        'td',
        { class: 'long' },
        isNumber(ratio) && ratioBar(ratio, low, high, most),
        verdict,
        quiet(config && ` ${config}`),
      ),
    );
  const figure = (name) => [name, true];
  const titles = [
    ...['session', 'when'].map((name) => [name]),
    ...['tried', 'took', 'of default', '95 % interval', 'time'].map(figure),
    ['choice'],
  ];
  return [
    beside.length > 0 && lead(html('b', {}, 'The last session beside the one before. '), beside[0]),
    beside.slice(1).map((sentence) => lead(sentence)),
    table('Sessions of this problem', titles, history.map(makeRow), { class: 'standing' }),
    html('p', { class: 'lead quiet' }, `%tune history ${title} --compare 1 2 compares two others.`),
  ];
}
