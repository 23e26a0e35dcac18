// ---- every config as a line over its tunables; a stretch of an axis, or values chosen above, lets through what has them
const various = () => D.tunables.map((t, k) => k).filter(k => D.tunables[k][1].length > 1);
function pickValues() {
  return [...various().map(k => h('span', {class: 'chips', role: 'group', 'aria-label': D.tunables[k][0]}, h('b', {}, D.tunables[k][0]), D.tunables[k][1].map((v, c) => h('button', {type: 'button', 'aria-pressed': !!wanted.get(k)?.has(c), onclick: e => {
    const set = wanted.get(k) || new Set();
    set.has(c) ? set.delete(c) : set.add(c);
    set.size ? wanted.set(k, set) : wanted.delete(k);
    e.target.setAttribute('aria-pressed', set.has(c)); body();
  }}, v)))), h('label', {}, h('b', {}, 'of default '), h('select', {class: 'find by', onchange: e => {
    const ratios = right().map(t => t[2]).sort((a, b) => a - b), upto = ratios[Math.ceil(ratios.length * +e.target.value) - 1];
    within = +e.target.value < 1 ? [0, upto] : null; body();
  }}, [['1', 'all'], ['.5', 'the fastest half'], ['.1', 'the fastest tenth'], ...(within ? [['2', `${number(within[0])} to ${number(within[1])}`]] : [])].map(([v, text]) => h('option', {value: v, ...within && v === '2' && {selected: ''}}, text)))),
  (wanted.size > 0 || within) && button('Show all', () => { wanted.clear(); within = null; tab(); })].filter(Boolean);
}
function configs() {
  const passes = t => [...wanted].every(([k, set]) => set.has(t[0][k])) && (!within || t[2] >= within[0] && t[2] <= within[1]), list = right().sort((a, b) => a[2] - b[2]), through = list.filter(passes);
  const many = various(), W = 760, H = 230, x = k => 34 + k * (W - 76) / many.length, y = (c, k) => { const n = D.tunables[k][1].length; return H - 20 - (n > 1 ? c / (n - 1) : .5) * (H - 58); };
  const worst = Math.log(Math.max(1.01, ...list.map(t => Math.min(t[2], 4)))), low = Math.log(list[0]?.[2] || .5), z = r => H - 20 - (worst - Math.log(Math.min(r, 4))) / (worst - low || 1) * (H - 58), ratioAt = v => Math.exp(worst - (H - 20 - v) / (H - 58) * (worst - low || 1));
  const line = (t, cls) => s('polyline', {class: cls, points: many.map((k, i) => `${x(i)},${y(t[0][k], k).toFixed(1)}`).join(' ') + ` ${x(many.length)},${z(t[2]).toFixed(1)}`});
  const band = (i, a, b) => s('rect', {class: 'brush', x: x(i) - 7, width: 14, y: Math.min(a, b) - 6, height: Math.abs(b - a) + 12});
  const drawn = [...wanted].filter(([k]) => many.includes(k)).map(([k, set]) => { const at = [...set].map(c => y(c, k)); return band(many.indexOf(k), Math.min(...at), Math.max(...at)); });
  if (within) drawn.push(band(many.length, z(Math.max(within[0], list[0]?.[2] || 0)), z(within[1])));
  const drawing = s('svg', {class: 'plot wide', viewBox: `0 0 ${W} ${H}`, width: W, role: 'img', 'aria-label': 'configs as lines over their tunables, the fastest on top; the table below says the same'},
    list.slice(0, 400).reverse().filter(t => !passes(t)).map(t => line(t, 'dim')), through.slice(0, 400).reverse().map((t, i, all) => line(t, i >= all.length - 3 ? 'first' : 'some')), chosen && line(chosen, 'picked'), drawn,
    [...many, -1].map((k, i) => [s('line', {class: 'axis', x1: x(i), x2: x(i), y1: 32, y2: H - 14}), s('text', {x: x(i), y: 16, 'text-anchor': 'middle'}, k < 0 ? 'of default' : D.tunables[k][0]), (k < 0 ? list.length ? [[list[0][2].toFixed(2), z(list[0][2])], [number(Math.exp(worst)), z(Math.exp(worst))]] : [] : D.tunables[k][1].map((v, c) => [v, y(c, k)])).map(([v, at]) => s('text', {class: 'row halo', x: x(i) + 5, y: at + 3}, v)), s('rect', {class: 'grip', x: x(i) - 12, y: 26, width: 24, height: H - 34, 'data-axis': i})]));
  const at = e => { const box = drawing.getBoundingClientRect(); return (e.clientY - box.top) * H / box.height; };
  let from = null, axis = 0, mark = null;
  drawing.onpointerdown = e => { const i = e.target.dataset.axis; if (i === undefined) return; axis = +i; from = at(e); drawing.setPointerCapture(e.pointerId); e.preventDefault(); drawing.dataset.busy = 1; };
  drawing.onpointermove = e => { if (from === null) return; mark?.remove(); drawing.append(mark = band(axis, from, at(e))); };
  drawing.onpointerup = e => {
    if (from === null) return;
    const [a, b] = [from, at(e)].sort((p, q) => p - q), k = many[axis]; from = null; // as high as wide: a click lets all through again
    if (k === undefined) within = b - a < 4 ? null : [ratioAt(a), ratioAt(b)];
    else { const set = new Set(D.tunables[k][1].map((_, c) => c).filter(c => y(c, k) >= a - 6 && y(c, k) <= b + 6)); b - a < 4 || !set.size ? wanted.delete(k) : wanted.set(k, set); }
    tab();
  };
  return [drawing, h('p', {class: 'lead quiet'}, 'Draw along an axis, or choose values above, to keep the configs that pass there.'), h('table', {}, h('caption', {}, `${whole(through.length)} of ${count(list.length, 'config')}; choose one to read why it is slow`), h('thead', {}, h('tr', {}, h('th', {class: 'num', scope: 'col'}, 'of default'), h('th', {class: 'num', scope: 'col'}, 'time'), h('th', {scope: 'col'}, 'config'))),
    h('tbody', {}, [...through.slice(0, 30), ...through.slice(30).slice(-10)].map(t => h('tr', {class: t === chosen ? 'lit' : ''}, h('td', {class: 'num'}, t[2].toFixed(3)), h('td', {class: 'num'}, time(t[3])), h('td', {class: 'long'}, button(words(t[0]), e => { chosen = t; bodies.querySelectorAll('tr.lit').forEach(r => r.classList.remove('lit')); e.target.closest('tr').classList.add('lit'); foot(why(t)); }, {class: 'link code'}))))))];
}
