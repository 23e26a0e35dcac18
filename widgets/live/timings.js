// ---- timings: a timeline, then by line, op and kernel
function timeline() {
  const runs = rows('runs').filter(r => ['forward', 'backward', 'update'].includes(r.phase)), last = runs.reduce((m, r) => Math.max(m, r.start + r.ms), 0), width = 640, lanes = ['forward', 'backward', 'update'].filter(p => runs.some(r => r.phase === p));
  if (runs.length < 2 || !last) return [];
  const x = t => 70 + (width - 78) * t / last, svg = s('svg', {class: 'plot', viewBox: `0 0 ${width} ${22 * lanes.length + 24}`, width, height: 22 * lanes.length + 24, role: 'img', 'aria-label': `timeline of ${time(last)}`});
  lanes.forEach((p, k) => svg.append(s('text', {x: 64, y: 22 * k + 18, 'text-anchor': 'end'}, p), s('path', {class: 'edge', d: `M70 ${22 * k + 24}H${width - 8}`})));
  for (const r of runs) {
    const o = ops[r.op], on = () => { const what = choice([r.op]); if (o.line && !o.file) what.lines.add(o.line); light(what); foot.textContent = `${o.op}, ${r.phase} ${time(r.ms)} at ${time(r.start)}${o.line ? ', line ' + o.line : ''}${o.module ? ', ' + o.module : ''}`; };
    svg.append(s('rect', {class: r.phase[0], x: x(r.start).toFixed(2), y: 22 * lanes.indexOf(r.phase) + 6, width: Math.max(.6, x(r.ms) - 70).toFixed(2), height: 16, onmouseenter: on, onmouseleave: rest, onclick: () => reveal([r.op], o.file ? 0 : o.line)}));
  }
  svg.append(s('text', {x: 70, y: 22 * lanes.length + 20}, '0'), s('text', {x: width - 8, y: 22 * lanes.length + 20, 'text-anchor': 'end'}, time(last)));
  const foot = quiet(D.runs_left ? `The ${whole(runs.length)} longest of ${whole(runs.length + D.runs_left)} runs. Point at one.` : 'Point at a run.');
  return [h('div', {class: 'lead'}, svg, foot)];
}
function timingTables() {
  const ms = list => { const m = top(list, both), n = m >= 100 ? 1 : m >= 10 ? 2 : 3; return x => real(x) ? x.toFixed(n) : x ?? ''; };
  const spans = (list, one) => { const m = top(list, both), w = ms(list); return [[['runs', d => whole(d.count), 'count'], [one ? 'total ms' : 'forward ms', d => w(d.forward), 'forward'], ...(one ? [] : [['backward ms', d => w(d.backward), 'backward'], ['sum ms', d => w(both(d)), both]]), ['', d => track([['f', d.forward / m], ['b', d.backward / m]]), 0, 'text']], [whole(sum(list, 'count')), w(sum(list, 'forward')), ...(one ? [] : [w(sum(list, 'backward')), w(sum(list, 'forward') + sum(list, 'backward'))]), '']]; };
  const name = (k, cls) => [k, d => d[k], k, cls], [a, aSum] = spans(lines), [b, bSum] = spans(byOp), byModule = rows('by_module'), [m, mSum] = spans(byModule), [c, cSum] = spans(kernels, 1), rate = d => real(d.bytes_per_s) ? d.bytes_per_s < 1e8 ? '<0.1' : (d.bytes_per_s / 1e9).toFixed(1) : '';
  return [...timeline(), ...[table('By line', [['line', d => button(d.line, () => reveal([], d.line)), 'line'], ['source', d => (D.source[d.line - 1] || '').trim(), 0, 'code long'], ...a], lines, {total: ['', 'all lines', ...aSum]}),
    table('By op', [name('op', 'code'), ...b], byOp, {total: ['all ops', ...bSum], start: 4}),
    byModule.length > 1 && table('By module', [['module', d => d.op, 'op', 'code'], ...m], byModule, {total: ['all modules', ...mSum], start: 4}),
    table('By kernel', [name('kernel', 'code'), name('backend', 'text'), ...c, ['mean', d => time(d.mean_us / 1e3), 'mean_us'], ['GB/s', rate, 'bytes_per_s']], kernels, {total: ['all kernels', '', ...cSum, '', ''], start: 3})].filter(Boolean).flat()];
}
panel('Timings', timingTables);

