// A row of buttons that is one stop of the Tab key: the arrow keys, Home and End go from button to button.

import { html, makeReachable } from './dom.js';

/** The place that a key leads to among `total` places, round and round; undefined for other keys. */
export function stepByKey(key, index, total) {
  const next = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: total - 1 }[key];
  return next === undefined ? undefined : (next + total) % total;
}

/** A button with a word or a sign on it. */
export function tool(words, onclick, attributes) {
  return html('button', { type: 'button', class: 'tool', onclick, ...attributes }, words);
}

/**
 * @param {string} label
 * @param {HTMLElement[]} buttons
 * @returns {HTMLElement}
 */
export function toolbar(label, buttons) {
  let reachable = buttons[0];
  const reach = (button) => {
    makeReachable(reachable, button);
    reachable = button;
  };
  buttons.forEach((button) => {
    button.tabIndex = -1;
    button.onfocus = () => reach(button);
  });
  reach(reachable);
  const onkeydown = (event) => {
    const next = stepByKey(event.key, buttons.indexOf(event.target), buttons.length);
    if (next !== undefined) {
      event.preventDefault();
      buttons[next].focus();
    }
  };
  return html('div', { class: 'tools', role: 'toolbar', 'aria-label': label, onkeydown }, buttons);
}
