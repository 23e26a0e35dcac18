// Sentences of the record.

import { html } from '../shared/dom.js';

/** A sentence; what stands between backticks is code. */
export function prose(text) {
  const parts = text.split('`');
  if (parts.length % 2 === 0) {
    return text; // a backtick without its partner
  }
  return parts.map((part, index) => (index % 2 ? html('span', { class: 'code' }, part) : part));
}
