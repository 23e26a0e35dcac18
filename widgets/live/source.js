// ---- source: the cell, and below it the functions of other cells and files that it called, folded
const cell = {page: 0, first: 1, text: D.source, colours: D.colours, times: new Map(lines.map(l => [l.line, l]))}, sourceRows = new Map();
const pages = rows('pages').map((p, i) => ({...p, page: i + 1, times: new Map(p.lines.map(([line, forward, backward, n]) => [line, {forward, backward, count: n}]))}));
function tint(p, k, from, to) { // a piece of line k with its colours, which were found in Python
  const text = p.text[k], out = []; let at = from;
  for (let [start, end, kind] of p.colours[k] || []) {
    start = Math.max(start, at); end = Math.min(end, to);
    if (start < end) { out.push(text.slice(at, start), h('span', {class: kind}, text.slice(start, end))); at = end; }
  }
  return [...out, text.slice(at, to)];
}
function paint(p, k, op) { // line k, with the expression of one op marked
  const text = p.text[k], code = op ? op.code.split('\n')[0] : '', at = code ? text.indexOf(code, text.startsWith(code, op.col) ? op.col : 0) : -1, end = at + code.length;
  return at < 0 ? tint(p, k, 0, text.length) : [...tint(p, k, 0, at), h('mark', {}, ...tint(p, k, at, end)), ...tint(p, k, end, text.length)];
}
const longest = top(lines, l => Math.max(l.forward, l.backward)), worst = new Map(), said = h('div', {class: 'foot', 'aria-live': 'polite'});
for (const f of findings) if (worst.get(f.line) !== 'error') worst.set(f.line, WORD[f.severity] ? f.severity : 'note');
if (error) worst.set(error.line, 'error');
const spent = l => `forward ${time(l.forward)}, backward ${time(l.backward)}, ${count(l.count, 'run')}`, bars = l => h('span', {class: 'bars'}, l && ['forward', 'backward'].map(c => h('u', {class: c[0], style: `width:${l[c] && Math.min(100, Math.max(2, 100 * l[c] / longest))}%`})));
function lineRow(p, text, k) {
  const n = p.first + k, l = p.times.get(n), bad = p.page ? '' : worst.get(n), way = p.page ? '' : D.branches[n], key = p.page + ':' + n;
  const words = [`${p.page ? p.name + ', ' : ''}line ${n}: ` + (l ? spent(l) : way || 'no op ran'), l && way].filter(Boolean).join('; '), mine = () => ({...choice(byLine(n, p.page), p.page ? 0 : n), wide: 1});
  const on = () => { light(mine()); said.textContent = words; }, off = () => { rest(); said.textContent = D.hint; };
  const row = h('div', {role: 'option', tabindex: k ? -1 : 0, class: bad || '', 'aria-label': `${words}${bad ? ', ' + bad : ''}. ${text}`, onmouseenter: on, onmouseleave: off, onfocus: on, onblur: off, onclick: () => {
    pinned = mine(); tab(0);
    const list = [...pinned.ops], called = new Set(list.map(o => +ops[o].places[ops[o].places.length - 1].split(':')[0]));
    if (!p.page && called.size < 4) for (const c of called) folds[c - 1]?.open(true);
    list.length && list.every(o => lift(o, shown) < 0) ? show(home[list[0]][0]) : rest();
  }}, h('span', {class: 'n'}, bad && h('b', hide, ICON[bad] + ' '), n), h('span', {class: 't'}, paint(p, k)), bars(l), h('span', {class: 'ms'}, l ? time(both(l)) : way && (way[0] === 'b' ? 'taken' : way[2] === 't' ? 'not taken' : 'no op')));
  row.paint = op => row.children[1].replaceChildren(...paint(p, k, op)); sourceRows.set(key, row);
  return row;
}
function listing(p, label) { // the lines as one list for the arrow keys
  p.rows = p.text.map((text, k) => lineRow(p, text, k));
  return h('div', {class: 'lines', style: `--digits:${('' + (p.first + p.text.length)).length + 4.2}ch`, role: 'listbox', 'aria-label': label, onkeydown: e => {
    const step = {ArrowDown: 1, ArrowUp: -1}[e.key], to = p.rows[p.rows.indexOf(e.target) + step];
    if (to) rove(e.target, to, e.currentTarget.closest('.scroll'));
    if (e.key === 'Enter') e.target.click(); else if (!step) return;
    e.preventDefault();
  }}, p.rows);
}
const source = listing(cell, 'source with times'), lineRows = cell.rows;
const folds = pages.map(p => {
  const all = {forward: sum([...p.times.values()], 'forward'), backward: sum([...p.times.values()], 'backward')}, place = `${p.file}, line ${p.first}`, on = () => light(choice([...p.times.keys()].flatMap(n => byLine(n, p.page))));
  const head = h('button', {type: 'button', 'aria-expanded': false, class: 'fold', onclick: () => e.open(), onmouseenter: on, onmouseleave: rest, onfocus: on, onblur: rest}, h('span', {class: 't'}, h('span', {class: 'code'}, clip(p.name)), quiet(' ' + place)), bars(all), h('span', {class: 'ms'}, time(both(all))));
  const e = h('div', {}, head); let body;
  e.open = (yes = head.getAttribute('aria-expanded') === 'false') => { head.setAttribute('aria-expanded', yes); body ||= e.appendChild(listing(p, `${p.name}, ${place}`)); body.hidden = !yes; };
  return e;
});
said.textContent = D.hint;
