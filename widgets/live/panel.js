// ---- what stands in every tab: controls made once, a body that is drawn again
const rejected = () => D.reasons.length ? [h('table', {}, h('caption', {}, 'Why configs have no time'), h('thead', {}, h('tr', {}, h('th', {scope: 'col', class: 'num'}, 'configs'), h('th', {scope: 'col'}, 'reason'))), h('tbody', {}, D.reasons.map(([text, n]) => h('tr', {}, h('td', {class: 'num'}, n), h('td', {class: 'long'}, text)))))] : [h('p', {class: 'lead'}, 'None' + (send ? ' so far' : '') + ': each config that was tried compiles and gives the right answer.')];
const views = [['Result', () => [], result], ['Map', pickAxes, map], ['Configs', pickValues, configs], ['Progress', () => [], progress], ['Roofline', () => [], roofline], ['Rejected', () => [], rejected]];

// ---- the frame
let current = 0, title, line, meter, buttons, bodies, controls, note;
const tabs = views.map(([name], k) => h('button', {type: 'button', role: 'tab', id: 't' + k, 'aria-controls': 'body', onclick: () => { current = k; chosen = null; foot([]); tab(); }}, name));
const bar = h('div', {role: 'tablist', 'aria-label': 'views', onkeydown: e => {
  const k = tabs.indexOf(e.target), to = {ArrowRight: (k + 1) % tabs.length, ArrowLeft: (k + tabs.length - 1) % tabs.length, Home: 0, End: tabs.length - 1}[e.key];
  if (to >= 0) { e.preventDefault(); tabs[to].click(); tabs[to].focus(); }
}}, tabs);
const foot = words => { note.replaceChildren(...words); note.hidden = !words.length; };
function tab() {
  tabs.forEach((t, j) => { t.setAttribute('aria-selected', j === current); t.tabIndex = j === current ? 0 : -1; });
  bodies.setAttribute('aria-labelledby', 't' + current);
  controls.replaceChildren(...views[current][1]()); controls.hidden = !controls.childNodes.length;
  body(); bodies.scrollTop = 0;
}
const body = () => bodies.replaceChildren(...views[current][2]().flat().filter(Boolean));
function head() {
  const live = send && ['running', 'paused'].includes(D.state), b = best(), ratio = D.places.length ? D.places[0][1] : b?.[2];
  title.replaceChildren(h('span', {class: 'state ' + D.state}, D.word), ' ', h('b', {}, D.title), D.device && quiet(' on ' + D.device));
  line.replaceChildren(...(real(ratio) && (ratio !== 1 || D.places.length) ? [h('b', {}, than(ratio)), ' · '] : []), D.figures, D.doing && D.state === 'running' ? ' · ' + D.doing : '');
  meter.style.width = 100 * (D.state === 'running' || D.state === 'paused' ? D.budget_s ? Math.min(1, D.spent_s / D.budget_s) : D.trials.length / D.size : 1) + '%';
  const key = live ? D.state : '';
  if (buttons.dataset.key !== key) {
    buttons.dataset.key = key;
    buttons.replaceChildren(...(live ? [D.state === 'running' ? button('Pause', () => act('pause'), {class: 'act'}) : button('Resume', () => act('resume'), {class: 'act'}), button('Stop', () => act('stop'), {class: 'act'})] : []));
  }
}
function make() {
  title = h('div', {class: 'title'}); line = h('div', {class: 'figures'}); buttons = h('span', {class: 'acts'}); meter = h('u', {class: 'f'});
  controls = h('div', {class: 'top'}); bodies = h('div', {class: 'scroll', id: 'body', role: 'tabpanel', tabindex: 0}); note = h('div', {class: 'foot', role: 'status'});
  host.setAttribute('data-lm-suppress-shortcuts', 'true');
  host.onkeydown = e => { if (!e.ctrlKey && !e.metaKey && !e.altKey) e.stopPropagation(); }; // else Enter and the arrows are the notebook's
  const last = D.importance.map(([n]) => D.tunables.findIndex(t => t[0] === n)), some = various();
  axes[0] = last[0] ?? some[0] ?? 0; axes[1] = last[1] ?? some[1] ?? Math.min(1, D.tunables.length - 1);
  host.attachShadow({mode: 'open'}).append(h('style', {}, D.css), h('section', {class: 'card', 'aria-label': 'tuner ' + D.title}, h('header', {}, title, buttons), line, h('div', {class: 'meter', ...hide}, meter), D.estimate && h('p', {class: 'lead warn'}, h('b', {}, 'Estimates: '), 'nothing is timed here; the kernel is compiled for a GPU that is not in this machine.'), bar, controls, bodies, note));
  note.hidden = true; made = true;
}
return data => {
  const ended = D && D.state !== data.state;
  D = data;
  if (!made) make();
  head();
  if (ended || !controls.dataset.ready) { controls.dataset.ready = 1; tab(); }
  else if (!bodies.querySelector('[data-busy]') && (!bodies.contains(host.shadowRoot.activeElement) || host.shadowRoot.activeElement === bodies)) body(); // what is being used stays
};
}
