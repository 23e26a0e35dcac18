// The search for ops: by name, module, code or kernel; Enter goes from one to the next.

import { html } from '../shared/dom.js';
import { count } from '../shared/format.js';
import { choose } from './selection.js';

/**
 * @param {Card} card
 * @param {(words: string) => void} say shows what was found
 * @returns {HTMLElement} the field
 */
export function createSearch(card, say) {
  const { record, selection } = card;
  const { ops } = record;
  let found = [];
  let at = -1;

  const matches = (op, words) =>
    [op.op, op.module, op.code, op.kernel].some((text) => text.toLowerCase().includes(words));

  const search = () => {
    const words = field.value.trim().toLowerCase();
    at = -1;
    found = words ? [...ops.keys()].filter((op) => matches(ops[op], words)) : [];
    selection.pin(choose(found));
    if (!words) {
      say(record.data.help);
    } else if (found.length) {
      say(`${count(found.length, 'op')} found. Enter goes from one to the next.`);
    } else {
      say('Nothing found.');
    }
  };

  /** Show the next op that was found, or the one before: from the last, on to the first. */
  const go = (back) => {
    at = (at + (back ? found.length - 1 : 1)) % found.length;
    const op = found[at];
    selection.pin(choose([op], ops[op].file ? 0 : ops[op].line));
    card.graph.show(...record.home[op]);
  };

  const onkeydown = (event) => {
    if (event.key === 'Escape') {
      field.value = '';
      search();
    } else if (event.key === 'Enter' && found.length) {
      go(event.shiftKey);
    }
  };

  const field = html('input', {
    type: 'search',
    class: 'find',
    placeholder: 'find an op',
    'aria-label': 'find an op, a module or code',
    oninput: search,
    onkeydown,
  });
  return field;
}
