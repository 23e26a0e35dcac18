// ---- header and findings
const figure = (name, value, c) => h('span', {}, c && swatch(c), quiet(name + ' '), h('b', {}, value)), ran = sum(ops, 'count');
const header = h('header', {}, h('span', {class: 'title'}, clip(head.title) || 'autograd'), h('span', {}, h('b', {}, whole(ops.length)), quiet((ops.length === 1 ? ' op' : ' ops') + (ran > ops.length ? `, ran ${whole(ran)} times` : ''))),
  figure('forward', time(head.forward), 'f'), figure('backward', time(head.backward), 'b'), figure('update', time(head.update)), head.recording && figure('recording', time(head.recording)), real(head.other) && figure('other', time(head.other)), head.wall && figure('wall', time(head.wall)), h('span', {class: 'quiet end'}, clip(head.device)));
const prose = text => { const parts = text.split('`'); return parts.length % 2 ? parts.map((t, i) => i % 2 ? h('span', {class: 'code'}, t) : t) : text; }; // what stands between backticks is code
function problem(severity, text, line, remedy, go, extra) {
  const words = 'line ' + line, at = line ? text.search(new RegExp(`\\b${words}\\b`, 'i')) : -1, end = at + words.length;
  return h('li', {class: severity}, h('span', {class: 'word'}, `${ICON[severity]} ${WORD[severity]}`), h('div', text.length + remedy.length > 1200 ? {class: 'tall', tabindex: 0, role: 'group', 'aria-label': 'finding'} : {}, h('div', {class: 'message'}, !line ? prose(text) : at < 0 ? [button(words, go), ': ', prose(text)] : [prose(text.slice(0, at)), button(text.slice(at, end), go), prose(text.slice(end))]), (remedy || extra) && h('div', {class: 'remedy'}, prose(remedy), ' ', extra)));
}
const list = h('ul', {class: 'findings', 'aria-label': 'findings'}), {error} = D;
const stopped = () => reveal(D.failed, error.line);
if (error && !error.told) list.append(problem('error', error.type + (error.message && ': ' + error.message), error.line, D.partial, stopped));
const problems = findings.map(f => problem(WORD[f.severity] ? f.severity : 'note', f.message, f.line, f.remedy, () => reveal(f.ops, f.line, f.parameters), f.parameters.length && button(`show ${count(f.parameters.length, 'parameter')}`, () => {
  tab(1); pin(choice(f.ops, f.line, f.parameters));
  const r = gradientRows.find(r => pinned.names.has(r[0].name)); if (r) nearest(panels[1].firstChild, r[1]);
})));
if (D.stopped) list.append(problem('note', D.stopped[0], D.stopped[2], D.stopped[1], () => reveal([], D.stopped[2])));
list.append(...problems.slice(0, 5));
if (problems[5]) list.append(h('li', {class: 'none'}, button(`and ${problems.length - 5} more`, e => e.target.parentElement.replaceWith(...problems.slice(5)))));
if (D.checked) list.append(h('li', {class: 'none'}, D.checked));
if (!list.firstChild) list.append(h('li', {class: 'none'}, ops.length || head.backward ? '✓ No problems found.' : 'No operation ran in this cell.'));

