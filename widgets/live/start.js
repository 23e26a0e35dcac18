// The live card: replaces the still one inside its <div class="gradlab-card"> once this script runs.
// Everything in the data is untrusted text: it reaches the page by textContent and setAttribute alone.
(() => {
const script = document.currentScript;
for (const root of script ? [script.parentElement] : document.querySelectorAll('.gradlab-card:not([data-live])')) {
  const {type, textContent: text} = root.querySelector('script[type]');
  const draw = text => { try { card(root, JSON.parse(text)); root.dataset.live = 1; } catch (error) { failed(error); } }, failed = error => console.error('gradlab card:', error);
  if (type.endsWith('json')) draw(text);
  else new Response(new Blob([Uint8Array.from(atob(text), c => c.charCodeAt())]).stream().pipeThrough(new DecompressionStream('deflate'))).text().then(draw, failed); // a large record comes packed
}

function card(root, D) {
const {head, views, layouts} = D, home = []; // home: the view and the box that draw an op as itself
// Rows come as arrays, their names once; a name that starts with $ says that the value is a number of D.strings.
const rows = (table, keys = D.keys[table], list = D[table]) => list.map(r => Object.fromEntries(keys.map((k, i) => k[0] === '$' ? [k.slice(1), D.strings[r[i]]] : [k, r[i]])));
const ops = Array.from({length: D.ops[0]}, (_, i) => Object.fromEntries(D.keys.ops.map((k, j) => { const c = D.ops[1][j], x = c.length > 1 ? c[i] : c[0]; return k[0] === '$' ? [k.slice(1), D.strings[x]] : [k, x]; }))); // by column; one value stands for all rows
const tensors = rows('tensors'), lines = rows('lines'), gradients = rows('gradients'), kernels = rows('kernels'), byOp = rows('by_op'), findings = rows('findings');
const CUT = 1, UNREACHED = 8, ICON = {error: '✕', warning: '▲', note: '●'}, WORD = {error: 'Error', warning: 'Warning', note: 'Note'};

// ---- small tools
const TURNS = new RegExp('[\\u202a-\\u202e\\u2066-\\u2069]', 'g'); // marks that turn the writing round, also in the words that follow
const add = (e, attributes, kids) => {
  for (const k in attributes) k.startsWith('on') ? e[k] = attributes[k] : e.setAttribute(k, attributes[k]);
  e.append(...kids.flat(3).filter(Boolean).map(x => x.replaceAll?.(TURNS, '\ufffd') ?? x)); return e;
};
const h = (tag, attributes, ...kids) => add(document.createElement(tag), attributes, kids);
const s = (tag, attributes, ...kids) => add(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, kids);
const button = (text, onclick, more) => h('button', {type: 'button', class: 'link', onclick, ...more}, text);
const clip = x => typeof x === 'string' && x.length > 300 ? x.slice(0, 299) + '…' : x;
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

views.forEach((v, n) => { v.items = v.items.map((it, k) => { // an op's number stands for a box of which the op says all
  const own = real(it) ? {kind: 'op', index: it, label: ops[it].op + (ops[it].count > 1 ? ' ×' + whole(ops[it].count) : ''), detail: ops[it].dtype && ops[it].shape, place: '', badge: '', marks: '', chips: []} : rows('items', D.keys.items, [it])[0], o = ops[own.index];
  if (own.kind !== 'op') return own;
  home[own.index] = [n, k];
  return {...own, forward: o.forward, backward: o.backward, flags: o.flags};
}); });

// ---- tabs: a panel's contents are made when it is first seen, or stand from the beginning
const stages = [], panel = (name, make, ready) => stages.push({name, make, ready});

// ---- what is lit: ops, lines and parameters, in every view at once
const places = new Map(); // "page:line" -> the ops that ran there or below; page 0 is the cell
ops.forEach((o, i) => { o.places = o.at ? o.at.split(' ') : ['']; for (const at of o.places) places.has(at) ? places.get(at).push(i) : places.set(at, [i]); });
const byLine = (k, page = 0) => places.get(page + ':' + k) || [];
const choice = (list, line, names = []) => ({ops: new Set(list), lines: new Set(line ? [line] : []), names: new Set(names), wide: !line && !names.length}); // wide: with all lines of its ops
let pinned = choice([]), shown = 0, nodes = [], gradientRows = [];
function lift(op, view) { // the box of `view` that holds an op
  let [v, k] = home[op];
  while (v !== view) { if (!views[v].up) return -1; [v, k] = views[v].up; }
  return k;
}
function light(what) {
  const boxes = new Set([...what.ops].map(o => lift(o, shown))), one = what.ops.size === 1 ? ops[[...what.ops][0]] : 0;
  nodes.forEach((n, k) => n.classList.toggle('lit', boxes.has(k)));
  const keys = new Set([...what.lines].map(k => '0:' + k)), marked = one && (one.file ? one.places.find(at => at[0] !== '0') : '0:' + one.line);
  if (what.wide) for (const o of what.ops) for (const at of ops[o].places) keys.add(at);
  for (const [key, r] of sourceRows) {
    r.classList.toggle('lit', keys.has(key));
    const mark = key === marked ? one : 0;
    if (r.mark !== mark) { r.mark = mark; r.paint(mark); }
  }
  for (const r of gradientRows) r[1].classList.toggle('lit', what.names.has(r[0].name));
}
const pin = what => light(pinned = what), rest = () => light(pinned);
function reveal(list, line, names) { // a finding's link: its line, and its ops in the graph
  pinned = choice(list.length ? list : byLine(line), line, names); tab(0);
  const all = [...pinned.ops], [first] = all;
  let v = first === undefined ? -1 : home[first][0];
  if (all.length > 8) while (views[v].up && all.some(o => lift(o, v) < 0)) [v] = views[v].up; // where all of them can be seen
  v < 0 ? rest() : show(v, lift(first, v));
  if (lineRows[line - 1]) nearest(source.parentElement, lineRows[line - 1]);
}

