// Below a finding: the lines of the cell that its remedy changes, "Try it" and "Apply", and what came of them.

import { ask } from '../shared/ask.js';
import { copyText } from '../shared/copy.js';
import { fill, html } from '../shared/dom.js';
import { changeCell } from './cell_editor.js';
import { prose } from './prose.js';

/**
 * A line of a patch: where it is not the cell that changes the other source's name, the number of a line, - where it
 * goes or + what comes before it, the text.
 */
const CHANGE = /^(?:(.+?) )??line (\d+) ([-+]) (.*)$/s;

const NO_ANSWER = 'Not tried: the kernel that drew this card does not answer.';
const OTHER_TEXT =
  "The cell's text is no longer the one that this card is of. Nothing was changed: run the cell again first.";

function readPatch(patch) {
  return patch.split('\n').map((line) => {
    const [, elsewhere, number, sign, text] = line.match(CHANGE);
    return { elsewhere, line: Number(number), sign, text };
  });
}

/** The cell's text with a patch; undefined where a line that goes is not there, or another source is to change. */
export function patched(source, patch) {
  const changes = readPatch(patch);
  const lineAt = (line) => source[line - 1] ?? ''; // blank lines at the end are not in the record's source
  if (changes.some(({ elsewhere, line, sign, text }) => elsewhere || (sign === '-' && lineAt(line) !== text))) {
    return undefined;
  }
  const out = [];
  const last = Math.max(source.length, ...changes.map(({ line }) => line));
  for (let line = 1; line <= last; line += 1) {
    const here = changes.filter((change) => change.line === line);
    out.push(...here.filter(({ sign }) => sign === '+').map(({ text }) => text));
    if (line <= source.length && !here.some(({ sign }) => sign === '-')) {
      out.push(lineAt(line));
    }
  }
  return out.join('\n');
}

/** The changed lines. */
function changedLines(patch) {
  return patch.split('\n').map((line) => html('div', { class: line.match(CHANGE)[3] === '+' ? 'put' : 'out' }, line));
}

function button(text, onclick) {
  return html('button', { type: 'button', class: 'press', onclick }, text);
}

/**
 * @param {Card} card
 * @param {{tried: string, patch: string}} finding
 * @param {number} number the kernel's, of the finding
 * @returns {HTMLElement | false} false where no change of the cell is known
 */
export function remedyOf(card, { tried, patch }, number) {
  if (!patch) {
    return tried && html('div', { class: 'message' }, prose(tried));
  }
  const { root, record } = card;
  const { source } = record.data;
  const outcome = html('div', { class: 'message', role: 'status' }, prose(tried));
  const lines = html('pre', { class: 'patch' }, changedLines(patch));
  const status = html('span', { class: 'quiet', role: 'status' });
  const box = html('div', { class: 'change' });
  let text = patched(source, patch);

  const apply = button('Apply', async () => {
    const done = changeCell(root, source.join('\n'), text);
    if (done === 'no editor') {
      const copied = await copyText(text);
      const where = "This page cannot change the cell's text: ";
      fill(status, where, copied ? 'the changed text is in the clipboard.' : 'change the lines above by hand.');
    } else {
      fill(status, done === 'done' ? 'Changed in the cell, which was not run; undo there takes it back.' : OTHER_TEXT);
    }
  });

  const attempt = button('Try it', () => {
    if (attempt.getAttribute('aria-disabled') === 'true') {
      return;
    }
    attempt.setAttribute('aria-disabled', true); // disabled it would lose the focus
    fill(status, 'trying in a copy of the process from before the cell …');
    const answered = (answer) => {
      fill(status);
      fill(outcome, prose(answer.said || NO_ANSWER));
      if (!answer.said) {
        attempt.removeAttribute('aria-disabled');
        return;
      }
      if (answer.patch) {
        fill(lines, changedLines(answer.patch));
        text = patched(source, answer.patch);
      }
      box.parentElement.parentElement.classList.toggle('back', answer.level === 'refuted');
      if (attempt.matches(':focus')) {
        apply.focus({ preventScroll: true });
      }
      attempt.remove();
    };
    ask(root.dataset.kernel, `try ${number}`, answered);
  });

  const canAsk = root.dataset.kernel && !tried;
  box.append(outcome, lines, html('div', { class: 'presses' }, canAsk && attempt, text !== undefined && apply, status));
  return box;
}
