// ---- small tools
const TURNS = new RegExp('[\\u202a-\\u202e\\u2066-\\u2069]', 'g'); // marks that turn the writing round, also in the words that follow
const add = (e, attributes, kids) => {
  for (const k in attributes) k.startsWith('on') ? e[k] = attributes[k] : e.setAttribute(k, attributes[k]);
  e.append(...kids.flat(3).filter(Boolean).map(x => x.replaceAll?.(TURNS, '\ufffd') ?? x)); return e;
};
const h = (tag, attributes, ...kids) => add(document.createElement(tag), attributes, kids);
const s = (tag, attributes, ...kids) => add(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, kids);
const button = (text, onclick, more) => h('button', {type: 'button', class: 'link', onclick, ...more}, text);
const clip = x => typeof x === 'string' && x.length > 300 ? x.slice(0, 299) + '…' : x;
const real = x => typeof x === 'number';
const fixed = x => x.toFixed(Math.max(0, 2 - Math.floor(Math.log10(Math.abs(x)))));
const number = x => !real(x) ? x ?? '' : !x ? '0' : Math.abs(x) < 1e-3 || Math.abs(x) >= 1e4 ? x.toExponential(2) : fixed(x);
const time = x => !real(x) ? x ?? '' : x >= 1e3 ? fixed(x / 1e3) + ' s' : x >= 1 ? fixed(x) + ' ms' : x >= .001 ? fixed(x * 1e3) + ' µs' : x ? (x * 1e3).toFixed(1) + ' µs' : '0 ms';
const share = x => !real(x) ? x ?? '' : x > 0 && x < .001 ? '<0.1 %' : +(100 * x).toPrecision(3) + ' %';
const whole = n => n.toLocaleString('en'), count = (n, noun) => `${whole(n)} ${noun}${n === 1 ? '' : 's'}`;
const sum = (list, k) => list.reduce((t, r) => t + (+r[k] || 0), 0), both = r => (+r.forward || 0) + (+r.backward || 0);
const top = (list, f) => list.reduce((m, r) => Math.max(m, +f(r) || 0), 0) || 1;
const quiet = words => h('span', {class: 'quiet'}, words), hide = {'aria-hidden': 'true'}, swatch = c => h('i', {class: c, ...hide});
const nearest = (box, e) => { // scrolls inside the card alone: scrollIntoView would move the notebook
  const a = box.getBoundingClientRect(), b = e.getBoundingClientRect();
  if (b.top < a.top || b.bottom > a.bottom) box.scrollTop += b.top - a.top - (a.height - b.height) / 2;
  if (b.left < a.left || b.right > a.right) box.scrollLeft += b.left - a.left - (a.width - b.width) / 2;
};
const rove = (from, to, box) => { from.setAttribute('tabindex', -1); to.setAttribute('tabindex', 0); to.focus({preventScroll: true}); nearest(box, to); };

const ask = (to, command, answer) => { // hands a command to the kernel that drew this, which may still be making its ear; false for a card without one, an empty answer where nobody hears
  if (!to) return false;
  let tries = 0, timer;
  const heard = a => { clearTimeout(timer); if (!a.heard) answer(a); }, put = () => {
    if (!document.dispatchEvent(new CustomEvent('gradlab', {cancelable: true, detail: {to, command, answer: heard}}))) timer = setTimeout(answer, 2000, {});
    else ++tries < 5 ? setTimeout(put, 200) : answer({});
  };
  put();
  return true;
};
