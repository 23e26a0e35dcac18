// The tuner's panel: `panel(host, send, to)` makes it and gives the function that draws a moment of a session.
// `send` is there while somebody listens; a saved panel has none, and no buttons that act on the session. `to` is whom
// it can ask for another choice while the notebook is open. The parts up to panel.js are one function.
function panel(host, send, to) {
let D, made, chosen = null, within = null;
const wanted = new Map(), axes = [0, 1]; // wanted: tunable -> the values that are let through; within: the ratios
const right = () => D.trials.filter(t => real(t[2])), words = codes => D.tunables.map(([n, values], k) => n + '=' + values[codes[k]]).join(' ');
const best = () => right().filter(t => !D.chosen || words(t[0]) === D.chosen).reduce((b, t) => !b || t[2] < b[2] ? t : b, null); // once there is a choice, it is the choice
const than = r => (r < 1 ? fixed(1 / r) + ' times as fast as the default' : r === 1 ? 'nothing is faster than the default' : fixed(r) + " times the default's time") + (D.estimate && r !== 1 ? ', by the estimate' : '');
const status = {compile: 'does not compile', constraints: 'exceeds a limit', runtime: 'fails', correctness: 'is wrong', timeout: 'takes too long'};
const copy = (b, text) => { const shown = () => foot([h('p', {class: 'code'}, text)]); navigator.clipboard ? navigator.clipboard.writeText(text).then(() => { b.textContent = 'Copied'; }, shown) : shown(); }; // where a page may not, the text is shown
const act = (what, more) => { send({act: what, ...more}); };
const interval = (low, high) => real(low) && real(high) ? `${low.toFixed(3)} to ${high.toFixed(3)}` : '';

// ---- why a config is slow: the nearest one that is faster, and what differs between the two
function why(t) {
  const [codes, state, ratio, , reason, facts] = t;
  if (!real(ratio)) return [h('p', {}, h('b', {}, words(codes)), ' ' + (status[state] || state) + ': ' + reason)];
  const apart = o => o[0].reduce((n, c, k) => n + (c !== codes[k]), 0);
  const faster = right().filter(o => o[2] < .97 * ratio).sort((a, b) => apart(a) - apart(b) || a[2] - b[2])[0];
  const line = h('p', {}, h('b', {}, words(codes)), ` takes ${number(ratio)} of the default's time` + (D.estimate ? ', by the estimate' : '') + (reason && state === 'same' ? '; its machine code is that of ' + reason : '') + '.' + reached(t));
  if (!faster) return [line, h('p', {}, 'None that was tried is faster by 3 % or more.')];
  const change = D.tunables.map(([n, values], k) => codes[k] !== faster[0][k] && `${n} ${values[codes[k]]} → ${values[faster[0][k]]}`).filter(Boolean).join(', ');
  const other = faster[5], list = Object.keys(facts).filter(k => k in other && k !== 'work' && facts[k] !== other[k]).map(k => `${k.replaceAll('_', ' ')} ${show(facts[k])} → ${show(other[k])}`).join(', ');
  return [line, h('p', {}, `The nearest that is faster: ${change} takes ${number(faster[2] / ratio)} of its time` + (list ? ` (${list}).` : '.'))];
}
const show = x => real(x) ? number(x) : String(x);

// ---- the best beside the default, what was chosen before, a vendor's library, the device's limit
function compared() {
  const rows = D.standing, most = rows.reduce((m, r) => Math.max(m, r[3] ?? r[1]), 0);
  return rows.length > 1 && h('table', {class: 'standing'}, h('caption', {}, "Time, of the default's"), h('thead', {}, h('tr', {}, ['', 'of default', '95 % interval', 'time', ''].map((x, k) => x ? h('th', {scope: 'col', class: k > 0 && k < 4 ? 'num' : ''}, x) : h('td', {})))),
    h('tbody', {}, rows.map(([name, ratio, low, high, ms, config]) => h('tr', {class: name.startsWith('best') ? 'lit' : ''}, h('td', {}, h('b', {}, name)), h('td', {class: 'num'}, ratio.toFixed(3)), h('td', {class: 'num'}, interval(low, high)), h('td', {class: 'num'}, time(ms)),
      h('td', {class: 'long'}, h('span', {class: 'bar', ...hide}, h('u', {style: `width:${100 * ratio / most}%`}), real(low) && h('s', {style: `left:${100 * low / most}%;width:${100 * (high - low) / most}%`})), quiet(config))))));
}
function use(e, config) { // by the kernel that drew this, where it still listens; else the command is to be run
  const b = e.target, command = `${D.command} --use "${config}"`;
  if (!ask(to, command, a => { a.said ? foot([h('p', {}, a.said)]) : copy(b, command); })) copy(b, command);
}
function result() {
  const out = D.verdict.map(x => h('p', {class: 'lead'}, x)), b = best();
  out.push(...D.notes.map(x => h('p', {class: 'lead quiet'}, x)));
  if (!D.places.length) out.push(h('p', {class: 'lead'}, b ? [h('b', {}, 'Best so far: '), h('span', {class: 'code'}, words(b[0])), ' · ' + than(b[2])] : D.state === 'running' ? 'Nothing has a time yet: the default is compiled, checked and timed first.' : 'Nothing has a time.'));
  out.push(compared());
  if (D.change) out.push(h('p', {class: 'lead'}, h('b', {}, 'The change as code '), button('Copy', e => copy(e.target, D.code), {'aria-label': 'Copy the choice as code'}), ' ', button('Copy as difference', e => copy(e.target, D.change))), h('pre', {class: 'code', tabindex: 0, role: 'group', 'aria-label': 'the change as code'}, D.change.split('\n').map(l => h('span', {class: l[0] === '+' ? 'more' : 'less'}, l + '\n'))));
  if (D.places.length) out.push(h('table', {}, h('caption', {}, D.estimate ? 'The best by the estimate' : 'The final: the best, taken in turn'), h('thead', {}, h('tr', {}, ['of default', '95 % interval', 'time', 'config'].map((x, k) => h('th', {scope: 'col', class: k < 3 ? 'num' : ''}, x)), h('td', {}))),
    h('tbody', {}, D.places.map(([config, ratio, low, high, ms, mark, facts]) => h('tr', {}, h('td', {class: 'num'}, ratio.toFixed(3)), h('td', {class: 'num'}, D.estimate ? 'estimate' : interval(low, high)), h('td', {class: 'num'}, time(ms)),
      h('td', {class: 'long'}, h('span', {class: 'code'}, config), mark && quiet(' ' + mark), facts && h('div', {class: 'quiet'}, facts)), h('td', {}, D.command && (config === D.chosen ? quiet('chosen') : button('Use', e => use(e, config), {'aria-label': 'Use ' + config}))))))));
  return out;
}

// ---- two tunables against each other
function pickAxes() {
  const pick = k => h('label', {}, k ? 'across ' : 'down ', h('select', {class: 'find by', onchange: e => { axes[k] = +e.target.value; body(); }}, D.tunables.map(([n], j) => h('option', {value: j}, n))));
  const found = [pick(0), pick(1)];
  found.forEach((l, k) => l.lastChild.value = axes[k]);
  return found;
}
function map() {
  const [i, j] = axes, cells = new Map();
  for (const t of D.trials) {
    const at = t[0][i] + ',' + t[0][j], was = cells.get(at);
    if (!was || real(t[2]) && !(was[2] <= t[2])) cells.set(at, t);
  }
  const flip = i > j, never = new Map((D.never[flip ? j + ',' + i : i + ',' + j] || []).map(([a, b, text]) => [flip ? b + ',' + a : a + ',' + b, text])), b = best();
  const range = [...cells.values()].filter(t => real(t[2])).map(t => Math.log(Math.min(t[2], 4))), low = Math.min(...range), high = Math.max(...range), grid = D.tunables[i][1].map((v, a) => (i === j ? [a] : D.tunables[j][1].map((_, c) => c)).map(c => {
    const t = cells.get(a + ',' + c), no = never.get(a + ',' + c), name = `${D.tunables[i][0]} ${v}, ${D.tunables[j][0]} ${D.tunables[j][1][c]}: `;
    const text = no ? '' : !t ? '·' : real(t[2]) ? t[2].toFixed(2) : '✕', heat = t && real(t[2]) ? Math.round(45 * (high - Math.log(Math.min(t[2], 4))) / (high - low || 1)) : 0;
    const say = () => foot(no ? [h('p', {}, name + 'no config: ' + no)] : t ? why(t) : [h('p', {}, name + 'not tried')]);
    return h('button', {type: 'button', tabindex: -1, class: 'cell' + (no ? ' never' : !t ? ' open' : real(t[2]) ? t === b ? ' top' : '' : ' flag'), style: `--heat:${heat}%`, 'aria-label': name + (no ? 'no config' : !t ? 'not tried' : real(t[2]) ? t[2].toFixed(2) + " of the default's time" + (t === b ? ', the best' : '') : t[4]), onclick: say, onfocus: say}, text);
  }));
  const move = e => {
    const a = grid.findIndex(row => row.includes(e.target)), c = a < 0 ? 0 : grid[a].indexOf(e.target), [da, dc] = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[e.key] || [0, 0];
    const to = a >= 0 && (da || dc) && grid[a + da]?.[c + dc];
    if (to) { e.preventDefault(); rove(e.target, to, bodies); }
  };
  grid[0][0].tabIndex = 0;
  const none = grid.flat().some(c => c.matches('.never')), bad = grid.flat().some(c => c.matches('.flag')), key = (cls, sign, text) => h('span', {class: 'legend'}, h('span', {class: 'key ' + cls}, sign), text);
  return [h('p', {class: 'lead'}, h('b', {}, "Best time found, of the default's"), quiet(' · the darker, the faster; a cell is the best of all configs tried that have its two values. Choose one to read why it is slow.')),
    h('table', {class: 'map', onkeydown: move}, h('thead', {}, h('tr', {}, h('td', {}), (i === j ? [''] : D.tunables[j][1]).map(v => h('th', {scope: 'col'}, v)))),
      h('tbody', {}, grid.map((row, a) => h('tr', {}, h('th', {scope: 'row'}, D.tunables[i][1][a]), row.map(c => h('td', {}, c)))))), h('p', {class: 'lead'}, b && key('top', '', 'the best'), none && key('never', '', 'no config can be'), bad && key('flag', '✕', 'failed'), key('open', '·', 'not tried'))];
}
