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
  const later = D.runs_later > 0 && h('div', {class: 'quiet'}, `The timeline ends here, at ${time(last)}: the cell's ${whole(D.runs_later)} later runs are in the tables alone.`);
  return [h('div', {class: 'lead'}, svg, foot, later)];
}
// ---- a kernel's rates beside what the machine was measured to reach
const {machine} = D, NO_PEAK = 'The peak was not measured on this machine', giga = x => !real(x) ? x ?? '' : x < 1e8 ? '<0.1' : x < 1e12 ? fixed(x / 1e9) : whole(Math.round(x / 1e9));
for (const k of kernels) {
  const mine = machine && machine.device === k.device;
  k.most = [['GB/s', k.bytes_per_s, mine && machine.bytes_per_s, 'copied'], ['GFLOP/s', k.flops_per_s, mine && machine.flops_per_s[k.dtype], `of a ${k.dtype} product`]].filter(m => real(m[1]));
  k.shares = k.most.map(([, x, peak]) => peak > 0 ? x / peak : null); k.reached = k.shares.some(real) ? Math.max(...k.shares) : null;
}
const percent = x => x > 1 ? '>100 %' : x < .001 ? '<0.1 %' : +(100 * x).toPrecision(2) + ' %';
const ofPeak = k => real(k.reached) ? percent(k.reached) : k.most.length ? quiet('not measured') : '';
function tuner(command, itself) { // the kernel that drew this card starts it below; a card that nobody listens to has the command copied, or selected where that is forbidden
  const code = h('code', {class: 'code'}, command), told = h('span', {class: 'quiet', role: 'status'}), say = words => told.textContent = words;
  const copy = async () => { try { await navigator.clipboard.writeText(command); say('copied; run it in a new cell'); } catch { getSelection().selectAllChildren(code); say('copy it, and run it in a new cell'); } };
  return h('p', {}, button(itself ? 'Tune this kernel' : 'Tune a C kernel', e => {
    e.stopPropagation();
    if (ask(root.dataset.kernel, command, a => a.said ? say(a.said) : copy())) say('asked the kernel …'); else copy();
  }), ' ', code, ' ', !itself && quiet("the tuner's own, at this shape: your ops do not run it. "), told);
}
function aboutKernel(k) {
  const list = k.declined.map(t => h('li', {class: 'code'}, clip(t)));
  return [h('p', {}, h('b', {}, time(k.mean_us / 1e3)), quiet(' a run'), k.inputs.length > 0 && [quiet(', first on '), k.inputs.join(', ')], k.config && [quiet(' with '), h('span', {class: 'code'}, k.config)]),
    ...k.most.map(([unit, x, peak, what], i) => h('p', {}, h('b', {}, `${giga(x)} ${unit}`), quiet(peak > 0 ? `, ${percent(k.shares[i])} of the ${giga(peak)} ${unit} ${what} that this machine reaches` : `: ${machine ? 'no peak was measured for this' : NO_PEAK.toLowerCase()}`))),
    list.length ? h('div', {}, quiet('declined before it:'), h('ul', {}, list)) : h('p', {class: 'quiet'}, k.device && k.backend !== 'PyTorch' && !k.op.endsWith(' backward') ? 'It stands first: no kernel declined.' : ''),
    k.tune ? tuner(k.tune, k.backend === 'Triton' || k.tune.startsWith('%tune core_')) : h('p', {class: 'quiet'}, 'The tuner has no space for this kernel.')].filter(Boolean);
}
const slow = k => k.tune && k.forward >= .1 * sum(kernels, 'forward'), tuneRow = e => { // opens its row, and presses what is in it
  const tr = e.target.closest('tr');
  e.stopPropagation();
  if (!tr.open) tr.onclick(e);
  tr.open.querySelector('.link').click();
};
function timingTables() {
  const ms = list => { const m = top(list, both), n = m >= 100 ? 1 : m >= 10 ? 2 : 3; return x => real(x) ? x.toFixed(n) : x ?? ''; };
  const spans = (list, one) => { const m = top(list, both), w = ms(list); return [[['runs', d => whole(d.count), 'count'], [one ? 'total ms' : 'forward ms', d => w(d.forward), 'forward'], ...(one ? [] : [['backward ms', d => w(d.backward), 'backward'], ['sum ms', d => w(both(d)), both]]), ['', d => track([['f', d.forward / m], ['b', d.backward / m]]), 0, 'text']], [whole(sum(list, 'count')), w(sum(list, 'forward')), ...(one ? [] : [w(sum(list, 'backward')), w(sum(list, 'forward') + sum(list, 'backward'))]), '']]; };
  const name = (k, cls) => [k, d => d[k], k, cls], [a, aSum] = spans(lines), [b, bSum] = spans(byOp), byModule = rows('by_module'), [m, mSum] = spans(byModule), [c, cSum] = spans(kernels, 1);
  return [...timeline(), ...[table('By line', [['line', d => button(d.line, () => reveal([], d.line)), 'line'], ['source', d => (D.source[d.line - 1] || '').trim(), 0, 'code long'], ...a], lines, {total: ['', 'all lines', ...aSum]}),
    table('By op', [name('op', 'code'), ...b], byOp, {total: ['all ops', ...bSum], start: 4}),
    byModule.length > 1 && table('By module', [['module', d => d.op, 'op', 'code'], ...m], byModule, {total: ['all modules', ...mSum], start: 4}),
    table('By kernel', [['kernel', d => [h('button', {type: 'button', 'aria-expanded': 'false'}, d.kernel), slow(d) && h('button', {type: 'button', class: 'tune', 'aria-label': 'Tune ' + d.kernel, onclick: tuneRow}, 'Tune')].filter(Boolean), 'kernel', 'code'], name('backend', 'text'), ...c, ['GB/s', d => giga(d.bytes_per_s), 'bytes_per_s'], ['GFLOP/s', d => giga(d.flops_per_s), 'flops_per_s'], ['of peak', ofPeak, d => d.reached]], kernels, {total: ['all kernels', '', ...cSum, '', '', ''], start: 3, onrow: (d, tr) => unfold(tr, 8, () => aboutKernel(d))}),
    kernels.length && h('p', {class: 'lead'}, machine ? ['Peak: what this machine was measured to reach, ', h('b', {}, giga(machine.bytes_per_s) + ' GB/s'), ' copied', Object.entries(machine.flops_per_s).map(([dtype, x]) => [', ', h('b', {}, giga(x) + ' GFLOP/s'), ` in ${dtype} products`]), ` (${machine.name}${machine.threads ? ', ' + count(machine.threads, 'thread') : ''}). Arrays that lie in its cache may pass it. Open a kernel for its config, for who declined, and to tune it.`] : NO_PEAK + ', so rates stand alone. Open a kernel for its config, for who declined, and to tune it.')].filter(Boolean).flat()];
}
panel('Timings', timingTables);

