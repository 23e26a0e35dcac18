// The live card: replaces the still one inside its <div class="gradlab-card"> once this script runs.
// Everything in the data is untrusted text: it reaches the page by textContent and setAttribute alone.
(() => {
const script = document.currentScript;
for (const root of script ? [script.parentElement] : document.querySelectorAll('.gradlab-card:not([data-live])')) {
  try { card(root); root.dataset.live = 1; } catch (error) { console.error('gradlab card:', error); }
}

function card(root) {
const D = JSON.parse(root.querySelector('script[type="application/json"]').textContent), {head, views, layouts, home} = D;
// Rows come as arrays, their names once; a name that starts with $ says that the value is a number of D.strings.
const rows = (table, keys = D.keys[table], list = D[table]) => list.map(r => Object.fromEntries(keys.map((k, i) => k[0] === '$' ? [k.slice(1), D.strings[r[i]]] : [k, r[i]])));
const ops = rows('ops'), tensors = rows('tensors'), lines = rows('lines'), gradients = rows('gradients'), kernels = rows('kernels'), byOp = rows('by_op'), findings = rows('findings');
for (const v of views) v.items = rows('', D.keys.items, v.items).map(it => it.kind === 'op' ? {...it, forward: ops[it.index].forward, backward: ops[it.index].backward, flags: ops[it.index].flags} : it);
const CUT = 1, UNREACHED = 8, ICON = {error: '✕', warning: '▲', note: '●'}, WORD = {error: 'Error', warning: 'Warning', note: 'Note'};

// ---- small tools
const add = (e, attributes, kids) => {
  for (const k in attributes) k.startsWith('on') ? e[k] = attributes[k] : e.setAttribute(k, attributes[k]);
  e.append(...kids.flat(3).filter(Boolean)); return e;
};
const h = (tag, attributes, ...kids) => add(document.createElement(tag), attributes, kids);
const s = (tag, attributes, ...kids) => add(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, kids);
const button = (text, onclick, more) => h('button', {type: 'button', class: 'link', onclick, ...more}, text);
const real = x => typeof x === 'number';
const fixed = x => x.toFixed(Math.max(0, 2 - Math.floor(Math.log10(Math.abs(x)))));
const number = x => !real(x) ? x ?? '' : !x ? '0' : Math.abs(x) < 1e-3 || Math.abs(x) >= 1e4 ? x.toExponential(2) : fixed(x);
const time = x => !real(x) ? x ?? '' : x >= 1e3 ? fixed(x / 1e3) + ' s' : x >= 1 ? fixed(x) + ' ms' : x >= .001 ? fixed(x * 1e3) + ' µs' : x ? (x * 1e3).toFixed(1) + ' µs' : '0 ms';
const share = x => !real(x) ? x ?? '' : x > 0 && x < .001 ? '<0.1 %' : +(100 * x).toPrecision(3) + ' %';
const whole = n => n.toLocaleString('en'), count = (n, noun) => `${whole(n)} ${noun}${n === 1 ? '' : 's'}`;
const sum = (list, k) => list.reduce((t, r) => t + (+r[k] || 0), 0), both = r => (+r.forward || 0) + (+r.backward || 0);
const top = (list, f) => list.reduce((m, r) => Math.max(m, +f(r) || 0), 0) || 1;
const quiet = words => h('span', {class: 'quiet'}, words), hide = {'aria-hidden': 'true'}, swatch = c => h('i', {class: c, ...hide});
const nearest = (box, e) => { // scrolls inside the card alone: scrollIntoView would move the notebook
  const a = box.getBoundingClientRect(), b = e.getBoundingClientRect();
  if (b.top < a.top || b.bottom > a.bottom) box.scrollTop += b.top - a.top - (a.height - b.height) / 2;
  if (b.left < a.left || b.right > a.right) box.scrollLeft += b.left - a.left - (a.width - b.width) / 2;
};
const rove = (from, to, box) => { from.setAttribute('tabindex', -1); to.setAttribute('tabindex', 0); to.focus({preventScroll: true}); nearest(box, to); };

// ---- what is lit: ops, lines and parameters, in every view at once
const byLine = k => ops.flatMap((o, i) => o.line === k && !o.file ? [i] : []);
const choice = (list, line, names = []) => ({ops: new Set(list), lines: new Set(line ? [line] : []), names: new Set(names)});
let pinned = choice([]), shown = 0, nodes = [], gradientRows = [];
function lift(op, view) { // the box of `view` that holds an op
  let [v, k] = home[op];
  while (v !== view) { if (!views[v].up) return -1; [v, k] = views[v].up; }
  return k;
}
function light(what) {
  const boxes = new Set([...what.ops].map(o => lift(o, shown))), one = what.ops.size === 1 ? ops[[...what.ops][0]] : 0;
  nodes.forEach((n, k) => n.classList.toggle('lit', boxes.has(k)));
  lineRows.forEach((r, k) => {
    r.classList.toggle('lit', what.lines.has(k + 1));
    const mark = one && !one.file && one.line === k + 1 ? one : 0;
    if (r.mark !== mark) { r.mark = mark; r.children[1].replaceChildren(...paint(k, mark)); }
  });
  for (const r of gradientRows) r[1].classList.toggle('lit', what.names.has(r[0].name));
}
const pin = what => light(pinned = what), rest = () => light(pinned);
function reveal(list, line, names) { // a finding's link: its line, and its ops in the graph
  pinned = choice(list.length ? list : byLine(line), line, names); tab(0);
  const [first] = pinned.ops;
  first === undefined ? rest() : show(home[first][0], home[first][1]);
  if (lineRows[line - 1]) nearest(source.parentElement, lineRows[line - 1]);
}

// ---- header and findings
const figure = (name, value, c) => h('span', {}, c && swatch(c), quiet(name + ' '), h('b', {}, value)), ran = sum(ops, 'count');
const header = h('header', {}, h('span', {class: 'title'}, head.title || 'autograd'), h('span', {}, h('b', {}, whole(ops.length)), quiet((ops.length === 1 ? ' op' : ' ops') + (ran > ops.length ? `, ran ${whole(ran)} times` : ''))),
  figure('forward', time(head.forward), 'f'), figure('backward', time(head.backward), 'b'), figure('update', time(head.update)), head.wall && figure('wall', time(head.wall)), h('span', {class: 'quiet end'}, head.device));
const prose = text => { const parts = text.split('`'); return parts.length % 2 ? parts.map((t, i) => i % 2 ? h('span', {class: 'code'}, t) : t) : text; }; // what stands between backticks is code
function problem(severity, text, line, remedy, go, extra) {
  const words = 'line ' + line, at = line ? text.search(new RegExp(`\\b${words}\\b`, 'i')) : -1, end = at + words.length;
  return h('li', {class: severity}, h('span', {class: 'word'}, `${ICON[severity]} ${WORD[severity]}`), h('div', {}, h('div', {class: 'message'}, !line ? prose(text) : at < 0 ? [button(words, go), ': ', prose(text)] : [prose(text.slice(0, at)), button(text.slice(at, end), go), prose(text.slice(end))]), (remedy || extra) && h('div', {class: 'remedy'}, prose(remedy), ' ', extra)));
}
const list = h('ul', {class: 'findings', 'aria-label': 'findings'}), {error} = D;
const stopped = () => reveal(D.failed, error.line);
if (error) list.append(problem('error', error.type + (error.message && ': ' + error.message), error.line, D.partial, stopped));
const problems = findings.map(f => problem(WORD[f.severity] ? f.severity : 'note', f.message, f.line, f.remedy, () => reveal(f.ops, f.line, f.parameters), f.parameters.length && button(`show ${count(f.parameters.length, 'parameter')}`, () => {
  tab(1); pin(choice(f.ops, f.line, f.parameters));
  const r = gradientRows.find(r => pinned.names.has(r[0].name)); if (r) nearest(panels[1].firstChild, r[1]);
})));
list.append(...problems.slice(0, 5));
if (problems[5]) list.append(h('li', {class: 'none'}, button(`and ${problems.length - 5} more`, e => e.target.parentElement.replaceWith(...problems.slice(5)))));
if (!list.firstChild) list.append(h('li', {class: 'none'}, ops.length || head.backward ? '✓ No problems found.' : 'No operation ran in this cell.'));

// ---- source
function tint(k, from, to) { // a piece of line k with its colours, which Python's tokenizer found
  const text = D.source[k], out = []; let at = from;
  for (let [start, end, kind] of D.colours[k] || []) {
    start = Math.max(start, at); end = Math.min(end, to);
    if (start < end) { out.push(text.slice(at, start), h('span', {class: kind}, text.slice(start, end))); at = end; }
  }
  return [...out, text.slice(at, to)];
}
function paint(k, op) { // line k, with the expression of one op marked
  const text = D.source[k], code = op ? op.code.split('\n')[0] : '', at = code ? text.indexOf(code, text.startsWith(code, op.col) ? op.col : 0) : -1, end = at + code.length;
  return at < 0 ? tint(k, 0, text.length) : [...tint(k, 0, at), h('mark', {}, ...tint(k, at, end)), ...tint(k, end, text.length)];
}
const longest = top(lines, l => Math.max(l.forward, l.backward)), worst = new Map(), said = h('div', {class: 'foot', 'aria-live': 'polite'});
for (const f of findings) if (worst.get(f.line) !== 'error') worst.set(f.line, WORD[f.severity] ? f.severity : 'note');
if (error) worst.set(error.line, 'error');
const lineRows = D.source.map((text, k) => {
  const l = lines.find(l => l.line === k + 1), bad = worst.get(k + 1), words = `line ${k + 1}: ` + (l ? `forward ${time(l.forward)}, backward ${time(l.backward)}, ${count(l.count, 'run')}` : 'no op ran');
  const on = () => { light(choice(byLine(k + 1), k + 1)); said.textContent = words; }, off = () => { rest(); said.textContent = D.hint; };
  const bar = c => h('u', {class: c[0], style: `width:${l[c] && Math.max(2, 100 * l[c] / longest)}%`});
  return h('div', {role: 'option', tabindex: k ? -1 : 0, class: bad || '', 'aria-label': `${words}${bad ? ', ' + bad : ''}. ${text}`, onmouseenter: on, onmouseleave: off, onfocus: on, onblur: off, onclick: () => {
    const mine = byLine(k + 1); pinned = choice(mine, k + 1); tab(0);
    mine.length && mine.every(o => lift(o, shown) < 0) ? show(home[mine[0]][0]) : rest();
  }}, h('span', {class: 'n'}, bad && h('b', hide, ICON[bad] + ' '), k + 1), h('span', {class: 't'}, paint(k)), h('span', {class: 'bars'}, l && [bar('forward'), bar('backward')]), h('span', {class: 'ms'}, l && time(both(l))));
});
const source = h('div', {class: 'lines', role: 'listbox', 'aria-label': 'source with times', onkeydown: e => {
  const step = {ArrowDown: 1, ArrowUp: -1}[e.key], to = lineRows[lineRows.indexOf(e.target) + step];
  if (to) rove(e.target, to, source.parentElement);
  if (e.key === 'Enter') e.target.click(); else if (!step) return;
  e.preventDefault();
}}, lineRows);
said.textContent = D.hint;

// ---- graph
const crumbs = h('nav', {class: 'bar crumbs', 'aria-label': 'modules'}), canvas = h('div', {class: 'scroll'}), details = h('div', {class: 'foot details', 'aria-live': 'polite'});
const enter = (v, k) => { show(v, k); nodes[k].focus({preventScroll: true}); };
function show(v, focus = -1) {
  const view = views[v], {items} = view, {w, h: height, b, r} = layouts[view.layout], most = top(items, both), path = [];
  const scale = Math.max(.78, Math.min(1, (canvas.clientWidth - 16) / (w + 24) || 1));
  const svg = s('svg', {width: (w + 24) * scale, height: (height + 30) * scale, viewBox: `-12 -14 ${w + 24} ${height + 30}`, role: 'group', 'aria-label': `graph ${view.label}, ${count(items.length, 'item')}`});
  r.forEach((p, e) => {
    const [u, t] = view.edges[e].map(k => items[k].flags), n = p.length, kind = (u | t) & CUT ? ' cut' : u & t & UNREACHED ? ' unreached' : '';
    let d = `M${p[0]} ${p[1]}`;
    for (let i = 2; i < n; i += 2) { const m = (p[i - 1] + p[i + 1]) / 2; d += p[i] === p[i - 2] ? 'V' + p[i + 1] : `C${p[i - 2]} ${m} ${p[i]} ${m} ${p[i]} ${p[i + 1]}`; }
    svg.append(s('path', {class: 'edge' + kind, d}), s('path', {class: 'tip' + kind, d: `M${p[n - 2]} ${p[n - 1]}l-3.5 ${p[n - 1] > p[n - 3] ? -6 : 6}h7z`}));
  });
  shown = v; nodes = items.map((it, k) => node(it, k, b.slice(4 * k, 4 * k + 4), most, v)); svg.append(...nodes);
  for (let at = v, k; at >= 0; [at, k] = views[at].up || [-1]) { // k: the box of `at` that leads to where we are
    const to = [at, k], name = views[at].label || 'cell';
    path.unshift(at === v ? h('b', {'aria-current': 'true'}, name) : button(name, () => enter(...to)), '›');
  }
  crumbs.replaceChildren(...path.slice(0, -1), h('span', {class: 'end'}, view.note, `bar: time, longest ${time(most)}`));
  canvas.replaceChildren(items.length ? svg : '');
  rest();
  if (nodes[focus]) { nodes[0].setAttribute('tabindex', -1); nodes[focus].setAttribute('tabindex', 0); tell(items[focus]); nearest(canvas, nodes[focus]); } else { canvas.scrollTop = 0; details.replaceChildren(D.help); }
}
function node(it, k, [x, y, w, height], most, v) {
  const {kind, flags, badge} = it, f = +it.forward || 0, b = +it.backward || 0, l = -w / 2, t = -height / 2, group = kind === 'group';
  const say = [it.label, it.detail, it.place, f + b && `forward ${time(f)}, backward ${time(b)}`, badge.slice(2), flags & UNREACHED && D.reached, ...it.chips.map(c => D.strings[c[0]]), group && 'Enter opens'];
  const g = s('g', {class: `node ${kind} ${it.marks}`, transform: `translate(${x} ${y})`, tabindex: k ? -1 : 0, role: 'button', 'aria-label': say.filter(Boolean).join(', ')});
  const text = (cls, dx, dy, words) => g.append(s('text', {class: cls, x: dx, y: dy}, words)), rect = (cls, dx, dy, width, high, rx, more) => s('rect', {class: cls, x: dx, y: dy, width, height: high, rx, ...more});
  const pill = (cls, dx, dy, wide, words) => g.append(s('g', {class: cls}, rect('', dx, dy, wide, 16, 8), s('text', {x: dx + wide / 2, y: dy + 12}, words)));
  if (group) g.append(rect('box', l + 4, t + 4, w, height, 5));
  g.append(rect('ring', l - 4, t - 4, w + 8, height + 8, 8), rect('box', l, t, w, height, kind === 'port' ? 11 : 5, {style: `--heat:${Math.round(24 * (f + b) / most)}%`}));
  if (kind === 'port') text('label', 0, 4, it.label);
  else {
    text('label', l + 10, t + 16, it.label); text('time', -l - 10, t + 16, f + b && time(f + b)); text('detail', l + 10, t + 31, it.detail); text('place', -l - 10, t + 31, it.place);
    let at = l + 8;
    for (const [id, dead] of it.chips) { const words = D.strings[id], wide = 5.6 * words.length + 14; pill(dead ? 'chip dead' : 'chip', at, t + 37, wide, words); at += wide + 5; }
    const unit = (w - 20) / most;
    if (f * unit > .4) g.append(rect('f', l + 10, -t - 6, f * unit, 3, 1));
    if (b * unit > .4) g.append(rect('b', l + 10 + f * unit, -t - 6, b * unit, 3, 1));
  }
  if (badge) { const wide = 6.2 * badge.length + 12; pill('badge', -l - wide - 6, t - 11, wide, badge); }
  const mine = () => { const list = kind === 'op' ? [it.index] : group ? [...ops.keys()].filter(o => lift(o, v) === k) : [], what = choice(list); for (const o of list) if (!ops[o].file) what.lines.add(ops[o].line); return what; };
  const open = () => { if (group) enter(it.index, views[it.index].first); else if (kind === 'port') reveal([it.index]); else { pin(mine()); tell(it); } };
  g.onmouseenter = () => light(mine()); g.onmouseleave = g.onblur = rest; g.onclick = open;
  g.onfocus = () => { light(mine()); tell(it); };
  g.onkeydown = e => {
    const up = views[v].up, way = {ArrowDown: [0, 1], ArrowUp: [0, -1], ArrowRight: [1, 0], ArrowLeft: [-1, 0]}[e.key];
    if (e.key === 'Enter' || e.key === ' ') open();
    else if (e.key === 'Escape') up ? enter(...up) : pin(choice([]));
    else if (way) { // the nearest box that way
      const B = layouts[views[v].layout].b, far = j => { const dx = B[4 * j] - x, dy = B[4 * j + 1] - y, along = dx * way[0] + dy * way[1]; return along > 4 ? along + 2.5 * Math.abs(dx * way[1] + dy * way[0]) : Infinity; };
      const best = nodes.reduce((m, _, j) => far(j) < far(m) ? j : m, k);
      if (best !== k) rove(g, nodes[best], canvas);
    } else return;
    e.preventDefault();
  };
  return g;
}
function tell(it) {
  const pair = (name, value) => value && h('span', {}, name && name + ' ', h('b', {}, value)), times = r => [pair('forward', time(r.forward)), pair('backward', time(r.backward))], wide = (...kids) => h('span', {class: 'wide'}, ...kids);
  const say = (...kids) => details.replaceChildren(...kids.flat().filter(Boolean)), reads = i => i < 0 ? `${tensors[~i].name || tensors[~i].kind} ${tensors[~i].shape}` : `${ops[i].op} ${ops[i].shape}`;
  if (it.kind === 'leaf') { const t = tensors[it.index]; return say(pair('', t.name), pair(t.kind, t.shape), pair('', t.dtype), pair('requires grad', t.requires_grad ? 'yes' : 'no')); }
  if (it.kind === 'group') return say(pair('', it.label), pair('', it.detail), times(it), 'Enter opens it');
  const o = ops[it.index], [low, high, mean, std, zeros, bad] = o.stats || [];
  say(pair('', o.op + (o.count > 1 ? ' ×' + whole(o.count) : '')), pair('kernel', o.kernel && `${o.kernel}, ${o.backend}`), pair('output', `${o.shape} ${o.dtype}`), pair('size', o.size_bytes && number(o.size_bytes / 1024) + ' KB'), times(o), o.count > 1 && pair('slowest run', time(o.slowest)),
    pair('gradient', o.flags & CUT ? 'cut here' : !o.requires_grad ? 'not required' : o.flags & UNREACHED ? D.reached : 'yes'), pair('module', o.module),
    o.stats && wide('values ', h('b', {}, `${number(low)} … ${number(high)}`), ` · mean ${number(mean)} · std ${number(std)} · zeros ${share(zeros)}`, bad && h('b', {class: 'flag'}, ` · ${whole(bad)} NaN or infinite`)),
    wide([o.file, o.line && 'line ' + o.line].filter(Boolean).join(', '), ' ', h('span', {class: 'code'}, o.code), o.reads.length && ' · reads ' + o.reads.map(reads).join(', ')));
}

// ---- tables: a column is [title, its cell, what it sorts by (or a key), "text" if it is no figure]
function table(caption, columns, data, {total, onrow, start} = {}) {
  const LIMIT = 300, body = h('tbody', {}), more = h('div', {class: 'more'}), cls = k => ({class: columns[k][3] || 'num'}), figures = k => columns[k][3] ? {} : cls(k), value = (d, k) => { const by = columns[k][2], x = typeof by === 'string' ? d[by] : by(d); return columns[k][3] || real(x) ? x : null; };
  let all = data.length <= LIMIT, order = [], made = data.map(d => { const tr = h('tr', {}, columns.map((c, k) => h('td', cls(k), c[1](d)))); onrow?.(d, tr); return [d, tr]; });
  const fill = () => { body.replaceChildren(...made.slice(0, all ? made.length : LIMIT).flatMap(m => m[1].open ? [m[1], m[1].open] : [m[1]])); more.replaceChildren(all ? '' : button(`and ${whole(made.length - LIMIT)} more: show all`, () => { all = true; fill(); })); };
  const heads = columns.map((c, k) => h('th', {scope: 'col', ...figures(k)}, c[2] ? h('button', {type: 'button', onclick: () => by(k)}, c[0], h('span', hide)) : c[0]));
  function by(k) {
    const down = order[0] === k ? !order[1] : !columns[k][3], sign = down ? -1 : 1; order = [k, down];
    made.sort(([a], [b]) => { const x = value(a, k), y = value(b, k); return (x === null) - (y === null) || (x === y ? 0 : x < y ? -sign : sign); });
    heads.forEach((th, j) => { if (columns[j][2]) { th.setAttribute('aria-sort', j !== k ? 'none' : down ? 'descending' : 'ascending'); th.firstChild.lastChild.textContent = j !== k ? '' : down ? ' ↓' : ' ↑'; } });
    fill();
  }
  start ? by(start) : fill();
  return [h('table', {}, h('caption', {}, caption), h('thead', {}, h('tr', {}, heads)), body, total && h('tfoot', {}, h('tr', {}, total.map((t, k) => h('td', figures(k), t))))), more];
}
const track = parts => h('span', {class: 'track', ...hide}, parts.map(([c, x]) => x > 0 && h('u', {class: c, style: `width:${100 * x}%`})));
const SAID = {none: 'no gradient', zero: 'all zero', nan: 'NaN'};
function histogram(g) {
  const most = Math.max(...g.histogram, 1), svg = s('svg', {viewBox: '0 0 528 96', width: 528, height: 96, role: 'img', 'aria-label': 'histogram of log2 |gradient|'});
  g.histogram.forEach((n, i) => { const high = n && Math.max(1, 72 * n / most); svg.append(s('rect', {class: 'f', x: 8 + 8 * i, y: 76 - high, width: 7, height: high})); });
  svg.append(s('path', {class: 'edge', d: 'M8 76.5H520'}));
  for (let e = -40; e <= 24; e += 8) svg.append(s('text', {x: 328 + 8 * e, y: 92}, '2', s('tspan', {dy: -4, 'font-size': 8}, '' + e)));
  return [h('div', {class: 'quiet'}, `Elements by power of two of |gradient|. Largest ${number(g.max_abs)}, weights' rms ${number(g.weight_rms)}, accumulated ${count(g.count, 'time')}${g.nonfinite ? ', NaN or infinite ' + whole(g.nonfinite) : ''}.`), svg];
}
function gradientTable() {
  const log = g => real(g.rms) && g.rms > 0 ? Math.log10(g.rms) : null, logs = gradients.map(log).filter(real), low = Math.floor(Math.min(...logs, 0)) - 1, high = Math.max(Math.ceil(Math.max(...logs, low)), low + 3);
  const flags = g => g.norm === null ? [SAID.none] : g.flags.map(f => SAID[f] || f), plain = (title, k, write = number) => [title, g => write(g[k]), k];
  const note = g => { const f = findings.find(f => f.line && f.parameters.includes(g.name)), go = e => { e.stopPropagation(); reveal(f.ops, f.line, f.parameters); }; return [h('span', {class: 'flag'}, flags(g).join(', ')), f && [' ', button('line ' + f.line, go)]]; };
  return table('', [['parameter', g => h('button', {type: 'button', 'aria-expanded': 'false'}, g.name), 'name', 'code'], ['note', note, g => flags(g).join(), 'text'], ['shape', g => g.shape, 'shape', 'text'], plain('norm', 'norm'), plain('rms', 'rms'), [`1e${low} … 1e${high}`, g => log(g) !== null && track([['f', Math.max(.02, (log(g) - low) / (high - low))]]), 0, 'text'],
    plain('mean', 'mean'), plain('std', 'std'), plain('zeros', 'zeros', share), plain(['update /', h('br', {}), 'weight'], 'update_ratio')], gradients, {onrow: (g, tr) => {
    gradientRows.push([g, tr]);
    tr.onclick = () => {
      tr.querySelector('[aria-expanded]').setAttribute('aria-expanded', !tr.open);
      if (tr.open) { tr.open.remove(); tr.open = null; } else tr.after(tr.open = h('tr', {}, h('td', {class: 'open', colspan: 10}, g.norm === null ? D.unreached : histogram(g))));
    };
  }});
}
function timingTables() {
  const ms = list => { const m = top(list, both), n = m >= 100 ? 1 : m >= 10 ? 2 : 3; return x => real(x) ? x.toFixed(n) : x ?? ''; };
  const spans = (list, one) => { const m = top(list, both), w = ms(list); return [[['runs', d => whole(d.count), 'count'], [one ? 'total ms' : 'forward ms', d => w(d.forward), 'forward'], ...(one ? [] : [['backward ms', d => w(d.backward), 'backward'], ['sum ms', d => w(both(d)), both]]), ['', d => track([['f', d.forward / m], ['b', d.backward / m]]), 0, 'text']], [whole(sum(list, 'count')), w(sum(list, 'forward')), ...(one ? [] : [w(sum(list, 'backward')), w(sum(list, 'forward') + sum(list, 'backward'))]), '']]; };
  const name = (k, cls) => [k, d => d[k], k, cls], [a, aSum] = spans(lines), [b, bSum] = spans(byOp), [c, cSum] = spans(kernels, 1), rate = d => real(d.bytes_per_s) ? d.bytes_per_s < 1e8 ? '<0.1' : (d.bytes_per_s / 1e9).toFixed(1) : '';
  return [table('By line', [['line', d => button(d.line, () => reveal([], d.line)), 'line'], ['source', d => (D.source[d.line - 1] || '').trim(), 0, 'code long'], ...a], lines, {total: ['', 'all lines', ...aSum]}),
    table('By op', [name('op', 'code'), ...b], byOp, {total: ['all ops', ...bSum], start: 4}),
    table('By kernel', [name('kernel', 'code'), name('backend', 'text'), ...c, ['mean', d => time(d.mean_us / 1e3), 'mean_us'], ['GB/s', rate, 'bytes_per_s']], kernels, {total: ['all kernels', '', ...cSum, '', ''], start: 3})].flat();
}

// ---- tabs and the whole
const names = ['Graph', `Gradients (${gradients.length})`, 'Timings'], fresh = [0, () => gradients.length ? gradientTable() : ['No parameter took part.'], timingTables];
const panels = names.map((_, k) => h('div', {role: 'tabpanel', id: 'p' + k, 'aria-labelledby': 't' + k}, k ? h('div', {class: 'scroll', tabindex: 0}) : [crumbs, canvas, details]));
const tabs = names.map((name, k) => h('button', {type: 'button', role: 'tab', id: 't' + k, 'aria-controls': 'p' + k, onclick: () => tab(k)}, name));
function tab(k) {
  if (fresh[k]) { panels[k].firstChild.append(...fresh[k]()); fresh[k] = 0; rest(); }
  tabs.forEach((t, j) => { t.setAttribute('aria-selected', j === k); t.tabIndex = j === k ? 0 : -1; panels[j].hidden = j !== k; });
}
const bar = h('div', {role: 'tablist', 'aria-label': 'views', onkeydown: e => {
  const k = tabs.indexOf(e.target), to = {ArrowRight: (k + 1) % 3, ArrowLeft: (k + 2) % 3, Home: 0, End: 2}[e.key];
  if (to >= 0) { e.preventDefault(); tab(to); tabs[to].focus(); }
}}, tabs);
tab(0);
// Without this, Enter, Esc and the arrows would be the notebook's.
const host = h('div', {'data-lm-suppress-shortcuts': 'true', onkeydown: e => { if (!e.ctrlKey && !e.metaKey && !e.altKey) e.stopPropagation(); }});
const tall = Math.max(20 * lineRows.length + 90, layouts[views[0].layout].h + 150);
host.attachShadow({mode: 'open'}).append(h('style', {}, D.css), h('section', {class: 'card', 'aria-label': 'autograd card ' + head.title}, header, list,
  h('div', {class: 'body', style: `--tall:${Math.max(320, Math.min(520, tall))}px`}, h('div', {class: 'pane source'}, h('div', {class: 'bar'}, 'Source', h('span', {class: 'end'}, swatch('f'), 'forward'), h('span', {}, swatch('b'), 'backward')), h('div', {class: 'scroll'}, source), said), h('div', {class: 'pane'}, bar, panels))));
root.querySelector('.gradlab-still').replaceWith(host);
show(0);
const [first] = findings; // the first glance: what is wrong, on which line, at which box
if (error) stopped(); else if (first) reveal(first.ops, first.line, first.parameters);
}
})();
