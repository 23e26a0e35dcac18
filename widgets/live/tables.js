// ---- tables: a column is [title, its cell, what it sorts by (or a key), "text" if it is no figure]
function table(caption, columns, data, {total, onrow, start} = {}) {
  const LIMIT = 300, body = h('tbody', {}), more = h('div', {class: 'more'}), cls = k => ({class: columns[k][3] || 'num'}), figures = k => columns[k][3] ? {} : cls(k), value = (d, k) => { const by = columns[k][2], x = typeof by === 'string' ? d[by] : by(d); return columns[k][3] || real(x) ? x : null; };
  let all = data.length <= LIMIT, order = [], made = data.map(d => { const tr = h('tr', {}, columns.map((c, k) => h('td', cls(k), clip(c[1](d))))); onrow?.(d, tr); return [d, tr]; });
  const fill = () => { body.replaceChildren(...made.slice(0, all ? made.length : LIMIT).flatMap(m => m[1].open ? [m[1], m[1].open] : [m[1]])); more.replaceChildren(all ? '' : button(`and ${whole(made.length - LIMIT)} more: show all`, () => { all = true; fill(); })); };
  const heads = columns.map((c, k) => h(c[0] ? 'th' : 'td', {...c[0] && {scope: 'col'}, ...figures(k)}, c[2] ? h('button', {type: 'button', onclick: () => by(k)}, c[0], h('span', hide)) : c[0]));
  function by(k) {
    const down = order[0] === k ? !order[1] : !columns[k][3], sign = down ? -1 : 1; order = [k, down];
    made.sort(([a], [b]) => { const x = value(a, k), y = value(b, k); return (x === null) - (y === null) || (x === y ? 0 : x < y ? -sign : sign); });
    heads.forEach((th, j) => { if (columns[j][2]) { th.setAttribute('aria-sort', j !== k ? 'none' : down ? 'descending' : 'ascending'); th.firstChild.lastChild.textContent = j !== k ? '' : down ? ' ↓' : ' ↑'; } });
    fill();
  }
  start ? by(start) : fill();
  return [h('table', {}, h('caption', {}, caption), h('thead', {}, h('tr', {}, heads)), body, total && h('tfoot', {}, h('tr', {}, total.map((t, k) => h('td', figures(k), t))))), more];
}
const unfold = (tr, wide, make) => { // a row that opens: its button by keyboard, all of it by mouse
  tr.onclick = e => {
    if (tr.open && tr.open.contains(e.target)) return;
    tr.querySelector('[aria-expanded]').setAttribute('aria-expanded', !tr.open);
    if (tr.open) { tr.open.remove(); tr.open = null; } else tr.after(tr.open = h('tr', {}, h('td', {class: 'open', colspan: wide}, h('div', {style: `max-width:${tr.closest('.scroll').clientWidth - 28}px`}, make()))));
  };
};
const track = parts => h('span', {class: 'track', ...hide}, parts.map(([c, x]) => x > 0 && h('u', {class: c, style: `width:${100 * x}%`})));
