// A row of tabs as WAI-ARIA describes it: the arrow keys, Home and End go from tab to tab, the Tab key leaves.

import { html } from './dom.js';
import { stepByKey } from './toolbar.js';

/**
 * @param {string[]} names
 * @param {(index: number) => string} panelId of the panel that a tab opens
 * @param {(index: number) => void} open
 * @returns {{bar: HTMLElement, mark: (index: number) => void}} `mark` shows which tab is open
 */
export function tabBar(names, panelId, open) {
  const tabs = names.map((name, index) => {
    const attributes = {
      type: 'button',
      role: 'tab',
      id: `t${index}`,
      'aria-controls': panelId(index),
      onclick: () => open(index),
    };
    return html('button', attributes, name);
  });

  const onkeydown = (event) => {
    const next = stepByKey(event.key, tabs.indexOf(event.target), tabs.length);
    if (next !== undefined) {
      event.preventDefault();
      open(next);
      tabs[next].focus();
    }
  };

  const mark = (index) => {
    tabs.forEach((tab, k) => {
      tab.setAttribute('aria-selected', k === index);
      tab.tabIndex = k === index ? 0 : -1;
    });
  };

  return { bar: html('div', { role: 'tablist', 'aria-label': 'views', onkeydown }, tabs), mark };
}
