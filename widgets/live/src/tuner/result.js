// The tab "Result": the verdict, the best beside what it is compared with, the change as code, the final.

import { ask } from '../shared/ask.js';
import { html, linkButton, quiet } from '../shared/dom.js';
import { time } from '../shared/format.js';
import { figureCell, lead, ratioBar, table } from './elements.js';
import { comparedToDefault, interval } from './words.js';

/** Copy a text; where a page may not copy, the text is shown. */
function copy({ say }, button, text) {
  const show = () => say(html('p', { class: 'code' }, text));
  if (!navigator.clipboard) {
    show();
    return;
  }
  const copied = () => {
    button.textContent = 'Copied';
  };
  navigator.clipboard.writeText(text).then(copied, show);
}

/** Make a config the choice: by the kernel that drew this, where it still listens; else the command is to be run. */
function use(panel, button, config) {
  const command = `${panel.session.command} --use "${config}"`;
  const answered = ({ said }) => {
    if (said) {
      panel.say(html('p', {}, said));
    } else {
      copy(panel, button, command);
    }
  };
  if (!ask(panel.to, command, answered)) {
    copy(panel, button, command);
  }
}

/** The best so far, while there is no final. */
function bestSoFar(session) {
  const { best, state, words } = session;
  if (best) {
    const code = html('span', { class: 'code' }, words(best.codes));
    return lead(html('b', {}, 'Best so far: '), code, ` · ${comparedToDefault(session, best.ratio)}`);
  }
  const waiting = 'Nothing has a time yet: the default is compiled, checked and timed first.';
  return lead(state === 'running' ? waiting : 'Nothing has a time.');
}

/** The best beside the default, what was chosen before, a vendor's library, the device's limit. */
function standing({ standing: rows }) {
  if (rows.length < 2) {
    return null;
  }
  const most = rows.reduce((longest, [, ratio, , high]) => Math.max(longest, high ?? ratio), 0);
  const makeRow = ([name, ratio, low, high, ms, config]) =>
    html(
      'tr',
      { class: name.startsWith('best') ? 'lit' : '' },
      html('td', {}, html('b', {}, name)),
      figureCell(ratio.toFixed(3)),
      figureCell(interval(low, high)),
      figureCell(time(ms)),
      html('td', { class: 'long' }, ratioBar(ratio, low, high, most), quiet(config)),
    );
  const titles = [null, ['of default', true], ['95 % interval', true], ['time', true], null];
  return table("Time, of the default's", titles, rows.map(makeRow), { class: 'standing' });
}

/** The choice as a difference of two lines, to copy. */
function change(panel) {
  const { change: text, code } = panel.session;
  const copyCode = (event) => copy(panel, event.target, code);
  const copyDifference = (event) => copy(panel, event.target, text);
  const line = (words) => html('span', { class: words.startsWith('+') ? 'more' : 'less' }, `${words}\n`);
  return [
    lead(
      html('b', {}, 'The change as code '),
      linkButton('Copy', copyCode, { 'aria-label': 'Copy the choice as code' }),
      ' ',
      linkButton('Copy as difference', copyDifference),
    ),
    html(
      'pre',
      { class: 'code', tabindex: 0, role: 'group', 'aria-label': 'the change as code' },
      text.split('\n').map(line),
    ),
  ];
}

/** The best configs, with a button that makes one the choice. */
function final(panel) {
  const { places, estimate, command, chosen } = panel.session;
  const choice = (config) => {
    if (!command) {
      return null;
    }
    const onUse = (event) => use(panel, event.target, config);
    return config === chosen ? quiet('chosen') : linkButton('Use', onUse, { 'aria-label': `Use ${config}` });
  };
  const makeRow = ([config, ratio, low, high, ms, mark, facts]) =>
    html(
      'tr',
      {},
      figureCell(ratio.toFixed(3)),
      figureCell(estimate ? 'estimate' : interval(low, high)),
      figureCell(time(ms)),
      html(
        'td',
        { class: 'long' },
        html('span', { class: 'code' }, config),
        mark && quiet(` ${mark}`),
        facts && html('div', { class: 'quiet' }, facts),
      ),
      html('td', {}, choice(config)),
    );
  const caption = estimate ? 'The best by the estimate' : 'The final: the best, taken in turn';
  const titles = [['of default', true], ['95 % interval', true], ['time', true], ['config'], null];
  return table(caption, titles, places.map(makeRow));
}

/** @returns {Child[]} the contents of the tab */
export function resultTab(panel) {
  const { session } = panel;
  return [
    session.verdict.map((sentence) => lead(sentence)),
    session.notes.map((note) => html('p', { class: 'lead quiet' }, note)),
    !session.places.length && bestSoFar(session),
    standing(session),
    session.change && change(panel),
    session.places.length > 0 && final(panel),
  ];
}
