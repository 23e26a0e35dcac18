// The live card: replaces the still one inside its <div class="gradlab-card"> once this script runs.
// Everything in the data is untrusted text: it reaches the page by textContent and setAttribute alone.
(() => {
const script = document.currentScript;
for (const root of script ? [script.parentElement] : document.querySelectorAll('.gradlab-card:not([data-live])')) {
  const {type, textContent: text} = root.querySelector('script[type]');
  const draw = text => { try { card(root, JSON.parse(text)); root.dataset.live = 1; } catch (error) { failed(error); } }, failed = error => console.error('gradlab card:', error);
  if (type.endsWith('json')) draw(text);
  else new Response(new Blob([Uint8Array.from(atob(text), c => c.charCodeAt())]).stream().pipeThrough(new DecompressionStream('deflate'))).text().then(draw, failed); // a large record comes packed
}

function card(root, D) {
const {head, views, layouts} = D, home = []; // home: the view and the box that draw an op as itself
// Rows come as arrays, their names once; a name that starts with $ says that the value is a number of D.strings.
const rows = (table, keys = D.keys[table], list = D[table]) => list.map(r => Object.fromEntries(keys.map((k, i) => k[0] === '$' ? [k.slice(1), D.strings[r[i]]] : [k, r[i]])));
const ops = Array.from({length: D.ops[0]}, (_, i) => Object.fromEntries(D.keys.ops.map((k, j) => { const c = D.ops[1][j], x = c.length > 1 ? c[i] : c[0]; return k[0] === '$' ? [k.slice(1), D.strings[x]] : [k, x]; }))); // by column; one value stands for all rows
const tensors = rows('tensors'), lines = rows('lines'), gradients = rows('gradients'), kernels = rows('kernels'), byOp = rows('by_op'), findings = rows('findings');
const CUT = 1, UNREACHED = 8, ICON = {error: '✕', warning: '▲', note: '●'}, WORD = {error: 'Error', warning: 'Warning', note: 'Note'};

