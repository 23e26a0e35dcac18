// Text for the clipboard.

import { html } from './dom.js';

/** Copy by way of a field that is selected: for pages that may not use the clipboard themselves. */
function copyBySelection(text) {
  const focused = document.activeElement;
  const field = html('textarea', { style: 'position:fixed;opacity:0' });
  field.value = text;
  document.body.append(field);
  field.select();
  const done = document.execCommand('copy');
  field.remove();
  focused?.focus?.({ preventScroll: true });
  return done;
}

/**
 * Copy text.
 * @param {string} text
 * @returns {Promise<boolean>} whether it is in the clipboard
 */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}
