// A drawing as a file: SVG that carries its colours with it, or PNG made of that.

import { html, svg } from '../shared/dom.js';
import { tool } from '../shared/toolbar.js';

/** What of the style sheet a file must bring along. */
const STYLES = [
  'fill',
  'stroke',
  'stroke-width',
  'stroke-dasharray',
  'font-family',
  'font-size',
  'font-weight',
  'text-anchor',
  'text-decoration-line',
];
const OF_THE_PAGE = ['class', 'style', 'tabindex', 'role', 'aria-label'];

/** A PNG has two pixels for one of the page, within what browsers can draw. */
const SHARPNESS = 2;
const LONGEST_SIDE = 16_000;
const MOST_PIXELS = 100e6;

/** A function that writes any colour as red, green and blue: other programs know no color-mix. */
function colourWriter() {
  const paint = html('canvas', { width: 1, height: 1 }).getContext('2d', { willReadFrequently: true });
  const known = new Map();
  return (colour) => {
    if (!known.has(colour)) {
      paint.clearRect(0, 0, 1, 1);
      paint.fillStyle = colour;
      paint.fillRect(0, 0, 1, 1);
      const [red, green, blue, opacity] = paint.getImageData(0, 0, 1, 1).data;
      known.set(
        colour,
        opacity < 255 ? `rgba(${red},${green},${blue},${opacity / 255})` : `rgb(${red},${green},${blue})`,
      );
    }
    return known.get(colour);
  };
}

/** The styles of an element, by name. */
function stylesOf(element, write) {
  const computed = getComputedStyle(element);
  const values = STYLES.map((name) => {
    const value = computed.getPropertyValue(name);
    const isColour = (name === 'fill' || name === 'stroke') && value !== 'none';
    return [name.replace('-line', ''), isColour ? write(value) : value];
  });
  return Object.fromEntries(values);
}

/**
 * A copy of a drawing that needs no style sheet.
 * @param {SVGElement} drawing stands in the page
 */
function standalone(drawing, title) {
  const write = colourWriter();
  const copy = drawing.cloneNode(true);
  const ground = write(getComputedStyle(drawing.closest('.card')).backgroundColor);
  const styles = new Map(); // elements that look alike are looked at once
  const originals = [...drawing.querySelectorAll('*')];
  const copies = [...copy.querySelectorAll('*')];
  originals.forEach((original, index) => {
    const parent = original.parentNode;
    const key = [original, parent]
      .map((one) => `${one.tagName} ${one.getAttribute('class')} ${one.style.cssText}`)
      .join();
    if (!styles.has(key)) {
      styles.set(key, stylesOf(original, write));
    }
    const found = styles.get(key);
    const target = copies[index];
    if (found.fill === 'none' && found.stroke === 'none' && original.tagName !== 'g') {
      target.remove();
      return;
    }
    if (original.tagName !== 'g') {
      for (const [name, value] of Object.entries(found)) {
        target.setAttribute(name, value);
      }
    }
    for (const name of OF_THE_PAGE) {
      target.removeAttribute(name);
    }
  });
  const [x, y, width, height] = drawing.getAttribute('viewBox').split(' ');
  copy.setAttribute('width', width);
  copy.setAttribute('height', height);
  for (const name of OF_THE_PAGE) {
    copy.removeAttribute(name);
  }
  copy.prepend(svg('title', {}, title), svg('rect', { x, y, width, height, fill: ground }));
  return copy;
}

function save(blob, name) {
  const address = URL.createObjectURL(blob);
  html('a', { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000); // the browser reads it after the click
}

/** Draw SVG text on a canvas of its size, sharper where there is room for that. */
async function asPng(text, width, height) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const scale = Math.min(SHARPNESS, LONGEST_SIDE / Math.max(width, height), Math.sqrt(MOST_PIXELS / (width * height)));
  const canvas = html('canvas', { width: Math.round(width * scale), height: Math.round(height * scale) });
  canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve));
}

/**
 * The buttons that save a drawing.
 * @param {() => string} name of the file, from words that may hold anything
 * @param {(use: (drawing: SVGElement) => void) => void} withDrawing hands over the drawing, in the page meanwhile
 * @returns {HTMLElement[]}
 */
export function downloads(name, withDrawing) {
  const take = (kind) => () =>
    withDrawing(async (drawing) => {
      const title = name();
      const file = `${title.replace(/[^\p{L}\p{N}]+/gu, '-').slice(0, 60)}.${kind}`;
      const copy = standalone(drawing, title);
      const text = new XMLSerializer().serializeToString(copy);
      const side = (key) => +copy.getAttribute(key);
      const type = 'image/svg+xml';
      save(kind === 'svg' ? new Blob([text], { type }) : await asPng(text, side('width'), side('height')), file);
    });
  return ['svg', 'png'].map((kind) =>
    tool(kind.toUpperCase(), take(kind), { 'aria-label': `${kind.toUpperCase()}, save the picture` }),
  );
}
