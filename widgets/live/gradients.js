// ---- gradients: a table, a histogram under each row
const SAID = {none: 'no gradient', zero: 'all zero', nan: 'NaN'};
function histogram(g) {
  const most = Math.max(...g.histogram, 1), svg = s('svg', {viewBox: '0 0 528 96', width: 528, height: 96, role: 'img', 'aria-label': 'histogram of log2 |gradient|'});
  g.histogram.forEach((n, i) => { const high = n && Math.max(1, 72 * n / most); svg.append(s('rect', {class: 'f', x: 8 + 8 * i, y: 76 - high, width: 7, height: high})); });
  svg.append(s('path', {class: 'edge', d: 'M8 76.5H520'}));
  for (let e = -40; e <= 24; e += 8) svg.append(s('text', {x: 328 + 8 * e, y: 92}, '2', s('tspan', {dy: -4, 'font-size': 8}, '' + e)));
  return [h('div', {class: 'quiet'}, `Elements by power of two of |gradient|. Largest ${number(g.max_abs)}, weights' rms ${number(g.weight_rms)}, accumulated ${count(g.count, 'time')}${g.nonfinite ? ', NaN or infinite ' + whole(g.nonfinite) : ''}.`), svg];
}
function gradientTable() {
  const log = g => real(g.rms) && g.rms > 0 ? Math.log10(g.rms) : null, logs = gradients.map(log).filter(real), low = Math.floor(Math.min(...logs, 0)) - 1, high = Math.max(Math.ceil(Math.max(...logs, low)), low + 3);
  const flags = g => g.norm === null ? [SAID.none] : g.flags.map(f => SAID[f] || f), plain = (title, k, write = number) => [title, g => write(g[k]), k];
  const note = g => { const f = findings.find(f => f.line && f.parameters.includes(g.name)), go = e => { e.stopPropagation(); reveal(f.ops, f.line, f.parameters); }; return [h('span', {class: 'flag'}, flags(g).join(', ')), f && [' ', button('line ' + f.line, go)]]; };
  return table('', [['parameter', g => h('button', {type: 'button', 'aria-expanded': 'false'}, g.name), 'name', 'code'], ['note', note, g => flags(g).join(), 'text'], ['shape', g => g.shape, 'shape', 'text'], plain('norm', 'norm'), plain('rms', 'rms'), [`1e${low} … 1e${high}`, g => log(g) !== null && track([['f', Math.max(.02, (log(g) - low) / (high - low))]]), 0, 'text'],
    plain('mean', 'mean'), plain('std', 'std'), plain('zeros', 'zeros', share), plain(['update /', h('br', {}), 'weight'], 'update_ratio')], gradients, {onrow: (g, tr) => {
    gradientRows.push([g, tr]);
    tr.onclick = () => {
      tr.querySelector('[aria-expanded]').setAttribute('aria-expanded', !tr.open);
      if (tr.open) { tr.open.remove(); tr.open = null; } else tr.after(tr.open = h('tr', {}, h('td', {class: 'open', colspan: 10}, g.norm === null ? D.unreached : histogram(g))));
    };
  }});
}
panel(`Gradients (${gradients.length})`, () => gradients.length ? gradientTable() : ['No parameter took part.']);

