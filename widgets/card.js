// The live card: replaces the still one inside its <div class="gradlab-card"> once this script runs.
// Everything in the data is untrusted text: it reaches the page by textContent and setAttribute alone.
(() => {
const self = document.currentScript;
for (const root of self ? [self.parentElement] : document.querySelectorAll('.gradlab-card:not([data-live])')) {
  try { card(root); root.dataset.live = 1; } catch (error) { console.error('gradlab card:', error); }
}

function card(root) {
const D = JSON.parse(root.querySelector('script[type="application/json"]').textContent);
const {strings, ops, tensors, lines, gradients, kernels, findings, views, layouts, home, head} = D;
const CUT = 1, NAN = 2, ERROR = 4, UNREACHED = 8;
const ICON = {error: '✕', warning: '▲', note: '●'}, WORD = {error: 'Error', warning: 'Warning', note: 'Note'};

// ---- small tools
const add = (e, attributes, kids) => {
  for (const k in attributes) k[0] === 'o' && k[1] === 'n' ? e[k] = attributes[k] : attributes[k] !== null && e.setAttribute(k, attributes[k]);
  e.append(...kids.flat().filter(k => k !== null && k !== undefined)); return e;
};
const h = (tag, attributes = {}, ...kids) => add(document.createElement(tag), attributes, kids);
const s = (tag, attributes = {}, ...kids) => add(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, kids);
const button = (text, onclick, more = {}) => h('button', {type: 'button', class: 'link', onclick, ...more}, text);
const real = x => typeof x === 'number';
const digits = (x, n = 3) => x.toFixed(Math.max(0, n - 1 - Math.max(0, Math.floor(Math.log10(Math.abs(x) || 1)))));
const number = x => !real(x) ? x ?? '' : x === 0 ? '0' : Math.abs(x) < 1e-3 || Math.abs(x) >= 1e4 ? x.toExponential(2) : x.toFixed(Math.max(0, 2 - Math.floor(Math.log10(Math.abs(x)))));
const time = x => !real(x) ? x ?? '' : x >= 1000 ? digits(x / 1000) + ' s' : x >= 1 ? digits(x) + ' ms' : x ? (x < .001 ? (x * 1000).toFixed(1) : digits(x * 1000)) + ' µs' : '0 ms';
const share = x => !real(x) ? x ?? '' : x > 0 && x < .001 ? '<0.1 %' : +(100 * x).toPrecision(3) + ' %';
const bytes = n => n < 1024 ? n + ' B' : n < 1048576 ? (n / 1024).toFixed(1) + ' KB' : (n / 1048576).toFixed(1) + ' MB';
const count = (n, noun) => `${n.toLocaleString('en')} ${noun}${n === 1 ? '' : 's'}`;
const sum = (rows, k) => rows.reduce((t, r) => t + (+r[k] || 0), 0);
const top = (rows, f) => rows.reduce((m, r) => Math.max(m, +f(r) || 0), 0) || 1;
const swatch = (kind, text) => h('span', {}, h('i', {class: kind, 'aria-hidden': 'true'}), text);

// ---- what is chosen: ops and lines, in every view at once
let pinned = {ops: new Set(), lines: new Set(), parameters: new Set()}, shown = -1, nodes = [], selected = -1;
const byLine = new Map();
ops.forEach((o, i) => { if (!strings[o[6]] && o[2]) (byLine.get(o[2]) || byLine.set(o[2], []).get(o[2])).push(i); });
const choice = (list, line, parameters = []) => ({ops: new Set(list), lines: new Set(line ? [line] : []), parameters: new Set(parameters)});
function lift(op, view) { // the box of `view` that holds an op
  let [v, k] = home[op] || [-1, -1];
  while (v > view || (v >= 0 && v !== view)) { const up = views[v].up; if (!up) return -1; [v, k] = up; }
  return v === view ? k : -1;
}
function light(what) {
  const boxes = new Set([...what.ops].map(o => lift(o, shown)));
  nodes.forEach((n, k) => n.classList.toggle('lit', boxes.has(k)));
  const one = what.ops.size === 1 ? ops[[...what.ops][0]] : null;
  rows.forEach((r, k) => {
    r.classList.toggle('lit', what.lines.has(k + 1));
    const marked = one && !strings[one[6]] && one[2] === k + 1 ? one : null;
    if (r.marked !== marked) { r.marked = marked; r.children[1].replaceChildren(...paint(k, marked)); }
  });
  for (const r of gradientRows) r[1].classList.toggle('lit', what.parameters.has(r[0]));
}
const pin = what => { pinned = what; light(what); };
const rest = () => light(pinned);
function reveal(list, line, parameters) { // a finding's link: its line, and the graph where its ops are
  pinned = choice(list.length ? list : byLine.get(line) || [], line, parameters);
  tab(0);
  const first = [...pinned.ops].find(o => home[o]);
  if (first !== undefined) show(home[first][0], lift(first, home[first][0]));
  rest();
  if (rows[line - 1]) nearest(rows[line - 1].parentElement.parentElement, rows[line - 1]);
}
function nearest(box, e) { // scrolls inside the card alone: scrollIntoView would move the notebook
  const a = box.getBoundingClientRect(), b = e.getBoundingClientRect();
  if (b.top < a.top || b.bottom > a.bottom) box.scrollTop += b.top - a.top - (a.height - b.height) / 2;
  if (b.left < a.left || b.right > a.right) box.scrollLeft += b.left - a.left - (a.width - b.width) / 2;
}

// ---- header and findings
const figure = (name, value, kind) => h('span', {}, kind ? h('i', {class: kind, 'aria-hidden': 'true'}) : null, h('span', {class: 'quiet'}, name + ' '), h('b', {}, value));
const runs = sum(ops, 1);
const header = h('header', {}, h('span', {class: 'title'}, head.title || 'autograd'), h('span', {}, h('b', {}, ops.length.toLocaleString('en')), h('span', {class: 'quiet'}, (ops.length === 1 ? ' op' : ' ops') + (runs > ops.length ? `, ran ${runs.toLocaleString('en')} times` : ''))),
  figure('forward', time(head.forward), 'f'), figure('backward', time(head.backward), 'b'), figure('update', time(head.update)), figure('wall', time(head.wall)), h('span', {class: 'quiet end'}, head.device));
function sentence(text, line, go) {
  const at = line ? text.search(new RegExp(`\\bline ${line}\\b`, 'i')) : -1, long = `line ${line}`.length;
  return !line ? [text] : at < 0 ? [button('line ' + line, go), ': ' + text] : [text.slice(0, at), button(text.slice(at, at + long), go), text.slice(at + long)];
}
const problem = (severity, text, line, remedy, go, extra) => h('li', {class: severity}, h('span', {class: 'word'}, `${ICON[severity]} ${WORD[severity]}`),
  h('div', {}, h('div', {class: 'message'}, ...sentence(text, line, go)), remedy || extra ? h('div', {class: 'remedy'}, remedy, extra) : null));
const list = h('ul', {class: 'findings', 'aria-label': 'findings'});
const failed = ops.flatMap((o, i) => o[20] & ERROR ? [i] : []);
if (D.error) list.append(problem('error', `${D.error.type}${D.error.message ? ': ' + D.error.message : ''}`, D.error.line, 'The cell stopped here, so this card is partial: it shows what ran before.', () => reveal(failed, D.error.line)));
const problems = findings.map(f => {
  const go = () => reveal(f.ops, f.line, f.parameters);
  return problem(WORD[f.severity] ? f.severity : 'note', f.message, f.line, f.remedy, go, f.parameters.length ? button(`show ${count(f.parameters.length, 'parameter')}`, () => { tab(1); pin(choice(f.ops, f.line, f.parameters)); const r = gradientRows.find(r => r[1].matches('.lit')); if (r) nearest(panels[1].firstChild, r[1]); }) : null);
});
list.append(...problems.slice(0, 5));
if (problems.length > 5) list.append(h('li', {class: 'none'}, button(`and ${problems.length - 5} more`, e => e.target.parentElement.replaceWith(...problems.slice(5)))));
if (!list.children.length) list.append(h('li', {class: 'none'}, ops.length ? '✓ No problems found.' : 'No operation ran in this cell.'));

// ---- source
const WORDS = /("""|''')|(#.*)|([rbf]{0,2}(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'))|\b(False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield)\b|\b(\d[\w.]*)/g;
const inString = []; // the triple quote that is open at the start of each line
D.source.reduce((open, line, k) => {
  inString[k] = open;
  for (const m of line.matchAll(open ? /("""|''')/g : WORDS)) if (m[1]) open = open === m[1] ? '' : open || m[1];
  return open;
}, '');
function tint(text, k) {
  if (inString[k]) return [h('span', {class: 's'}, text)];
  const out = []; let at = 0;
  for (const m of text.matchAll(WORDS)) {
    if (m[1]) { out.push(text.slice(at, m.index), h('span', {class: 's'}, text.slice(m.index))); at = text.length; break; }
    out.push(text.slice(at, m.index), h('span', {class: m[2] ? 'c' : m[3] ? 's' : m[4] ? 'k' : 'd'}, m[0])); at = m.index + m[0].length;
  }
  return [...out, text.slice(at)];
}
function paint(k, o) { // line k, with an op's own expression marked
  const text = D.source[k], code = o ? strings[o[7]].split('\n')[0] : '';
  let at = o ? o[3] : -1;
  if (code && text.slice(at, at + code.length) !== code) at = text.indexOf(code);
  if (!code || !(at >= 0)) return tint(text || ' ', k);
  return [...tint(text.slice(0, at), k), h('mark', {}, ...tint(code, k)), ...tint(text.slice(at + code.length), k)];
}
const lineOf = new Map(lines.map(l => [l[0], l])), longest = top(lines, l => Math.max(l[1], l[2]));
const worst = new Map();
for (const f of [...findings].reverse()) if (f.line && worst.get(f.line) !== 'error') worst.set(f.line, f.severity === 'error' ? 'error' : 'warning');
if (D.error?.line) worst.set(D.error.line, 'error');
const said = h('div', {class: 'foot', 'aria-live': 'polite'});
const hint = () => said.replaceChildren(lines.length ? 'Point at a line for its times and its boxes in the graph.' : 'No time was measured on a line.');
const rows = D.source.map((text, k) => {
  const l = lineOf.get(k + 1), bad = worst.get(k + 1), words = l ? `line ${k + 1}: forward ${time(l[1])}, backward ${time(l[2])}, ${count(l[3], 'run')}` : `line ${k + 1}: no op ran`;
  const on = () => { light(choice(byLine.get(k + 1) || [], k + 1)); said.textContent = words; };
  return h('div', {role: 'option', tabindex: k ? -1 : 0, class: bad || '', 'aria-label': `${words}${bad ? ', ' + bad : ''}. ${text}`, onmouseenter: on, onmouseleave: () => { rest(); hint(); }, onfocus: on, onblur: () => { rest(); hint(); },
    onclick: () => { pin(choice(byLine.get(k + 1) || [], k + 1)); const o = byLine.get(k + 1)?.[0]; if (o !== undefined && !nodes.some(n => n.matches('.lit'))) show(home[o][0]); rest(); }},
    h('span', {class: 'n'}, bad ? h('b', {'aria-hidden': 'true'}, ICON[bad] + ' ') : null, k + 1), h('span', {class: 't'}, ...paint(k)),
    h('span', {class: 'bars'}, l ? [h('u', {class: 'f', style: `width:${50 * l[1] / longest}px`}), h('u', {class: 'b', style: `width:${50 * l[2] / longest}px`})] : null), h('span', {class: 'ms'}, l ? time(l[1] + l[2]) : ''));
});
const source = h('div', {class: 'lines', role: 'listbox', 'aria-label': 'source of the cell with times', onkeydown: e => {
  const step = {ArrowDown: 1, ArrowUp: -1}[e.key], k = rows.indexOf(e.target);
  if (step && rows[k + step]) { rows[k].tabIndex = -1; rows[k + step].tabIndex = 0; rows[k + step].focus({preventScroll: true}); nearest(e.currentTarget.parentElement, rows[k + step]); }
  if (step || e.key === 'Enter') e.preventDefault();
  if (e.key === 'Enter') e.target.click();
}}, ...rows);
hint();

// ---- graph
const crumbs = h('nav', {class: 'bar crumbs', 'aria-label': 'path of modules'}), canvas = h('div', {class: 'scroll'}), details = h('div', {class: 'foot details', 'aria-live': 'polite'});
const HINT = 'Click a box for its kernel, times and values. Enter opens a group, Esc goes up, arrows move.';
const flagsOf = it => it[0] === 0 ? ops[it[1]][20] : it[8], cost = it => it[0] === 0 ? [ops[it[1]][14], ops[it[1]][15]] : it[0] === 1 ? [it[6], it[7]] : [0, 0];
function show(v, focus = -1) {
  const view = views[v], L = layouts[view.layout], items = view.items; shown = v; selected = -1;
  const most = top(items, it => cost(it)[0] + cost(it)[1]), marks = items.reduce((m, it) => m | flagsOf(it), 0);
  const scale = Math.max(.78, Math.min(1, (canvas.clientWidth - 24) / (L.w + 24) || 1));
  const svg = s('svg', {width: (L.w + 24) * scale, height: (L.h + 30) * scale, viewBox: `-12 -14 ${L.w + 24} ${L.h + 30}`, role: 'group', 'aria-label': `graph of ${view.label || 'the cell'}: ${count(items.length, 'box')}`.replace('boxs', 'boxes')});
  L.r.forEach((p, e) => {
    const [u, w] = view.edges[e], f = flagsOf(items[u]) | flagsOf(items[w]) & CUT, kind = f & CUT ? ' cut' : flagsOf(items[u]) & flagsOf(items[w]) & UNREACHED ? ' unreached' : '';
    let d = `M${p[0]} ${p[1]}`;
    for (let i = 2; i < p.length; i += 2) { const m = (p[i - 1] + p[i + 1]) / 2; d += p[i] === p[i - 2] ? `V${p[i + 1]}` : `C${p[i - 2]} ${m} ${p[i]} ${m} ${p[i]} ${p[i + 1]}`; }
    const n = p.length, x = p[n - 2], y = p[n - 1], t = y > p[n - 3] ? -6 : 6;
    svg.append(s('path', {class: 'edge' + kind, d}), s('path', {class: 'tip' + kind, d: `M${x} ${y}l-3.5 ${t}h7z`}));
  });
  nodes = items.map((it, k) => node(it, k, L.b.slice(4 * k, 4 * k + 4), most, svg, v));
  svg.append(...nodes);
  const path = []; for (let w = v, up; w >= 0; w = up ? up[0] : -1) { up = views[w].up; path.unshift(w); }
  crumbs.replaceChildren(...path.flatMap((w, i) => [i ? h('span', {'aria-hidden': 'true'}, '›') : null, w === v ? h('b', {'aria-current': 'true'}, views[w].label || 'cell') : button(views[w].label || 'cell', () => show(w, views[path[i + 1]].up[1]))]).filter(Boolean),
    h('span', {class: 'end'}, view.note, view.note ? '. ' : '', `bar: forward and backward time, longest ${time(most)}`, marks & CUT ? ' · dashed red: cut, no gradient passes' : '', marks & UNREACHED ? ' · dotted: backward did not come here' : ''));
  canvas.replaceChildren(items.length ? svg : h('p', {class: 'bar'}, 'No operation ran in this cell.'));
  details.replaceChildren(HINT);
  if (focus >= 0 && nodes[focus]) { nodes[0].setAttribute('tabindex', -1); nodes[focus].setAttribute('tabindex', 0); tell(focus); nearest(canvas, nodes[focus]); } else canvas.scrollTop = 0;
  rest();
}
function node(it, k, [x, y, w, height], most, svg, v) {
  const [kind, index, label, detail, place, chips] = it, [f, b] = cost(it), flags = flagsOf(it), l = -w / 2, t = -height / 2;
  const name = ['op', 'group', 'leaf', 'port'][kind], inside = kind === 1 ? ' inside' : '';
  const badge = flags & ERROR ? '✕ failed' : flags & NAN ? '✕ NaN' + inside : flags & CUT ? '✂ cut' + inside : '';
  const words = [strings[label], strings[detail], strings[place], f + b ? `forward ${time(f)}, backward ${time(b)}` : '', badge.slice(2), flags & UNREACHED ? 'backward did not come here' : '', ...(chips || []).map(c => strings[c[0]]), kind === 1 ? 'Enter opens' : ''];
  const g = s('g', {class: `node ${name}${flags & CUT ? ' cut' : ''}${flags & NAN ? ' nan' : ''}${flags & ERROR ? ' failed' : ''}${flags & UNREACHED ? ' unreached' : ''}`, transform: `translate(${x} ${y})`, tabindex: k ? -1 : 0, role: 'button', 'aria-label': words.filter(Boolean).join(', ')});
  const text = (cls, dx, dy, id) => s('text', {class: cls, x: dx, y: dy}, id);
  if (kind === 1) g.append(s('rect', {class: 'box', x: l + 4, y: t + 4, width: w, height, rx: 5}));
  g.append(s('rect', {class: 'ring', x: l - 4, y: t - 4, width: w + 8, height: height + 8, rx: 8}), s('rect', {class: 'box', x: l, y: t, width: w, height, rx: kind === 3 ? 11 : 5, style: `--heat:${(24 * (f + b) / most).toFixed(0)}%`}));
  if (kind === 3) g.append(text('label', 0, 4, strings[label]));
  else {
    g.append(text('label', l + 10, t + 16, strings[label]), text('time', -l - 10, t + 16, f + b ? time(f + b) : ''), text('detail', l + 10, t + 31, strings[detail]), text('place', -l - 10, t + 31, strings[place]));
    let at = l + 8;
    for (const [id, , dead] of chips || []) { const wide = 5.6 * strings[id].length + 14; g.append(s('g', {class: 'chip' + (dead ? ' dead' : '')}, s('rect', {x: at, y: t + 37, width: wide, height: 16, rx: 8}), text('', at + wide / 2, t + 49, strings[id]))); at += wide + 5; }
    const unit = (w - 20) / most, bar = (cls, dx, ms) => ms * unit > .4 && g.append(s('rect', {class: cls, x: l + 10 + dx, y: -t - 6, width: ms * unit, height: 3, rx: 1}));
    bar('f', 0, f); bar('b', f * unit, b);
  }
  if (badge) { const wide = 6.2 * badge.length + 12; g.append(s('g', {class: 'badge'}, s('rect', {x: -l - wide - 6, y: t - 9, width: wide, height: 17, rx: 8}), text('', -l - wide / 2 - 6, t + 3, badge))); }
  const mine = () => kind === 0 ? choice([index], strings[ops[index][6]] ? 0 : ops[index][2]) : kind === 1 ? choice([...home.keys()].filter(o => lift(o, v) === k), 0) : choice([], 0);
  const hover = () => { const what = mine(); if (kind === 1) for (const o of what.ops) if (!strings[ops[o][6]]) what.lines.add(ops[o][2]); light(what); };
  g.onmouseenter = hover; g.onmouseleave = rest;
  g.onfocus = () => { hover(); tell(k); }; g.onblur = rest;
  const open = () => { if (kind === 1) show(index, 0), nodes[0].focus({preventScroll: true}); else if (kind === 3) reveal([index], 0); else { pin(mine()); tell(k); } };
  g.onclick = open;
  g.onkeydown = e => {
    if (e.key === 'Enter' || e.key === ' ') { e.preventDefault(); open(); }
    if (e.key === 'Escape' || e.key === 'Backspace') { e.preventDefault(); const up = views[v].up; if (up) { show(up[0], up[1]); nodes[up[1]].focus({preventScroll: true}); } else pin(choice([], 0)); }
    const way = {ArrowDown: [0, 1], ArrowUp: [0, -1], ArrowRight: [1, 0], ArrowLeft: [-1, 0]}[e.key];
    if (!way) return;
    e.preventDefault();
    const B = layouts[views[v].layout].b; let best = -1, least = Infinity;
    for (let j = 0; j < nodes.length; j++) { const dx = B[4 * j] - x, dy = B[4 * j + 1] - y, along = dx * way[0] + dy * way[1], off = Math.abs(dx * way[1]) + Math.abs(dy * way[0]); if (along > 4 && along + 2.5 * off < least) { least = along + 2.5 * off; best = j; } }
    if (best >= 0) { g.setAttribute('tabindex', -1); nodes[best].setAttribute('tabindex', 0); nodes[best].focus({preventScroll: true}); nearest(canvas, nodes[best]); }
  };
  return g;
}
const readName = i => i >= 0 ? `${strings[ops[i][0]]} ${strings[ops[i][11]]}` : `${strings[tensors[-i - 1][0]] || strings[tensors[-i - 1][1]]} ${strings[tensors[-i - 1][2]]}`;
function tell(k) {
  const it = views[shown].items[k], pair = (name, value) => value === '' || value === null ? null : h('span', {}, name + ' ', h('b', {}, value));
  if (it[0] === 2) { const t = tensors[it[1]]; return details.replaceChildren(h('b', {}, strings[t[0]]), pair('', strings[t[1]]), pair('shape', strings[t[2]]), pair('dtype', strings[t[3]]), pair('requires grad', t[4] ? 'yes' : 'no')); }
  if (it[0] === 1) return details.replaceChildren(h('b', {}, strings[it[2]]), pair('', strings[it[3]]), pair('forward', time(it[6])), pair('backward', time(it[7])), button('open', () => show(it[1], 0)));
  const o = ops[it[1]], st = o[19], file = strings[o[6]], where = o[2] ? `${file ? file + ', ' : ''}line ${o[2]}` : file;
  details.replaceChildren(...[h('b', {}, strings[o[0]] + (o[1] > 1 ? ` ×${o[1].toLocaleString('en')}` : '')), pair('kernel', `${strings[o[9]]}${strings[o[10]] ? ` (${strings[o[10]]})` : ''}`), pair('output', `${strings[o[11]]} ${strings[o[12]]}`), pair('', o[17] ? bytes(o[17]) : ''),
    pair('forward', time(o[14])), o[1] > 1 ? pair('slowest run', time(o[16])) : null, pair('backward', time(o[15])), pair('gradient', o[18] ? (o[20] & UNREACHED ? 'backward did not come here' : 'yes') : o[20] & CUT ? 'cut here' : 'not required'), pair('module', strings[o[8]]),
    st ? h('span', {class: 'wide'}, 'values ', h('b', {}, `${number(st[0])} … ${number(st[1])}`), ' mean ', h('b', {}, number(st[2])), ' std ', h('b', {}, number(st[3])), ' zeros ', h('b', {}, share(st[4])), ...(st[5] ? [' NaN or infinite ', h('b', {class: 'flag'}, st[5].toLocaleString('en'))] : [])) : null,
    o[13].length ? h('span', {class: 'wide'}, `reads ${o[13].map(readName).join(', ')}`) : null, strings[o[7]] ? h('span', {class: 'wide'}, where ? where + ': ' : '', h('span', {class: 'code'}, strings[o[7]])) : where ? h('span', {}, where) : null].filter(Boolean));
}

// ---- tables
function table(caption, columns, data, {total, onrow, onopen, start = -1} = {}) {
  let made = data.map(d => { const tr = h('tr', {}, ...columns.map(c => h('td', {class: c.class || (c.text ? null : 'num')}, c.cell(d)))); onrow?.(d, tr); return [d, tr]; });
  const body = h('tbody'), LIMIT = 300; let all = made.length <= LIMIT, order = [];
  const more = h('div', {class: 'more'});
  const fill = () => { body.replaceChildren(...(all ? made : made.slice(0, LIMIT)).flatMap(m => m[1].detail ? [m[1], m[1].detail] : [m[1]])); more.replaceChildren(...(all ? [] : [button(`and ${made.length - LIMIT} more: show all`, () => { all = true; fill(); })])); };
  const heads = columns.map((c, k) => h('th', {scope: 'col', class: c.text ? null : 'num'}, c.sort ? h('button', {type: 'button', onclick: () => by(k)}, c.title, h('span', {'aria-hidden': 'true'}, '')) : c.title));
  function by(k) {
    const c = columns[k], down = order[0] === k ? !order[1] : !c.text; order = [k, down];
    const key = d => { const x = c.sort(d); return c.text || real(x) ? x : null; };
    made = made.map((m, i) => [m, key(m[0]), i]).sort((a, b) => (a[1] === null) - (b[1] === null) || (a[1] === b[1] || a[1] === null ? a[2] - b[2] : (a[1] < b[1] ? -1 : 1) * (down ? -1 : 1))).map(m => m[0]);
    heads.forEach((th, j) => { if (columns[j].sort) { th.setAttribute('aria-sort', j === k ? (down ? 'descending' : 'ascending') : 'none'); th.firstChild.lastChild.textContent = j === k ? (down ? ' ↓' : ' ↑') : ''; } });
    fill();
  }
  start < 0 ? fill() : by(start);
  return [h('table', {}, h('caption', {class: onopen ? 'sr' : null}, caption), h('thead', {}, h('tr', {}, ...heads)), body, total ? h('tfoot', {}, h('tr', {}, ...total.map((t, k) => h('td', {class: columns[k].text ? null : 'num'}, t)))) : null), more];
}
const track = parts => h('span', {class: 'track', 'aria-hidden': 'true'}, ...parts.map(([kind, x]) => x > 0 ? h('u', {class: kind, style: `width:${90 * x}px`}) : null));
const gradientRows = [];
const SAID = {none: 'no gradient', zero: 'all zero', nan: 'NaN'}, raised = n => [...String(n)].map(c => '⁰¹²³⁴⁵⁶⁷⁸⁹'[c] || '⁻').join('');
function histogram(g) {
  const bins = g[15], most = Math.max(...bins, 1), total = bins.reduce((a, b) => a + b, 0), s0 = s('svg', {viewBox: '0 0 528 96', width: 528, height: 96, role: 'img', 'aria-label': `histogram of log2 of |gradient| of ${g[0]}`});
  bins.forEach((n, i) => n && s0.append(s('rect', {class: 'f', x: 8 + 8 * i, y: 76 - Math.max(1, 72 * n / most), width: 7, height: Math.max(1, 72 * n / most)})));
  s0.append(s('path', {class: 'edge', d: 'M8 76.5H520'}));
  for (let e = -40; e <= 24; e += 8) s0.append(s('path', {class: 'edge', d: `M${8 + 8 * (e + 40)} 76v4`}), s('text', {x: 8 + 8 * (e + 40), y: 92}, '2' + raised(e)));
  return h('div', {}, h('span', {class: 'quiet'}, `|gradient| of ${g[0]}: ${count(total, 'element')} by power of two; rms ${number(g[5])}, largest ${number(g[8])}, accumulated ${count(g[14], 'time')}, weights' rms ${number(g[12])}`), s0);
}
function gradientTable() {
  const logs = gradients.map(g => real(g[5]) && g[5] > 0 ? Math.log10(g[5]) : null).filter(x => x !== null), low = Math.floor(Math.min(...logs, 0)) - 1, high = Math.max(Math.ceil(Math.max(...logs, low)), low + 3);
  const cut = name => findings.find(f => f.line && f.parameters.includes(name));
  const plain = (title, k, cell = d => number(d[k])) => ({title, sort: d => d[k], cell});
  return table('Gradients', [
    {title: 'parameter', text: true, class: 'code', sort: g => g[0], cell: g => h('button', {type: 'button', 'aria-expanded': 'false'}, g[0])}, {title: 'shape', text: true, sort: g => g[2], cell: g => g[2]},
    plain('norm', 4), plain('rms', 5), {title: `rms, 1e${low} to 1e${high}`, text: true, sort: null, cell: g => real(g[5]) && g[5] > 0 ? track([['f', Math.max(.02, (Math.log10(g[5]) - low) / (high - low))]]) : ''},
    {title: 'note', text: true, sort: g => g[16].join(), cell: g => h('span', {class: 'flag'}, g[4] === null && !g[16].length ? SAID.none : g[16].map(f => SAID[f] || f).join(', '), cut(g[0]) ? [', ', button(`line ${cut(g[0]).line}`, e => { e.stopPropagation(); reveal(cut(g[0]).ops, cut(g[0]).line, cut(g[0]).parameters); })] : null)},
    plain('mean', 6), plain('std', 7), plain('zeros', 9, g => share(g[9])), plain('update/weight', 13)], gradients,
    {onopen: 1, onrow: (g, tr) => {
      gradientRows.push([g[0], tr]);
      tr.onclick = () => {
        const b = tr.querySelector('[aria-expanded]'), on = b.getAttribute('aria-expanded') === 'false'; b.setAttribute('aria-expanded', on);
        if (!on) { tr.detail.remove(); tr.detail = null; return; }
        tr.detail = h('tr', {}, h('td', {class: 'open', colspan: 10}, g[4] === null ? `${g[0]} got no gradient: backward did not reach it.` : g[15].length ? histogram(g) : 'No histogram was taken.')); tr.after(tr.detail);
      };
    }});
}
function timingTables() {
  const ms = rows => { const m = top(rows, r => Math.max(...r)), n = m >= 100 ? 1 : m >= 10 ? 2 : 3; return x => real(x) ? x.toFixed(n) : x ?? ''; };
  const groups = new Map(); for (const o of ops) { const g = groups.get(o[0]) || groups.set(o[0], [strings[o[0]], 0, 0, 0]).get(o[0]); g[1] += o[1]; g[2] += +o[14] || 0; g[3] += +o[15] || 0; }
  const byOp = [...groups.values()], two = (data, f, b) => { const m = top(data, d => d[f] + d[b]), text = ms(data.map(d => [d[f] + d[b]])); return [[
    {title: 'forward ms', sort: d => d[f], cell: d => text(d[f])}, {title: 'backward ms', sort: d => d[b], cell: d => text(d[b])}, {title: 'sum ms', sort: d => d[f] + d[b], cell: d => text(d[f] + d[b])}, {title: '', text: true, cell: d => track([['f', d[f] / m], ['b', d[b] / m]])}], [text(sum(data, f)), text(sum(data, b)), text(sum(data, f) + sum(data, b)), '']]; };
  const [lineColumns, lineSum] = two(lines, 1, 2), [opColumns, opSum] = two(byOp, 2, 3), text = ms(kernels.map(k => [k[4]])), most = top(kernels, k => k[4]);
  const runsColumn = k => ({title: 'runs', sort: d => d[k], cell: d => d[k].toLocaleString('en')});
  return [
    ...table('By line', [{title: 'line', sort: d => d[0], cell: d => button(d[0], () => reveal([], d[0]))}, {title: 'source', text: true, class: 'code text', sort: null, cell: d => (D.source[d[0] - 1] || '').trim()}, runsColumn(3), ...lineColumns], lines, {total: ['', 'all lines', sum(lines, 3).toLocaleString('en'), ...lineSum]}),
    ...table('By op', [{title: 'op', text: true, class: 'code', sort: d => d[0], cell: d => d[0]}, runsColumn(1), ...opColumns], byOp, {start: 4, total: ['all ops', sum(byOp, 1).toLocaleString('en'), ...opSum]}),
    ...table('By kernel', [{title: 'kernel', text: true, class: 'code', sort: d => d[0], cell: d => d[0]}, {title: 'backend', text: true, sort: d => d[1], cell: d => d[1]}, runsColumn(3), {title: 'total ms', sort: d => d[4], cell: d => text(d[4])}, {title: 'mean µs', sort: d => d[5], cell: d => real(d[5]) ? d[5].toFixed(1) : d[5]}, {title: 'GB/s', sort: d => d[6], cell: d => real(d[6]) ? (d[6] / 1e9).toFixed(1) : ''}, {title: '', text: true, cell: d => track([['f', d[4] / most]])}], kernels, {start: 3, total: ['all kernels', '', sum(kernels, 3).toLocaleString('en'), text(sum(kernels, 4)), '', '', '']})];
}

// ---- tabs and the whole
const NAMES = ['Graph', `Gradients (${gradients.length})`, 'Timings'], made = [true, false, false];
const scroll = () => h('div', {class: 'scroll', tabindex: 0}), panels = NAMES.map((_, k) => h('div', {role: 'tabpanel', id: 'p' + k, 'aria-labelledby': 't' + k}, ...(k ? [scroll()] : [crumbs, canvas, details])));
const tabs = NAMES.map((name, k) => h('button', {type: 'button', role: 'tab', id: 't' + k, 'aria-controls': 'p' + k, onclick: () => tab(k)}, name));
function tab(k) {
  if (!made[k]) { made[k] = true; panels[k].firstChild.append(...(k === 1 ? (gradients.length ? gradientTable() : [h('p', {class: 'bar'}, 'No parameter took part in this cell.')]) : timingTables())); rest(); }
  tabs.forEach((t, j) => { t.setAttribute('aria-selected', j === k); t.tabIndex = j === k ? 0 : -1; panels[j].hidden = j !== k; });
}
const bar = h('div', {role: 'tablist', 'aria-label': 'views of the cell', onkeydown: e => {
  const k = tabs.indexOf(e.target), to = {ArrowRight: (k + 1) % 3, ArrowLeft: (k + 2) % 3, Home: 0, End: 2}[e.key];
  if (to !== undefined) { e.preventDefault(); tab(to); tabs[to].focus(); }
}}, ...tabs);
tab(0);
const host = h('div', {'data-lm-suppress-shortcuts': 'true', onkeydown: e => { if (!e.ctrlKey && !e.metaKey && !e.altKey) e.stopPropagation(); }}); // else Enter, Esc and arrows are the notebook's
host.attachShadow({mode: 'open'}).append(h('style', {}, D.css), h('section', {class: 'card', 'aria-label': `autograd card of ${head.title || 'the cell'}`}, header, list,
  h('div', {class: 'body'}, h('div', {class: 'pane source'}, h('div', {class: 'bar'}, h('span', {}, 'Source'), h('span', {class: 'end'}, swatch('f', 'forward')), swatch('b', 'backward')), h('div', {class: 'scroll'}, source), said), h('div', {class: 'pane'}, bar, ...panels))));
root.querySelector('.gradlab-still').replaceWith(host);
show(0);
}
})();
