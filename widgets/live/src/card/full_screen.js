// The source and the graph on the whole screen, or, where a page may not do that, over the whole window.

import { fill, svg } from '../shared/dom.js';
import { tool } from '../shared/toolbar.js';

const CORNERS = 'M1 5V1h4M9 1h4v4M13 9v4H9M5 13H1V9';

/**
 * @param {() => HTMLElement} body what is to be shown; it holds the button, and so is made after it
 * @returns {HTMLElement} the button
 */
export function fullScreenButton(body) {
  const isFull = () => body().classList.contains('full');
  const mark = (full) => {
    body().classList.toggle('full', full);
    button.setAttribute('aria-pressed', full);
  };
  const leave = () => {
    if (body().popover) {
      body().hidePopover();
      body().popover = null;
    } else {
      document.exitFullscreen();
    }
    mark(false);
  };
  const onEscape = (event) => {
    if (event.key === 'Escape' && body().popover) {
      leave();
      event.stopPropagation(); // the box that has the focus would go up
    }
  };
  const enter = async () => {
    const element = body();
    try {
      await element.requestFullscreen();
      element.onfullscreenchange = () => mark(element.getRootNode().fullscreenElement === element);
    } catch {
      if (!element.showPopover) {
        fill(button, 'not possible in this page');
        return;
      }
      element.popover = 'manual'; // above all else of the page, whatever holds the card
      element.showPopover();
      element.addEventListener('keydown', onEscape, true);
    }
    mark(true);
  };
  const icon = svg('svg', { class: 'icon', viewBox: '0 0 14 14', width: 14, height: 14 }, svg('path', { d: CORNERS }));
  const button = tool(icon, () => (isFull() ? leave() : enter()), {
    'aria-label': 'full screen',
    title: 'Full screen (Esc leaves)',
    'aria-pressed': false,
  });
  return button;
}
