// ---- tabs and the whole
const panels = stages.map((p, k) => h('div', {role: 'tabpanel', id: 'p' + k, 'aria-labelledby': 't' + k}, p.ready || h('div', {class: 'scroll', tabindex: 0})));
const tabs = stages.map(({name}, k) => h('button', {type: 'button', role: 'tab', id: 't' + k, 'aria-controls': 'p' + k, onclick: () => tab(k)}, name));
function tab(k) {
  const p = stages[k];
  if (p.make) { panels[k].firstChild.append(...p.make()); p.make = null; rest(); }
  tabs.forEach((t, j) => { t.setAttribute('aria-selected', j === k); t.tabIndex = j === k ? 0 : -1; panels[j].hidden = j !== k; });
}
const bar = h('div', {role: 'tablist', 'aria-label': 'views', onkeydown: e => {
  const k = tabs.indexOf(e.target), to = {ArrowRight: (k + 1) % tabs.length, ArrowLeft: (k + tabs.length - 1) % tabs.length, Home: 0, End: tabs.length - 1}[e.key];
  if (to >= 0) { e.preventDefault(); tab(to); tabs[to].focus(); }
}}, tabs);
tab(0);
// Without this, Enter, Esc and the arrows would be the notebook's.
const host = h('div', {'data-lm-suppress-shortcuts': 'true', onkeydown: e => { if (!e.ctrlKey && !e.metaKey && !e.altKey) e.stopPropagation(); }});
const tall = Math.max(20 * lineRows.length + 30 * folds.length + 90, layouts[views[D.start].layout].h + 150);
host.attachShadow({mode: 'open'}).append(h('style', {}, D.css), h('section', {class: 'card', 'aria-label': 'autograd card ' + head.title}, header, list,
  h('div', {class: 'body', style: `--tall:${Math.max(320, Math.min(520, tall))}px`}, h('div', {class: 'pane source'}, h('div', {class: 'bar'}, 'Source', h('span', {class: 'end'}, swatch('f'), 'forward'), h('span', {}, swatch('b'), 'backward')), h('div', {class: 'scroll'}, source, folds.length > 0 && h('div', {class: 'folds'}, folds)), said), h('div', {class: 'pane'}, bar, panels))));
root.querySelector('.gradlab-still').replaceWith(host);
show(D.start);
const [first] = findings; // the first glance: what is wrong, on which line, at which box
if (error) stopped(); else if (first) first.severity === 'note' ? pin(choice(first.ops, first.line, first.parameters)) : reveal(first.ops, first.line, first.parameters); // a note leaves the graph as it is
}
})();
