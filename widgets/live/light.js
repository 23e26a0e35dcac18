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

