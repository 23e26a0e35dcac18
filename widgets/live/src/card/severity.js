// How grave a finding is, as a sign and as a word; the class of its element is the name.

const ICONS = { error: '✕', warning: '▲', note: '●' };
const WORDS = { error: 'Error', warning: 'Warning', note: 'Note' };

/** A severity that the style sheet knows: an unknown one is a note. */
export function known(severity) {
  return Object.hasOwn(WORDS, severity) ? severity : 'note';
}

export const icon = (severity) => ICONS[severity];
export const word = (severity) => WORDS[severity];

/** The word of a note that reads like a mistake, which nothing recorded confirms. */
export const READS = 'Worth a look';
