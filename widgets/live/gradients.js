// ---- gradients: a heat map, a table, a histogram under each row
function heatMap() { // one row a parameter, one column a power of two, darker where more of its elements lie
  const list = gradients, step = Math.ceil(list.length / 100) || 1, kept = list.filter((g, i) => i % step === 0 || (g.flags.length && i < 100 * step)), high = 13, left = 226, LEVELS = 6;
  if (kept.length < 2) return [];
  const first = g => g.histogram.findIndex(n => n), full = kept.filter(g => first(g) >= 0);
  const low = full.reduce((m, g) => Math.min(m, first(g)), 64), up = full.reduce((m, g) => Math.max(m, 63 - [...g.histogram].reverse().findIndex(n => n)), 0) + 1, a = Math.max(0, Math.min(low, 56)), b = Math.max(up, a + 8), wide = Math.min(20, 420 / (b - a));
  const paths = Array.from({length: LEVELS}, () => ''), svg = s('svg', {class: 'plot', viewBox: `0 0 666 ${high * kept.length + 40}`, width: 666, height: high * kept.length + 40, role: 'img', 'aria-label': 'heat map of log2 |gradient| by parameter'});
  kept.forEach((g, k) => {
    const most = Math.max(1, ...g.histogram);
    g.histogram.forEach((n, i) => { if (n && i >= a && i < b) paths[Math.min(LEVELS - 1, Math.floor(LEVELS * Math.sqrt(n / most)))] += `M${left + wide * (i - a)} ${high * k + 6}h${wide}v${high - 1}h${-wide}z`; });
    const on = () => light(choice([], 0, [g.name])), [said] = flags(g), y = high * k;
    if (said && first(g) < 0) svg.append(s('text', {x: left + 4, y: y + 16, class: 'row flag'}, said === SAID.none ? 'none' : said));
    svg.append(s('text', {x: left - 8, y: y + 16, 'text-anchor': 'end', class: said ? 'row flag' : 'row'}, g.name.length > 36 ? '…' + g.name.slice(-35) : g.name), s('rect', {class: 'hit', x: 0, y: y + 5, width: 666, height: high, onmouseenter: on, onmouseleave: rest, onclick: e => openGradient(g, e.target.closest('.scroll'))}));
  });
  paths.forEach((d, i) => svg.append(s('path', {d, fill: `color-mix(in srgb, var(--forward) ${Math.round(18 + 82 * i / (LEVELS - 1))}%, var(--bg))`})));
  for (let e = a; e <= b; e += Math.max(Math.ceil(34 / wide), Math.round((b - a) / 8))) svg.append(s('text', {x: left + wide * (e - a), y: high * kept.length + 22, 'text-anchor': 'middle'}, '2', s('tspan', {dy: -4, 'font-size': 8}, '' + (e - 40))));
  return [h('div', {class: 'lead'}, 'Elements of each gradient by power of two', step > 1 ? `, every ${step}th parameter` : '', ', from input to loss: the darker, the more. A row opens its histogram. ', kept.length > 24 && button('to the table', e => { const box = e.target.closest('.scroll'); box.scrollTop += box.querySelector('table').getBoundingClientRect().top - box.getBoundingClientRect().top; }), svg)];
}
const SAID = {none: 'no gradient', zero: 'all zero', nan: 'NaN'}, flags = g => g.norm === null ? [SAID.none] : g.flags.map(f => SAID[f] || f);
function openGradient(g, box) { // from the map to the row that holds the figures and the histogram
  const row = gradientRows.find(r => r[0] === g)?.[1]; if (!row || !row.isConnected) return;
  if (!row.open) row.onclick({target: row});
  pin(choice([], 0, [g.name])); nearest(box, row); row.querySelector('[aria-expanded]').focus({preventScroll: true});
}
function histogram(g) {
  const most = Math.max(...g.histogram, 1), svg = s('svg', {viewBox: '0 0 528 96', width: 528, height: 96, role: 'img', 'aria-label': 'histogram of log2 |gradient|'});
  g.histogram.forEach((n, i) => { const high = n && Math.max(1, 72 * n / most); svg.append(s('rect', {class: 'f', x: 8 + 8 * i, y: 76 - high, width: 7, height: high})); });
  svg.append(s('path', {class: 'edge', d: 'M8 76.5H520'}));
  for (let e = -40; e <= 24; e += 8) svg.append(s('text', {x: 328 + 8 * e, y: 92}, '2', s('tspan', {dy: -4, 'font-size': 8}, '' + e)));
  return [h('div', {class: 'quiet'}, `Elements by power of two of |gradient|. Rms ${number(g.rms)}, largest ${number(g.max_abs)}, weights' rms ${number(g.weight_rms)}, accumulated ${count(g.count, 'time')}${g.nonfinite ? ', NaN or infinite ' + whole(g.nonfinite) : ''}.`), svg];
}
function gradientTable() {
  const plain = (title, k, write = number) => [title, g => write(g[k]), k];
  const note = g => { const f = findings.find(f => f.line && f.parameters.includes(g.name)), go = e => { e.stopPropagation(); reveal(f.ops, f.line, f.parameters); }; return [h('span', {class: 'flag'}, flags(g).join(', ')), f && [' ', button('line ' + f.line, go)]]; };
  return table('', [['parameter', g => h('button', {type: 'button', 'aria-expanded': 'false'}, g.name), 'name', 'code'], ['shape', g => g.shape, 'shape', 'text'], plain('norm', 'norm'), plain('mean', 'mean'), plain('std', 'std'), plain('zeros', 'zeros', share), plain(['update /', h('br', {}), 'weight'], 'update_ratio'), ['flags', note, g => flags(g).join() || '\uffff', 'text']], gradients, {onrow: (g, tr) => {
    gradientRows.push([g, tr]);
    unfold(tr, 8, () => g.norm === null ? [D.unreached] : histogram(g));
  }});
}
panel(`Gradients (${gradients.length})`, () => gradients.length ? [...heatMap(), ...gradientTable()] : ['No parameter took part.']);

