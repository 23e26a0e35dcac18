// ---- graph
// What a box is coloured by: a title, the figure of a set of ops, its text, and where it lies between 0 and 1.
const normOf = new Map(gradients.map(g => [g.name, g.norm])), MEASURES = [
  ['time', list => list.reduce((t, o) => t + both(ops[o]), 0), time, (x, most) => x / most],
  ['gradient norm', list => Math.hypot(...[...new Set(list.flatMap(o => ops[o].requires_grad ? ops[o].reads.filter(i => i < 0).map(i => tensors[~i].name) : []))].map(n => +normOf.get(n) || 0)), number, (x, most, least) => x ? .1 + .9 * (most > least ? Math.log(x / least) / Math.log(most / least) : 1) : 0],
  ['memory', list => list.reduce((t, o) => t + ops[o].size_bytes, 0), x => bytes(x), (x, most) => x / most]];
let [measure] = MEASURES;
const crumbs = h('div', {class: 'crumbs', role: 'group', 'aria-label': 'modules'}), canvas = h('div', {class: 'scroll'}), details = h('div', {class: 'foot details', 'aria-live': 'polite'});
const enter = (v, k) => { show(v, k); nodes[k].focus({preventScroll: true}); };
function show(v, focus = -1) {
  const view = views[v], {items} = view, {w, h: height, b, r} = layouts[view.layout], [title, figureOf, write, place] = measure, path = [], inside = items.map(() => []);
  if (measure !== MEASURES[0]) ops.forEach((_, o) => { const k = lift(o, v); if (k >= 0) inside[k].push(o); });
  const figures = items.map((it, k) => measure === MEASURES[0] ? both(it) : figureOf(inside[k])), most = Math.max(...figures) || 1, least = Math.min(most, ...figures.filter(x => x > 0));
  const scale = Math.max(.78, Math.min(1, (canvas.clientWidth - 16) / (w + 24) || 1));
  const svg = s('svg', {width: (w + 24) * scale, height: (height + 30) * scale, viewBox: `-12 -14 ${w + 24} ${height + 30}`, role: 'group', 'aria-label': `graph ${view.label}, ${count(items.length, 'item')}`});
  r.forEach((p, e) => {
    const [u, t] = view.edges[e].map(k => items[k].flags), n = p.length, kind = (u | t) & CUT ? ' cut' : u & t & UNREACHED ? ' unreached' : '';
    let d = `M${p[0]} ${p[1]}`;
    for (let i = 2; i < n; i += 2) { const m = (p[i - 1] + p[i + 1]) / 2; d += p[i] === p[i - 2] ? 'V' + p[i + 1] : `C${p[i - 2]} ${m} ${p[i]} ${m} ${p[i]} ${p[i + 1]}`; }
    svg.append(s('path', {class: 'edge' + kind, d}), s('path', {class: 'tip' + kind, d: `M${p[n - 2]} ${p[n - 1]}l-3.5 ${p[n - 1] > p[n - 3] ? -6 : 6}h7z`}));
  });
  shown = v; nodes = items.map((it, k) => node(it, k, b.slice(4 * k, 4 * k + 4), figures[k] && place(figures[k], most, least), figures[k] && write(figures[k]), v)); svg.append(...nodes);
  for (let at = v, k; at >= 0; [at, k] = views[at].up || [-1]) { // k: the box of `at` that leads to where we are
    const to = [at, k], name = views[at].label || 'cell';
    path.unshift(at === v ? h('b', {'aria-current': 'true'}, name) : button(name, () => enter(...to)), '›');
  }
  crumbs.replaceChildren(h('span', {class: 'path'}, path.slice(0, -1)), h('span', {class: 'end'}, view.note, `bar: ${title}, ${measure === MEASURES[0] ? 'longest' : 'largest'} ${write(most)}${measure === MEASURES[1] ? ', log scale' : ''}`));
  canvas.replaceChildren(items.length ? svg : '');
  rest();
  if (nodes[focus]) { nodes[0].setAttribute('tabindex', -1); nodes[focus].setAttribute('tabindex', 0); tell(items[focus]); nearest(canvas, nodes[focus]); } else { canvas.scrollTop = 0; details.replaceChildren(D.help); }
}
const WIDE = new RegExp('[A-Z@%\\u1100-\\uffff]{6}'); // wider than the letters that Python made room for
const fit = (words, each) => WIDE.test(words) && {textLength: each * words.length, lengthAdjust: 'spacingAndGlyphs'};
function node(it, k, [x, y, w, height], heat, told, v) {
  const {kind, flags, badge} = it, f = +it.forward || 0, b = +it.backward || 0, l = -w / 2, t = -height / 2, group = kind === 'group';
  const say = [it.label, it.detail, it.place, f + b && `forward ${time(f)}, backward ${time(b)}`, measure !== MEASURES[0] && told && `${measure[0]} ${told}`, badge.slice(2), flags & UNREACHED && D.reached, ...it.chips.map(c => D.strings[c[0]]), group && 'Enter opens'];
  const g = s('g', {class: `node ${kind} ${it.marks}`, transform: `translate(${x} ${y})`, tabindex: k ? -1 : 0, role: 'button', 'aria-label': say.filter(Boolean).join(', ')});
  const text = (cls, dx, dy, words) => g.append(s('text', {class: cls, x: dx, y: dy, ...fit(words, cls === 'label' && kind !== 'port' ? 7.4 : 6)}, words)), rect = (cls, dx, dy, width, high, rx, more) => s('rect', {class: cls, x: dx, y: dy, width, height: high, rx, ...more});
  const pill = (cls, dx, dy, wide, words) => g.append(s('g', {class: cls}, rect('', dx, dy, wide, 16, 8), s('text', {x: dx + wide / 2, y: dy + 12, ...fit(words, 5.6)}, words)));
  if (group) g.append(rect('box', l + 4, t + 4, w, height, 5));
  g.append(rect('ring', l - 4, t - 4, w + 8, height + 8, 8), rect('box', l, t, w, height, kind === 'port' ? 11 : 5, {style: `--heat:${Math.round(32 * heat)}%`}));
  if (kind === 'port') text('label', 0, 4, it.label);
  else {
    text('label', l + 10, t + 16, it.label); text('time', -l - 10, t + 16, told); text('detail', l + 10, t + 31, it.detail); text('place', -l - 10, t + 31, it.place);
    let at = l + 8;
    for (const [id, dead] of it.chips) { const words = D.strings[id], wide = 5.6 * words.length + 14; pill(['chip', 'chip dead', 'chip slow', 'chip way'][dead], at, t + 37, wide, words); at += wide + 5; }
    const wide = (w - 20) * heat, front = measure === MEASURES[0] ? wide * f / (f + b || 1) : wide;
    if (front > .4) g.append(rect('f', l + 10, -t - 6, front, 3, 1));
    if (wide - front > .4) g.append(rect('b', l + 10 + front, -t - 6, wide - front, 3, 1));
  }
  if (badge) { const wide = 6.2 * badge.length + 12; pill('badge', -l - wide - 6, t - 11, wide, badge); }
  const mine = () => { const list = kind === 'op' ? [it.index] : group ? [...ops.keys()].filter(o => lift(o, v) === k) : [], what = choice(list); for (const o of list) if (!ops[o].file) what.lines.add(ops[o].line); return what; };
  const open = () => { if (group) enter(it.index, views[it.index].first); else if (kind === 'port') reveal([it.index]); else { pin(mine()); tell(it); } };
  g.onmouseenter = () => light(mine()); g.onmouseleave = g.onblur = rest; g.onclick = open;
  g.onfocus = () => { light(mine()); tell(it); };
  g.onkeydown = e => {
    const up = views[v].up, way = {ArrowDown: [0, 1], ArrowUp: [0, -1], ArrowRight: [1, 0], ArrowLeft: [-1, 0]}[e.key];
    if (e.key === 'Enter' || e.key === ' ') open();
    else if (e.key === 'Escape' || e.key === 'Backspace') up ? enter(...up) : pin(choice([]));
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
  say(pair('', o.op + (o.count > 1 ? ' ×' + whole(o.count) : '')), pair('kernel', o.kernel && `${o.kernel}, ${o.backend}`), o.flags & 4 ? pair('', 'failed here') : pair('output', `${o.shape} ${o.dtype}`), pair('size', o.size_bytes && bytes(o.size_bytes)), times(o), o.count > 1 && pair('slowest run', time(o.slowest)),
    pair('gradient', o.flags & CUT ? 'cut here' : !o.requires_grad ? 'not required' : o.flags & UNREACHED ? D.reached : 'yes'), pair('module', o.module),
    o.stats && wide('values ', h('b', {}, `${number(low)} … ${number(high)}`), ` · mean ${number(mean)} · std ${number(std)} · zeros ${share(zeros)}`, bad && h('b', {class: 'flag'}, ` · ${whole(bad)} NaN or infinite`)),
    wide([o.file, o.line && 'line ' + o.line].filter(Boolean).join(', '), ' ', h('span', {class: 'code'}, o.code), o.reads.length && ' · reads ' + o.reads.map(reads).join(', ')));
}
const find = h('input', {type: 'search', class: 'find', placeholder: 'find an op', 'aria-label': 'find an op, a module or code'});
let hits = [], hit = -1;
find.oninput = () => {
  const word = find.value.trim().toLowerCase(); hit = -1;
  hits = word ? [...ops.keys()].filter(o => [ops[o].op, ops[o].module, ops[o].code, ops[o].kernel].some(t => t.toLowerCase().includes(word))) : [];
  pin(choice(hits)); details.textContent = word ? (hits.length ? `${count(hits.length, 'op')} found. Enter goes from one to the next.` : 'Nothing found.') : D.help;
};
find.onkeydown = e => {
  if (e.key === 'Escape') { find.value = ''; find.oninput(); }
  else if (e.key === 'Enter' && hits.length) { hit = (hit + (e.shiftKey ? hits.length - 1 : 1)) % hits.length; const o = hits[hit]; pin(choice([o], ops[o].file ? 0 : ops[o].line)); show(home[o][0], home[o][1]); }
};
const by = h('select', {class: 'find by', 'aria-label': 'colour boxes by', onchange: () => { measure = MEASURES[by.selectedIndex]; show(shown); }}, MEASURES.map(m => h('option', {}, m[0])));
panel('Graph', null, [h('div', {class: 'top'}, crumbs, by, find), canvas, details]);

