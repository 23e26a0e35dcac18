// Small tools that make and move elements. What a record holds is untrusted: it becomes text or an attribute,
// never HTML.

const SVG = 'http://www.w3.org/2000/svg';

/** Marks that turn the direction of writing, also in the words that follow them. */
const DIRECTION_MARKS = /[\u202a-\u202e\u2066-\u2069]/g;

/** Attributes of an element that says nothing to a screen reader. */
export const HIDDEN = { 'aria-hidden': 'true' };

const LONGEST_TEXT = 300;

/**
 * @typedef {Element | string | number | null | undefined | false | Child[]} Child
 *   What an element may hold; lists are flattened, and whatever is falsy is left out.
 */

/** A string without marks that turn the writing round; anything else as it is. */
function harmless(child) {
  return typeof child === 'string' ? child.replaceAll(DIRECTION_MARKS, '\ufffd') : child;
}

/** What is appended for children; all text of the data comes through here. */
function flattened(children) {
  return children.flat(Infinity).filter(Boolean).map(harmless);
}

function complete(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) {
      node[name] = value;
    } else {
      node.setAttribute(name, value);
    }
  }
  node.append(...flattened(children));
  return node;
}

/** Put children in the place of what a node holds. */
export function fill(node, ...children) {
  node.replaceChildren(...flattened(children));
}

/**
 * Make an HTML element.
 * @param {string} tag
 * @param {object} attributes a name that begins with `on` is a handler
 * @param {...Child} children
 * @returns {HTMLElement}
 */
export function html(tag, attributes, ...children) {
  return complete(document.createElement(tag), attributes, children);
}

/**
 * Make an SVG element; takes what `html` takes.
 * @returns {SVGElement}
 */
export function svg(tag, attributes, ...children) {
  return complete(document.createElementNS(SVG, tag), attributes, children);
}

/** A button that looks like a link. */
export function linkButton(text, onclick, attributes) {
  return html('button', { type: 'button', class: 'link', onclick, ...attributes }, text);
}

/** Words of less weight. */
export function quiet(words) {
  return html('span', { class: 'quiet' }, words);
}

/** A small square of the colour that a class stands for. */
export function swatch(className) {
  return html('i', { class: className, ...HIDDEN });
}

/**
 * A bar that is filled from the left.
 * @param {[string, number][]} parts class and share of the whole, each
 */
export function track(parts) {
  const filled = parts.filter(([, share]) => share > 0);
  return html(
    'span',
    { class: 'track', ...HIDDEN },
    filled.map(([className, share]) => html('u', { class: className, style: `width:${100 * share}%` })),
  );
}

/** A string cut to what a cell of a table can show; anything else as it is. */
export function clip(value) {
  return typeof value === 'string' && value.length > LONGEST_TEXT ? `${value.slice(0, LONGEST_TEXT - 1)}…` : value;
}

/** Let the Tab key come to a box whose contents are higher than it is, now and when its size changes. */
export function reachIfScrolls(box) {
  const reach = () => {
    if (box.scrollHeight > box.clientHeight) {
      box.tabIndex = 0;
    } else {
      box.removeAttribute('tabindex');
    }
  };
  if (!sizes.has(box)) {
    sizes.set(box, new ResizeObserver(reach));
    sizes.get(box).observe(box);
  }
  reach();
}

/** What watches the sizes of boxes. */
const sizes = new WeakMap();

/** Scroll `box` until `element` is in sight; scrollIntoView would move the whole notebook. */
export function scrollIn(box, element) {
  const outer = box.getBoundingClientRect();
  const inner = element.getBoundingClientRect();
  if (inner.top < outer.top || inner.bottom > outer.bottom) {
    box.scrollTop += inner.top - outer.top - (outer.height - inner.height) / 2;
  }
  if (inner.left < outer.left || inner.right > outer.right) {
    box.scrollLeft += inner.left - outer.left - (outer.width - inner.width) / 2;
  }
}

/** Scroll `box` from side to side until `element` is in sight. */
export function scrollAcross(box, element) {
  const { scrollTop } = box;
  scrollIn(box, element);
  box.scrollTop = scrollTop;
}

/** Make `to` the one element of a group that the Tab key reaches, in place of `from`. */
export function makeReachable(from, to) {
  from.setAttribute('tabindex', -1);
  to.setAttribute('tabindex', 0);
}

/** Move the focus inside a group of elements of which the Tab key reaches one. */
export function moveFocus(from, to, box) {
  makeReachable(from, to);
  to.focus({ preventScroll: true });
  scrollIn(box, to);
}

/** Keep a key to the card: without this Enter, Esc and the arrows would be the notebook's. */
export function keepKey(event) {
  if (!event.ctrlKey && !event.metaKey && !event.altKey) {
    event.stopPropagation();
  }
}

/** Where JupyterLab looks for elements whose keys are not its own. */
export const OWN_KEYS = 'data-lm-suppress-shortcuts';
