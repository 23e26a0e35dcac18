// The tuner's panel: a header that says where the session stands, and tabs that show what it has found.

import { fill, HIDDEN, html, keepKey, linkButton, OWN_KEYS, quiet } from '../shared/dom.js';
import { isNumber } from '../shared/format.js';
import { tabBar } from '../shared/tabs.js';
import { configsControls, configsTab } from './configs.js';
import { historyTab } from './history.js';
import { mapControls, mapTab } from './map.js';
import { progressTab } from './progress.js';
import { rejectedTab } from './rejected.js';
import { resultTab } from './result.js';
import { rooflineTab } from './roofline.js';
import { readSession } from './session.js';
import { comparedToDefault } from './words.js';

/**
 * @typedef {object} Panel  What the tabs share.
 * @property {object} session the moment that is shown, see session.js
 * @property {((message: object) => void) | null} send hands an act to the session; null where nobody listens
 * @property {string} [to] whom it can ask for another choice while the notebook is open
 * @property {Trial | null} chosen the config that is being read about
 * @property {[number, number] | null} within the ratios that are let through
 * @property {Map<number, Set<number>>} wanted tunable → the values that are let through
 * @property {[number, number]} axes the tunables of the map
 * @property {(...children: Child[]) => void} say shows words at the foot
 * @property {() => void} redraw draws the open tab again
 * @property {() => void} open draws the open tab and its controls again
 * @property {() => HTMLElement} scrollBox the element that scrolls
 */

const noControls = () => [];

const TABS = [
  { name: 'Result', controls: noControls, contents: resultTab },
  { name: 'Map', controls: mapControls, contents: mapTab },
  { name: 'Configs', controls: configsControls, contents: configsTab },
  { name: 'Progress', controls: noControls, contents: progressTab },
  { name: 'Roofline', controls: noControls, contents: rooflineTab },
  { name: 'Rejected', controls: noControls, contents: rejectedTab },
  { name: 'History', controls: noControls, contents: historyTab },
];

const isGoing = (state) => state === 'running' || state === 'paused';

/** The share of the budget that is spent, or of the configs that were tried; all of it at the end. */
function progressOf({ state, budget_s: budget, spent_s: spent, trials, size }) {
  if (!isGoing(state)) {
    return 1;
  }
  return budget ? Math.min(1, spent / budget) : trials.length / size;
}

/** The tunables that the map begins with: the two that matter most, else the first two that have a choice. */
function firstAxes({ importance, tunables, various }) {
  const [first, second] = importance.map(([name]) => tunables.findIndex((tunable) => tunable[0] === name));
  return [first ?? various[0] ?? 0, second ?? various[1] ?? Math.min(1, tunables.length - 1)];
}

/** The header: the state, what is tuned, the best, the buttons. Returns its elements and how to `update` them. */
function createHeader(send) {
  const title = html('div', { class: 'title' });
  const figures = html('div', { class: 'figures' });
  const buttons = html('span', { class: 'acts' });
  const meter = html('u', { class: 'f' });
  let buttonsOf = ''; // the state whose buttons are there: they stay under the pointer while nothing changes

  const actButton = (text, act) => linkButton(text, () => send({ act }), { class: 'act' });
  const updateButtons = (state) => {
    const wanted = send && isGoing(state) ? state : '';
    if (wanted === buttonsOf) {
      return;
    }
    buttonsOf = wanted;
    const pause = () => (wanted === 'running' ? actButton('Pause', 'pause') : actButton('Resume', 'resume'));
    fill(buttons, wanted && [pause(), actButton('Stop', 'stop')]);
  };

  const update = (session) => {
    const { state, word, device, best, doing, headline } = session;
    fill(
      title,
      html('span', { class: `state ${state}` }, word),
      ' ',
      html('b', {}, session.title),
      device && quiet(` on ${device}`),
    );
    const isNews = isNumber(best?.ratio) && best.ratio !== 1;
    const news = headline || (isNews && comparedToDefault(session, best.ratio));
    fill(figures, news && [html('b', {}, news), ' · '], session.figures, doing && state === 'running' && ` · ${doing}`);
    meter.style.width = `${100 * progressOf(session)}%`;
    updateButtons(state);
  };
  const elements = [html('header', {}, title, buttons), figures, html('div', { class: 'meter', ...HIDDEN }, meter)];
  return { elements, update };
}

function estimateWarning() {
  const words = 'nothing is timed here; the kernel is compiled for a GPU that is not in this machine.';
  return html('p', { class: 'lead warn' }, html('b', {}, 'Estimates: '), words);
}

/**
 * Make the panel in `host` when the first data comes.
 * @param {HTMLElement} host
 * @param {((message: object) => void) | null} send null for a saved panel: it has no buttons that act on the session
 * @param {string} [to] whom it can ask for another choice while the notebook is open
 * @returns {(data: object) => void} draws a moment of the session
 */
export function createPanel(host, send, to) {
  const header = createHeader(send);
  const controls = html('div', { class: 'top' });
  const body = html('div', { class: 'scroll', id: 'body', role: 'tabpanel', tabindex: 0 });
  const foot = html('div', { class: 'foot', role: 'status' });
  let current = 0;

  const panel = {
    session: null,
    send,
    to,
    chosen: null,
    within: null,
    wanted: new Map(),
    axes: [0, 1],
    say: (...children) => {
      fill(foot, children);
      foot.hidden = !children.length;
    },
    redraw: () => fill(body, TABS[current].contents(panel)),
    open: () => {
      mark(current);
      body.setAttribute('aria-labelledby', `t${current}`);
      fill(controls, TABS[current].controls(panel));
      controls.hidden = !controls.childNodes.length;
      panel.redraw();
      body.scrollTop = 0;
    },
    scrollBox: () => body,
  };

  const openTab = (index) => {
    current = index;
    panel.chosen = null;
    panel.say();
    panel.open();
  };
  const names = TABS.map(({ name }) => name);
  const { bar, mark } = tabBar(names, () => 'body', openTab);

  const begin = () => {
    const { session } = panel;
    panel.axes = firstAxes(session);
    host.setAttribute(OWN_KEYS, 'true');
    host.onkeydown = keepKey;
    foot.hidden = true;
    // a group and no region: a notebook may hold several of one name, and regions' names have to differ
    const label = { class: 'card', role: 'group', 'aria-label': `tuner ${session.title}` };
    const warning = session.estimate && estimateWarning();
    host
      .attachShadow({ mode: 'open' })
      .append(
        html('style', {}, session.css),
        html('div', label, html('section', {}, header.elements, warning, bar, controls, body, foot)),
      );
  };

  /** Whether the reader is at something in the body: what is being used stays as it is. */
  const isInUse = () => {
    const focused = host.shadowRoot.activeElement;
    return body.querySelector('[data-busy]') || (body.contains(focused) && focused !== body);
  };

  return (data) => {
    const before = panel.session;
    panel.session = readSession(data);
    if (!before) {
      begin();
    }
    header.update(panel.session);
    if (before?.state !== data.state) {
      panel.open();
    } else if (!isInUse()) {
      panel.redraw();
    }
  };
}
