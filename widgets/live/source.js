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
  const l = lines.find(l => l.line === k + 1), bad = worst.get(k + 1), way = D.branches[k + 1], words = [`line ${k + 1}: ` + (l ? `forward ${time(l.forward)}, backward ${time(l.backward)}, ${count(l.count, 'run')}` : way || 'no op ran'), l && way].filter(Boolean).join('; ');
  const on = () => { light(choice(byLine(k + 1), k + 1)); said.textContent = words; }, off = () => { rest(); said.textContent = D.hint; };
  const bar = c => h('u', {class: c[0], style: `width:${l[c] && Math.max(2, 100 * l[c] / longest)}%`});
  return h('div', {role: 'option', tabindex: k ? -1 : 0, class: bad || '', 'aria-label': `${words}${bad ? ', ' + bad : ''}. ${text}`, onmouseenter: on, onmouseleave: off, onfocus: on, onblur: off, onclick: () => {
    const mine = byLine(k + 1); pinned = choice(mine, k + 1); tab(0);
    mine.length && mine.every(o => lift(o, shown) < 0) ? show(home[mine[0]][0]) : rest();
  }}, h('span', {class: 'n'}, bad && h('b', hide, ICON[bad] + ' '), k + 1), h('span', {class: 't'}, paint(k)), h('span', {class: 'bars'}, l && [bar('forward'), bar('backward')]), h('span', {class: 'ms'}, l ? time(both(l)) : way && (way[0] === 'n' ? 'not taken' : 'taken')));
});
const source = h('div', {class: 'lines', style: `--digits:${('' + D.source.length).length + 4.2}ch`, role: 'listbox', 'aria-label': 'source with times', onkeydown: e => {
  const step = {ArrowDown: 1, ArrowUp: -1}[e.key], to = lineRows[lineRows.indexOf(e.target) + step];
  if (to) rove(e.target, to, source.parentElement);
  if (e.key === 'Enter') e.target.click(); else if (!step) return;
  e.preventDefault();
}}, lineRows);
said.textContent = D.hint;

