// ---- how the search came closer, what matters, and how near the device's limit the configs are
const most = () => D.roof && {peak: D.roof[0], bytes: D.roof[1], whose: D.roof[2]}, work = t => t[5].work || D.roof.slice(3), big = x => { const k = x >= 1e12 ? [1e12, ' T'] : x >= 1e9 ? [1e9, ' G'] : x >= 1e6 ? [1e6, ' M'] : [1, ' ']; return number(x / k[0]) + k[1]; };
const speed = t => { const [flops, bytes] = work(t), seconds = (t[3] || t[2] * D.default_ms) / 1e3; return {rate: flops / seconds, moved: bytes / seconds, dense: flops / bytes}; };
function reached(t) { // in words: the rates of a config, and the share of what the device could give at its intensity
  const m = most();
  if (!m || !D.default_ms || !real(t[2])) return '';
  const {rate, dense} = speed(t), roof = Math.min(m.peak, dense * m.bytes);
  return ` That is ${big(rate)}FLOP/s, ${percents(rate / roof)} of the ${big(roof)}FLOP/s that ${roof < m.peak ? 'the memory' : 'the arithmetic'} allows.`;
}
const tick = k => ['1', '10', '100'][(k % 3 + 3) % 3] + ({0: '', 1: ' k', 2: ' M', 3: ' G', 4: ' T', 5: ' P'}[Math.floor(k / 3)] ?? 'e' + 3 * Math.floor(k / 3));
const percents = x => x > 1 ? 'more than 100 %' : +(100 * x).toPrecision(2) + ' %';
function progress() {
  const W = 760, H = 200, n = Math.max(D.trials.length, 2), ratios = right().map(t => t[2]), rules = [[1, 'default'], D.bound && D.default_ms && [D.bound[0] / D.default_ms, D.bound[2]], D.previous && [D.previous[1], 'previous best', 1]].filter(Boolean);
  const low = Math.log(Math.min(.9, ...rules.map(r => r[0]), ...ratios)), high = Math.log(Math.min(4, Math.max(1.2, ...ratios))), X = k => 44 + k / (n - 1) * (W - 60), Y = r => 14 + (high - Math.log(Math.min(r, 4))) / (high - low) * (H - 40);
  let b = Infinity, path = '';
  const dots = D.trials.map((t, k) => { if (real(t[2]) && t[2] < b) { path += path ? ` H${X(k).toFixed(1)} V${Y(t[2]).toFixed(1)}` : `M${X(k).toFixed(1)} ${Y(t[2]).toFixed(1)}`; b = t[2]; } return real(t[2]) ? s('circle', {cx: X(k).toFixed(1), cy: Y(t[2]).toFixed(1), r: 2, class: 'dot'}) : s('text', {x: X(k), y: H - 20, class: 'flag row', 'text-anchor': 'middle'}, '✕'); });
  const rule = ([r, name, left]) => [s('line', {class: 'axis', x1: 44, x2: W - 16, y1: Y(r), y2: Y(r)}), !left && s('text', {x: 40, y: Y(r) + 4, 'text-anchor': 'end'}, number(r)), s('text', {class: 'halo', x: left ? 48 : W - 16, y: Y(r) - 4, 'text-anchor': left ? 'start' : 'end'}, left ? `${name} ${number(r)}` : name)];
  return [h('p', {class: 'lead'}, h('b', {}, "Each trial's time, of the default's"), quiet(' · the line is the best so far')), s('svg', {class: 'plot wide', viewBox: `0 0 ${W} ${H}`, width: W, role: 'img', 'aria-label': `time of the default's, trial by trial; the best so far is ${number(b)}`}, rules.map(rule), dots, path && s('path', {class: 'first', d: path + ` H${W - 16}`}), s('text', {x: W / 2, y: H - 4, 'text-anchor': 'middle'}, count(D.trials.length, 'trial'))),
    D.importance.length ? h('table', {}, h('caption', {}, 'How much of the spread each tunable explains by itself'), h('thead', {}, h('tr', {}, h('th', {scope: 'col'}, 'tunable'), h('th', {scope: 'col', class: 'num'}, 'share'), h('td', {}))), h('tbody', {}, D.importance.map(([n, v]) => h('tr', {}, h('td', {}, n), h('td', {class: 'num'}, share(v)), h('td', {}, h('span', {class: 'track'}, h('u', {class: 'f', style: `width:${100 * v}%`}))))))) : null];
}
function roofline() {
  const m = most(), list = right();
  if (!m) return [h('p', {class: 'lead'}, "There is no roofline: nobody has counted this kernel's operations, or what this device reaches is not known.")];
  if (!list.length || !D.default_ms) return [h('p', {class: 'lead'}, 'Nothing has a time yet.')];
  const W = 760, H = 260, ridge = m.peak / m.bytes, all = list.map(t => [t, speed(t)]), rates = all.map(([, v]) => v.rate), dense = all.map(([, v]) => v.dense);
  const l = Math.log10, x0 = Math.floor(l(Math.min(ridge / 4, ...dense))), x1 = Math.max(Math.ceil(l(Math.max(ridge * 4, ...dense))), x0 + 1), y1 = l(m.peak) + .25, y0 = Math.min(l(Math.min(...rates)) - .2, y1 - 1.5);
  const X = v => 52 + (l(v) - x0) / (x1 - x0) * (W - 74), Y = v => 12 + (y1 - l(v)) / (y1 - y0) * (H - 52), b = best(), first = D.trials.find(t => t[2] === 1), corner = Math.max(10 ** y0 / m.bytes, 10 ** x0);
  const decades = (a, z) => Array.from({length: Math.max(0, Math.floor(z) - Math.ceil(a) + 1)}, (_, k) => Math.ceil(a) + k);
  const named = (t, name, dy) => t && s('text', {class: 'halo', x: X(speed(t).dense) + 9, y: Y(speed(t).rate) + dy}, name), v = speed(b), limit = v.dense < ridge ? 'memory' : 'arithmetic';
  return [h('p', {class: 'lead'}, h('b', {}, 'Roofline'), quiet(` · ${big(m.peak)}FLOP/s and ${big(m.bytes)}B/s are ${m.whose} figures` + (D.estimate ? '; the points are estimates' : '') + (m.whose.includes('measured') ? '; arrays that lie in the cache may pass the slope' : ''))),
    s('svg', {class: 'plot wide', viewBox: `0 0 ${W} ${H}`, width: W, role: 'img', 'aria-label': `operations a second over operations a byte; the best reaches ${big(v.rate)}FLOP/s at ${number(v.dense)} a byte`},
      decades(x0, x1).map(k => [s('line', {class: 'axis faint', x1: X(10 ** k), x2: X(10 ** k), y1: 12, y2: H - 40}), s('text', {class: 'row', x: X(10 ** k), y: H - 26, 'text-anchor': 'middle'}, k < -2 || k > 3 ? '1e' + k : String(+(10 ** k).toPrecision(1)))]), decades(y0, y1).map(k => [s('line', {class: 'axis faint', x1: 52, x2: W - 22, y1: Y(10 ** k), y2: Y(10 ** k)}), s('text', {class: 'row', x: 46, y: Y(10 ** k) + 3, 'text-anchor': 'end'}, tick(k))]),
      s('path', {class: 'roof', d: `M${X(corner).toFixed(1)} ${Y(corner * m.bytes).toFixed(1)} L${X(ridge).toFixed(1)} ${Y(m.peak).toFixed(1)} H${W - 22}`}), s('text', {x: W / 2, y: H - 8, 'text-anchor': 'middle'}, 'operations a byte'), s('text', {class: 'halo', x: 56, y: 24}, 'operations a second'),
      all.map(([, p]) => s('circle', {class: 'dot', r: 2.5, cx: X(p.dense).toFixed(1), cy: Y(p.rate).toFixed(1)})), first && s('circle', {class: 'ring', r: 5, cx: X(speed(first).dense), cy: Y(speed(first).rate)}), s('circle', {class: 'top', r: 5, cx: X(v.dense), cy: Y(v.rate)}), first && first !== b && named(first, 'default', 12), named(b, first === b ? 'the default is the best' : 'best', -5)),
    h('p', {class: 'lead'}, `The best: ${big(v.rate)}FLOP/s at ${number(v.dense)} operations a byte, where the ${limit} is the limit: ${percents(v.rate / Math.min(m.peak, v.dense * m.bytes))} of what it allows.`), D.bound && h('p', {class: 'lead quiet'}, `At best ${time(D.bound[0])}: ${D.bound[1]}.`)];
}
