// The header with its figures, and what is wrong, the gravest first.

import { clip, html, linkButton, quiet, scrollIn, swatch } from '../shared/dom.js';
import { count, isNumber, sum, time, whole } from '../shared/format.js';
import { prose } from './prose.js';
import { remedyOf } from './remedy.js';
import { choose } from './selection.js';
import { icon, known, READS, word } from './severity.js';

/** Findings that are shown before "and ... more" is pressed. */
const SHOWN = 5;

/** Characters of a finding from which on it scrolls by itself. */
const TALL = 1200;

function figure(name, value, className) {
  return html('span', {}, className && swatch(className), quiet(`${name} `), html('b', {}, value));
}

/** @returns {HTMLElement} the title, how many ops ran, and where the time went */
export function createHeader({ record: { data, ops } }) {
  const { head } = data;
  const runs = sum(ops, 'count');
  const noun = ops.length === 1 ? ' op' : ' ops';
  return html(
    'header',
    {},
    html('span', { class: 'title' }, clip(head.title) || 'autograd'),
    html(
      'span',
      {},
      html('b', {}, whole(ops.length)),
      quiet(runs > ops.length ? `${noun}, ran ${whole(runs)} times` : noun),
    ),
    figure('forward', time(head.forward), 'f'),
    figure('backward', time(head.backward), 'b'),
    figure('update', time(head.update)),
    head.recording && figure('recording', time(head.recording)),
    isNumber(head.other) && figure('other', time(head.other), 'o'),
    head.wall && figure('wall', time(head.wall)),
    html('span', { class: 'quiet end' }, clip(head.device)),
  );
}

/** A message whose line is a link: "line 3" where the text names it, otherwise in front. */
function linked(text, line, go) {
  if (!line) {
    return prose(text);
  }
  const words = `line ${line}`;
  const start = text.search(new RegExp(`\\b${words}\\b`, 'i'));
  if (start < 0) {
    return [linkButton(words, go), ': ', prose(text)];
  }
  const end = start + words.length;
  return [prose(text.slice(0, start)), linkButton(text.slice(start, end), go), prose(text.slice(end))];
}

/** An item: how grave, `said` its word, the message, the remedy, a link `extra`, `below` its change of the cell. */
function problem({ severity, said = word(severity), text, line, remedy, go, extra, below }) {
  const tall = { class: 'tall', tabindex: 0, role: 'group', 'aria-label': 'finding' };
  return html(
    'li',
    { class: severity },
    html('span', { class: 'word' }, `${icon(severity)} ${said}`),
    html(
      'div',
      text.length + remedy.length > TALL ? tall : {},
      html('div', { class: 'message' }, linked(text, line, go)),
      (remedy || extra) && html('div', { class: 'remedy' }, prose(remedy), ' ', extra),
      below,
    ),
  );
}

function findingItem(card, finding, number) {
  const { ops, line, parameters } = finding;
  const showParameters = () => {
    card.tabs.open(1);
    card.selection.pin(choose(ops, line, parameters));
    const row = card.gradientRows.find(({ gradient }) => card.selection.pinned.names.has(gradient.name))?.row;
    if (row) {
      scrollIn(row.closest('.scroll'), row);
    }
  };
  return problem({
    severity: known(finding.severity),
    said: finding.reads ? READS : undefined,
    text: finding.message,
    line,
    remedy: finding.remedy,
    go: () => card.reveal(ops, line, parameters),
    extra: parameters.length && linkButton(`show ${count(parameters.length, 'parameter')}`, showParameters),
    below: remedyOf(card, finding, number),
  });
}

function remark(...children) {
  return html('li', { class: 'none' }, ...children);
}

/** @returns {HTMLElement} the list of what is wrong, or the sentence that nothing is */
export function createFindings(card) {
  const { data, findings, ops } = card.record;
  const { error, stopped } = data;
  const items = [];
  if (error && !error.told) {
    const text = error.message ? `${error.type}: ${error.message}` : error.type;
    const go = () => card.reveal(data.failed, error.line);
    items.push(problem({ severity: 'error', text, line: error.line, remedy: data.partial, go }));
  }
  if (stopped) {
    const [text, remedy, line] = stopped;
    items.push(problem({ severity: 'note', text, line, remedy, go: () => card.reveal([], line) }));
  }
  const problems = findings.map((finding, number) => findingItem(card, finding, number));
  items.push(...problems.slice(0, SHOWN));
  if (problems.length > SHOWN) {
    const rest = problems.slice(SHOWN);
    const showRest = (event) => event.target.parentElement.replaceWith(...rest);
    items.push(remark(linkButton(`and ${rest.length} more`, showRest)));
  }
  if (data.checked) {
    items.push(remark(data.checked));
  }
  if (!items.length) {
    const anyOp = ops.length || data.head.backward;
    items.push(remark(anyOp ? '✓ No problems found.' : 'No operation ran in this cell.'));
  }
  return html('ul', { class: 'findings', 'aria-label': 'findings' }, items);
}
