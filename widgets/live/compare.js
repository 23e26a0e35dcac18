// ---- beside the last run of this cell
if (D.beside !== null) {
  const changes = rows('changes');
  panel(`Changes (${changes.length})`, () => [h('p', {class: 'lead'}, changes.length ? 'What is different beside ' : 'Nothing changed beyond the noise of two runs, beside ', h('b', {}, clip(D.beside)), '. ', D.beside_note), ...(changes.length ? table('', [['what', c => c.kind, 'kind', 'text'], ['name', c => c.name, 'name', 'code long'], ['before', c => c.before || '–', 'before', 'text'], ['now', c => c.after || '–', 'after', 'text'], ['note', c => c.note, 'note', 'text'], ['line', c => c.line && button(c.line, () => reveal([], c.line)), 'line']], changes) : [])]);
}

