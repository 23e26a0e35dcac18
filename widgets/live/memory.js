// ---- memory: bytes alive over time, and by the line that made them
const bytes = x => { const k = x >= 1e9 ? 3 : x >= 1e6 ? 2 : x >= 1e3 ? 1 : 0; return x ? (k ? fixed(x / 1e3 ** k) : x) + ' ' + ['bytes', 'kB', 'MB', 'GB'][k] : '0'; };
function memoryPanel() {
  const {peak, at, end, times, sizes} = D.memory, width = 640, high = 120, last = times[times.length - 1] || 1;
  const x = t => 8 + (width - 16) * t / last, y = b => 14 + high * (1 - b / peak);
  let d = `M${x(0)} ${y(0)}`; times.forEach((t, k) => d += `H${x(t).toFixed(1)}V${y(sizes[k]).toFixed(1)}`);
  const svg = s('svg', {class: 'plot', viewBox: `0 0 ${width} ${high + 34}`, width, height: high + 34, role: 'img', 'aria-label': `bytes alive over ${time(last)}, peak ${bytes(peak)} at ${time(at)}`},
    s('path', {class: 'area', d: `${d}V${y(0)}Z`}), s('path', {class: 'edge', d: `M8 ${y(0)}H${width - 8}`}), s('path', {class: 'edge peak', d: `M${x(at)} 12V${y(0)}`}),
    s('text', {x: x(at) + (at > last / 2 ? -5 : 5), y: 12, 'text-anchor': at > last / 2 ? 'end' : 'start'}, `peak ${bytes(peak)}`), s('text', {x: 8, y: high + 30}, '0'), s('text', {x: width - 8, y: high + 30, 'text-anchor': 'end'}, time(last)));
  const list = rows('memory_rows'), cell = k => [d => bytes(d[k]), k], column = (title, k) => [title, ...cell(k)], most = top(list, r => r.peak), total = k => bytes(sum(list, k));
  return [h('p', {class: 'lead'}, 'Results of ops took at most ', h('b', {}, bytes(peak)), ` at once, at ${time(at)}; ${bytes(end)} were alive at the end. Parameters and data that were there before are not counted.`), svg,
    ...table('By the line that made them', [['line', d => d.line ? button(d.line, () => reveal([], d.line)) : 'elsewhere', d => d.line || 0], ['source', d => (D.source[d.line - 1] || '').trim(), 0, 'code long'], column('alive at the peak', 'peak'), ['', d => track([['f', d.peak / most]]), 0, 'text'], column('made in all', 'made'), column('alive at the end', 'end'), ['arrays', d => whole(d.count), 'count']], list, {total: ['', 'all lines', total('peak'), '', total('made'), total('end'), whole(sum(list, 'count'))], start: 2})];
}
if (D.memory) panel('Memory', memoryPanel);

