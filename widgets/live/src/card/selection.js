// What is lit: ops, lines and parameters, in every view at once.

/**
 * @typedef {object} Choice
 * @property {Set<number>} ops
 * @property {Set<number>} lines of the cell
 * @property {Set<string>} names of parameters
 * @property {boolean} wide whether all lines of its ops are lit too
 */

/**
 * Choose ops, and with them a line of the cell or parameters.
 * @param {Iterable<number>} ops
 * @param {number} [line]
 * @param {string[]} [names]
 * @returns {Choice}
 */
export function choose(ops, line, names = []) {
  return { ops: new Set(ops), lines: new Set(line ? [line] : []), names: new Set(names), wide: !line && !names.length };
}

/** What stays lit (`pinned`), and who shows it. */
export function createSelection() {
  const watchers = [];
  const selection = {
    pinned: choose([]),

    /** Call `show(choice)` whenever something else is lit. */
    watch: (show) => watchers.push(show),

    /** Light a choice for as long as the pointer or the focus is there. */
    light: (choice) => {
      for (const show of watchers) {
        show(choice);
      }
    },

    /** Light a choice until another one is pinned. */
    pin: (choice) => {
      selection.pinned = choice;
      selection.light(choice);
    },

    /** Go back to what is pinned. */
    rest: () => selection.light(selection.pinned),
  };
  return selection;
}
