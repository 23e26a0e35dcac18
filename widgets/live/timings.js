// ---- timings by line, op and kernel
function timingTables() {
  const ms = list => { const m = top(list, both), n = m >= 100 ? 1 : m >= 10 ? 2 : 3; return x => real(x) ? x.toFixed(n) : x ?? ''; };
  const spans = (list, one) => { const m = top(list, both), w = ms(list); return [[['runs', d => whole(d.count), 'count'], [one ? 'total ms' : 'forward ms', d => w(d.forward), 'forward'], ...(one ? [] : [['backward ms', d => w(d.backward), 'backward'], ['sum ms', d => w(both(d)), both]]), ['', d => track([['f', d.forward / m], ['b', d.backward / m]]), 0, 'text']], [whole(sum(list, 'count')), w(sum(list, 'forward')), ...(one ? [] : [w(sum(list, 'backward')), w(sum(list, 'forward') + sum(list, 'backward'))]), '']]; };
  const name = (k, cls) => [k, d => d[k], k, cls], [a, aSum] = spans(lines), [b, bSum] = spans(byOp), [c, cSum] = spans(kernels, 1), rate = d => real(d.bytes_per_s) ? d.bytes_per_s < 1e8 ? '<0.1' : (d.bytes_per_s / 1e9).toFixed(1) : '';
  return [table('By line', [['line', d => button(d.line, () => reveal([], d.line)), 'line'], ['source', d => (D.source[d.line - 1] || '').trim(), 0, 'code long'], ...a], lines, {total: ['', 'all lines', ...aSum]}),
    table('By op', [name('op', 'code'), ...b], byOp, {total: ['all ops', ...bSum], start: 4}),
    table('By kernel', [name('kernel', 'code'), name('backend', 'text'), ...c, ['mean', d => time(d.mean_us / 1e3), 'mean_us'], ['GB/s', rate, 'bytes_per_s']], kernels, {total: ['all kernels', '', ...cSum, '', ''], start: 3})].flat();
}
panel('Timings', timingTables);

