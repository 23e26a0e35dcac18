// A text to the clipboard, also in a page that the browser does not call secure (http from another machine).

import { html } from './dom.js';

/** The way of old: a field whose text is selected and copied. */
function copyField(text) {
  const field = html('textarea', { style: 'position:fixed;opacity:0' });
  const focused = document.activeElement;
  field.value = text;
  document.body.append(field);
  field.select();
  const done = document.execCommand('copy');
  field.remove();
  focused?.focus?.({ preventScroll: true });
  return done;
}

/** @returns {Promise<boolean>} whether the page may copy, and did */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyField(text);
  }
}
