// ---- memory: bytes alive over time, and by the line that made them
const bytes = x => { const k = x >= 1e9 ? 3 : x >= 1e6 ? 2 : x >= 1e3 ? 1 : 0; return x ? (k ? fixed(x / 1e3 ** k) : x) + ' ' + ['bytes', 'kB', 'MB', 'GB'][k] : '0'; };
function memoryPanel() {
  const {peak, at, end, times, sizes, line, by} = D.memory, width = 640, high = 120, last = times[times.length - 1] || 1, foot = quiet('Point at the course for the bytes at a moment.');
  const x = t => 8 + (width - 16) * t / last, y = b => 14 + high * (1 - b / peak), source = d => (D.source[d.line - 1] || '').trim(), go = k => k ? button(k, e => { e.stopPropagation(); reveal([], k); }) : 'elsewhere';
  let d = `M${x(0)} ${y(0)}`; times.forEach((t, k) => d += `H${x(t).toFixed(1)}V${y(sizes[k]).toFixed(1)}`);
  const here = s('path', {class: 'edge', d: ''}), right = at > last / 2, words = `peak ${bytes(peak)}${line ? ', line ' + line : ''}${by ? ', ' + by : ''}`;
  const svg = s('svg', {class: 'plot', viewBox: `0 0 ${width} ${high + 34}`, width, height: high + 34, role: 'img', 'aria-label': `bytes alive over ${time(last)}, ${words} at ${time(at)}`, onmousemove: e => {
    const box = svg.getBoundingClientRect(), pad = 14, t = Math.min(last, Math.max(0, ((e.clientX - box.left - pad) * width / (box.width - 2 * pad) - 8) * last / (width - 16))); let k = times.length - 1;
    while (k >= 0 && times[k] > t) k--;
    here.setAttribute('d', `M${x(t)} 14V${y(0)}`); foot.textContent = `${bytes(k < 0 ? 0 : sizes[k])} alive at ${time(t)}`;
  }}, s('path', {class: 'area', d: `${d}V${y(0)}Z`}), s('path', {class: 'edge', d: `M8 ${y(0)}H${width - 8}`}), here, s('path', {class: 'edge peak', d: `M${x(at)} 12V${y(0)}`}),
    s('text', {x: x(at) + (right ? -5 : 5), y: 10, 'text-anchor': right ? 'end' : 'start'}, words), s('text', {x: 8, y: high + 30}, '0'), s('text', {x: width - 8, y: high + 30, 'text-anchor': 'end'}, time(last)));
  const list = rows('memory_rows'), held = rows('held'), column = (above, below, k) => [[above, h('br', {}), below], d => bytes(d[k]), k], most = top(list, r => Math.max(r.peak, r.held)), total = k => bytes(sum(list, k)), largest = top(held, r => r.bytes);
  return [h('p', {class: 'lead'}, 'Results of ops took at most ', h('b', {}, bytes(peak)), ` at once, at ${time(at)}`, line > 0 && [', when line ', go(line), ` ran ${by}`], `; ${bytes(end)} were alive at the end. Parameters and data that were there before are not counted.`), h('div', {class: 'lead'}, svg, foot),
    ...table('By line', [['line', d => go(d.line), d => d.line || 0], ['source', source, 0, 'code long'], column('made, alive', 'at the peak', 'peak'), column('kept', 'at the peak', 'held'), ['', d => track([['b', d.held / most]]), 0, 'text'], column('made', 'in all', 'made'), column('alive', 'at the end', 'end'), ['arrays', d => whole(d.count), 'count']], list, {total: ['', 'all lines', total('peak'), total('held'), '', total('made'), total('end'), whole(sum(list, 'count'))], start: 3}),
    ...(held.length ? table('Alive at the peak', [['what', d => h('span', {}, d.name, d.count > 1 && quiet(' ×' + whole(d.count)), ' ', quiet(d.shape)), 'name', 'code'], ['bytes', d => bytes(d.bytes), 'bytes'], ['', d => track([['f', d.bytes / largest]]), 0, 'text'], ['made on', d => go(d.line), d => d.line || 0], ['kept by', d => go(d.keeper), d => d.keeper || 0], ['because', d => d.why, 'why', 'text']], held, {start: 1, onrow: (d, tr) => {
      if (real(d.op)) { tr.onmouseenter = () => light(choice([d.op], d.keeper)); tr.onmouseleave = rest; }
    }}) : [])];
}
if (D.memory) panel('Memory', memoryPanel);
