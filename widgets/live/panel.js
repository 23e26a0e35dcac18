// The tuner's panel: `panel(host, send)` makes it and gives the function that draws a moment of a session.
// `send` is there while somebody listens; a saved panel has none, and no buttons that act.
function panel(host, send) {
let D, made, chosen = null;
const pairs = {}, wanted = new Map(), axes = [0, 1]; // wanted: tunable -> the values that are let through
const right = () => D.trials.filter(t => real(t[2])), words = codes => D.tunables.map(([n, values], k) => n + '=' + values[codes[k]]).join(' ');
const best = () => right().reduce((b, t) => !b || t[2] < b[2] ? t : b, null);
const than = r => r < 1 ? fixed(1 / r) + ' times as fast as the default' : r === 1 ? 'the default' : fixed(r) + " times the default's time";
const status = {compile: 'does not compile', constraints: 'exceeds a limit', runtime: 'fails', correctness: 'is wrong', timeout: 'takes too long'};
const copy = (b, text) => navigator.clipboard.writeText(text).then(() => { b.textContent = 'Copied'; }, () => foot([h('p', {class: 'code'}, text)])); // where a page may not, the command is shown
const act = (what, more) => { send({act: what, ...more}); };

// ---- why a config is slow: the nearest one that is faster, and what differs between the two
function why(t) {
  const [codes, state, ratio, , reason, facts] = t;
  if (!real(ratio)) return [h('p', {}, h('b', {}, words(codes)), ' ' + (status[state] || state) + ': ' + reason)];
  const apart = o => o[0].reduce((n, c, k) => n + (c !== codes[k]), 0);
  const faster = right().filter(o => o[2] < .97 * ratio).sort((a, b) => apart(a) - apart(b) || a[2] - b[2])[0];
  const line = h('p', {}, h('b', {}, words(codes)), ` takes ${number(ratio)} of the default's time` + (D.estimate ? ', by the estimate' : '') + (reason && state === 'same' ? '; its machine code is that of ' + reason : '') + '.');
  if (!faster) return [line, h('p', {}, 'None that was tried is faster by 3 % or more.')];
  const change = D.tunables.map(([n, values], k) => codes[k] !== faster[0][k] && `${n} ${values[codes[k]]} → ${values[faster[0][k]]}`).filter(Boolean).join(', ');
  const other = faster[5], list = Object.keys(facts).filter(k => k in other && facts[k] !== other[k] && k !== 'estimate_ms').map(k => `${k.replaceAll('_', ' ')} ${show(facts[k])} → ${show(other[k])}`).join(', ');
  return [line, h('p', {}, `The nearest that is faster: ${change} takes ${number(faster[2] / ratio)} of its time` + (list ? ` (${list}).` : '.'))];
}
const show = x => real(x) ? number(x) : String(x);

// ---- what stands in every tab: controls made once, a body that is drawn again
const views = [
  ['Result', () => [], () => {
    const out = [...D.verdict, ...D.notes].map(x => h('p', {class: 'lead'}, x));
    if (!D.places.length) {
      const b = best();
      out.push(h('p', {class: 'lead'}, b ? [h('b', {}, 'Best so far: '), words(b[0]), ' · ' + than(b[2])] : 'Nothing has a time yet.'));
    } else out.push(h('table', {}, h('caption', {}, 'The final: taken in turn'), h('thead', {}, h('tr', {}, ['of default', '95 % interval', 'time', 'config'].map((x, k) => h('th', {scope: 'col', class: k < 3 ? 'num' : ''}, x)), h('td', {}))),
      h('tbody', {}, D.places.map(([config, ratio, low, high, ms, mark, facts], k) => h('tr', {}, h('td', {class: 'num'}, ratio.toFixed(3)), h('td', {class: 'num'}, D.estimate ? 'estimate' : `${low.toFixed(3)} to ${high.toFixed(3)}`), h('td', {class: 'num'}, time(ms)),
        h('td', {class: 'long'}, h('span', {class: 'code'}, config), mark && quiet(' ' + mark), facts && h('div', {class: 'quiet'}, facts)), h('td', {}, D.command && config !== D.chosen && button('Copy', e => copy(e.target, `${D.command} --use "${config}"`), {'aria-label': 'Copy the command that uses ' + config})))))),
      D.command && h('p', {class: 'lead'}, quiet('To use another than the first, run the command that its Copy gives.')));
    if (D.code) out.push(h('p', {class: 'lead'}, 'The choice as code, to copy:'), h('pre', {class: 'code', tabindex: 0, role: 'group', 'aria-label': 'the choice as code'}, D.code));
    return out;
  }],
  ['Map', () => {
    const pick = k => h('label', {}, k ? 'across ' : 'down ', h('select', {class: 'find by', onchange: e => { axes[k] = +e.target.value; body(); }}, D.tunables.map(([n], j) => h('option', {value: j}, n))));
    const found = [pick(0), pick(1)];
    found.forEach((l, k) => l.lastChild.value = axes[k]);
    return found;
  }, () => {
    const [i, j] = axes, cells = new Map();
    for (const t of D.trials) {
      const at = t[0][i] + ',' + t[0][j], was = cells.get(at);
      if (!was || real(t[2]) && !(was[2] <= t[2])) cells.set(at, t);
    }
    const flip = i > j, never = new Map((D.never[flip ? j + ',' + i : i + ',' + j] || []).map(([a, b, text]) => [flip ? b + ',' + a : a + ',' + b, text]));
    const range = [...cells.values()].filter(t => real(t[2])).map(t => Math.log(Math.min(t[2], 4))), low = Math.min(...range), high = Math.max(...range), grid = D.tunables[i][1].map((v, a) => (i === j ? [a] : D.tunables[j][1].map((_, c) => c)).map(c => {
      const t = cells.get(a + ',' + c), no = never.get(a + ',' + c), name = `${D.tunables[i][0]} ${v}, ${D.tunables[j][0]} ${D.tunables[j][1][c]}: `;
      const text = no ? '' : !t ? '·' : real(t[2]) ? t[2].toFixed(2) : '✕', heat = t && real(t[2]) ? Math.round(45 * (high - Math.log(Math.min(t[2], 4))) / (high - low || 1)) : 0;
      const say = no ? [h('p', {}, name + 'no config: ' + no)] : t ? why(t) : [h('p', {}, name + 'not tried')];
      return h('button', {type: 'button', tabindex: -1, class: 'cell' + (no ? ' never' : !t ? ' open' : real(t[2]) ? '' : ' flag'), style: `--heat:${heat}%`, 'aria-label': name + (no ? 'no config' : !t ? 'not tried' : real(t[2]) ? t[2].toFixed(2) + " of the default's time" : t[4]), onclick: () => foot(say), onfocus: () => foot(say)}, text);
    }));
    const move = e => {
      const a = grid.findIndex(row => row.includes(e.target)), c = a < 0 ? 0 : grid[a].indexOf(e.target), [da, dc] = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[e.key] || [0, 0];
      const to = a >= 0 && (da || dc) && grid[a + da]?.[c + dc];
      if (to) { e.preventDefault(); rove(e.target, to, bodies); }
    };
    grid[0][0].tabIndex = 0;
    return [h('table', {class: 'map', onkeydown: move}, h('caption', {}, "Best time found, of the default's"), h('thead', {}, h('tr', {}, h('td', {}), (i === j ? [''] : D.tunables[j][1]).map(v => h('th', {scope: 'col'}, v)))),
      h('tbody', {}, grid.map((row, a) => h('tr', {}, h('th', {scope: 'row'}, D.tunables[i][1][a]), row.map(c => h('td', {}, c)))))), h('p', {class: 'lead'}, h('span', {class: 'key never'}), 'no config · ', h('span', {class: 'key flag'}, '✕'), ' failed · ', h('span', {class: 'key'}, '·'), ' not tried')];
  }],
  ['Configs', () => D.tunables.filter(t => t[1].length > 1).map(([n, values]) => {
    const k = D.tunables.findIndex(t => t[0] === n);
    return h('span', {class: 'chips', role: 'group', 'aria-label': n}, h('b', {}, n), values.map((v, c) => h('button', {type: 'button', 'aria-pressed': 'false', onclick: e => {
      const set = wanted.get(k) || new Set();
      set.has(c) ? set.delete(c) : set.add(c);
      set.size ? wanted.set(k, set) : wanted.delete(k);
      e.target.setAttribute('aria-pressed', set.has(c)); body();
    }}, v)));
  }), () => {
    const passes = t => [...wanted].every(([k, set]) => set.has(t[0][k])), list = right().sort((a, b) => a[2] - b[2]), through = list.filter(passes);
    const many = D.tunables.map((t, k) => k).filter(k => D.tunables[k][1].length > 1), W = 760, H = 210, x = k => 30 + k * (W - 60) / many.length, y = (c, k) => { const n = D.tunables[k][1].length; return H - 28 - (n > 1 ? c / (n - 1) : .5) * (H - 56); };
    const worst = Math.log(Math.max(1.01, ...list.map(t => Math.min(t[2], 4)))), low = Math.log(list[0]?.[2] || .5), z = r => H - 28 - (worst - Math.log(Math.min(r, 4))) / (worst - low || 1) * (H - 56);
    const line = (t, cls) => s('polyline', {class: cls, points: many.map((k, i) => `${x(i)},${y(t[0][k], k).toFixed(1)}`).join(' ') + ` ${x(many.length)},${z(t[2]).toFixed(1)}`});
    const drawing = s('svg', {class: 'plot', viewBox: `0 0 ${W} ${H}`, width: W, role: 'img', 'aria-label': 'configs as lines over their tunables, the fastest on top; the table below says the same'},
      list.slice(0, 400).reverse().filter(t => !passes(t)).map(t => line(t, 'dim')), through.slice(0, 400).reverse().map((t, i, all) => line(t, i >= all.length - 3 ? 'first' : 'some')),
      many.map((k, i) => [s('line', {class: 'axis', x1: x(i), x2: x(i), y1: 26, y2: H - 26}), s('text', {x: x(i), y: 14, 'text-anchor': 'middle'}, D.tunables[k][0]), D.tunables[k][1].map((v, c) => s('text', {class: 'row', x: x(i) + 4, y: y(c, k) + 3}, v))]),
      s('line', {class: 'axis', x1: x(many.length), x2: x(many.length), y1: 26, y2: H - 26}), s('text', {x: x(many.length), y: 14, 'text-anchor': 'middle'}, 'of default'));
    return [drawing, h('table', {}, h('caption', {}, `${whole(through.length)} of ${count(list.length, 'config')}; choose one to read why it is slow`), h('thead', {}, h('tr', {}, h('th', {class: 'num', scope: 'col'}, 'of default'), h('th', {class: 'num', scope: 'col'}, 'time'), h('th', {scope: 'col'}, 'config'))),
      h('tbody', {}, [...through.slice(0, 30), ...through.slice(30).slice(-10)].map(t => h('tr', {class: t === chosen ? 'lit' : ''}, h('td', {class: 'num'}, t[2].toFixed(3)), h('td', {class: 'num'}, time(t[3])), h('td', {class: 'long'}, button(words(t[0]), () => { chosen = t; foot(why(t)); }, {class: 'link code'}))))))];
  }],
  ['Progress', () => [], () => {
    const W = 760, H = 200, n = Math.max(D.trials.length, 2), ratios = right().map(t => t[2]), bound = D.bound && D.default_ms && D.bound[0] / D.default_ms;
    const low = Math.log(Math.min(.9, bound || 1, ...ratios)), high = Math.log(Math.min(4, Math.max(1.2, ...ratios))), X = k => 44 + k / (n - 1) * (W - 60), Y = r => 14 + (high - Math.log(Math.min(r, 4))) / (high - low) * (H - 40);
    let b = Infinity, path = '';
    const dots = D.trials.map((t, k) => { if (real(t[2]) && t[2] < b) { path += path ? ` H${X(k).toFixed(1)} V${Y(t[2]).toFixed(1)}` : `M${X(k).toFixed(1)} ${Y(t[2]).toFixed(1)}`; b = t[2]; } return real(t[2]) ? s('circle', {cx: X(k).toFixed(1), cy: Y(t[2]).toFixed(1), r: 2, class: 'dot'}) : s('text', {x: X(k), y: H - 20, class: 'flag row', 'text-anchor': 'middle'}, '✕'); });
    const rule = (r, name) => [s('line', {class: 'axis', x1: 44, x2: W - 16, y1: Y(r), y2: Y(r)}), s('text', {x: 40, y: Y(r) + 4, 'text-anchor': 'end'}, number(r)), s('text', {x: W - 16, y: Y(r) - 4, 'text-anchor': 'end'}, name)];
    return [s('svg', {class: 'plot', viewBox: `0 0 ${W} ${H}`, width: W, role: 'img', 'aria-label': `time of the default's, trial by trial; the best so far is ${number(b)}`}, rule(1, 'default'), bound && bound < 1 ? rule(bound, D.bound[2]) : null, dots, path && s('path', {class: 'first', d: path + ` H${W - 16}`}), s('text', {x: W / 2, y: H - 4, 'text-anchor': 'middle'}, count(D.trials.length, 'trial'))),
      D.bound && h('p', {class: 'lead'}, h('b', {}, D.bound[2] + ': '), `${time(D.bound[0])}, ${D.bound[1]}` + (D.default_ms && b < Infinity ? `; the best takes ${number(b * D.default_ms / D.bound[0])} of that` : '') + '.'),
      D.importance.length ? h('table', {}, h('caption', {}, 'What each tunable explains of the spread, by itself'), h('thead', {}, h('tr', {}, h('th', {scope: 'col'}, 'tunable'), h('th', {scope: 'col', class: 'num'}, 'share'), h('td', {}))), h('tbody', {}, D.importance.map(([n, v]) => h('tr', {}, h('td', {}, n), h('td', {class: 'num'}, share(v)), h('td', {}, h('span', {class: 'track'}, h('u', {class: 'f', style: `width:${100 * v}%`}))))))) : null];
  }],
  ['Rejected', () => [], () => D.reasons.length ? [h('table', {}, h('thead', {}, h('tr', {}, h('th', {scope: 'col', class: 'num'}, 'configs'), h('th', {scope: 'col'}, 'reason'))), h('tbody', {}, D.reasons.map(([text, n]) => h('tr', {}, h('td', {class: 'num'}, n), h('td', {class: 'long'}, text)))))] : [h('p', {class: 'lead'}, 'None so far.')]],
];

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
  for (const [k, set] of wanted) for (const c of set) if (current === 2) controls.querySelector(`[aria-label="${CSS.escape(D.tunables[k][0])}"]`)?.children[c + 1].setAttribute('aria-pressed', true);
  body(); bodies.scrollTop = 0;
}
const body = () => bodies.replaceChildren(...views[current][2]().flat().filter(Boolean));
function head() {
  const live = send && ['running', 'paused'].includes(D.state), b = best();
  title.replaceChildren(h('span', {class: 'state ' + D.state}, D.word), ' ', h('b', {}, D.title), D.device && quiet(' on ' + D.device));
  line.replaceChildren(...(b && !D.places.length ? [h('b', {}, than(b[2])), ' · '] : []), D.figures);
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
  const last = D.importance.map(([n]) => D.tunables.findIndex(t => t[0] === n));
  axes[0] = last[0] ?? 0; axes[1] = last[1] ?? Math.min(1, D.tunables.length - 1);
  host.attachShadow({mode: 'open'}).append(h('style', {}, D.css), h('section', {class: 'card', 'aria-label': 'tuner ' + D.title}, h('header', {}, title, buttons), line, h('div', {class: 'meter', ...hide}, meter), D.estimate && h('p', {class: 'lead warn'}, h('b', {}, 'Estimates: '), 'nothing is timed here; the kernel is compiled for a GPU that is not in this machine.'), bar, controls, bodies, note));
  note.hidden = true; made = true;
}
return data => {
  const ended = D && D.state !== data.state;
  D = data;
  if (!made) make();
  head();
  if (ended || !controls.dataset.ready) { controls.dataset.ready = 1; tab(); }
  else if (!bodies.contains(host.shadowRoot.activeElement) || host.shadowRoot.activeElement === bodies) body(); // what is being used stays
};
}
