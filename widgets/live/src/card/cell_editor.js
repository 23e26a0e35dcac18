// The editor of the cell that a card is the output of: JupyterLab's and Notebook 7's are CodeMirror 6.

/** The document that the editor shows; undefined where there is no such cell, or another editor. */
function viewOf(root) {
  const content = root.closest('.jp-CodeCell')?.querySelector('.jp-InputArea .cm-content');
  return (content?.cmTile || content?.cmView)?.view; // its name by CodeMirror's version
}

/** Where two texts begin and cease to differ. */
function difference(before, after) {
  const shorter = Math.min(before.length, after.length);
  let from = 0;
  while (from < shorter && before[from] === after[from]) {
    from += 1;
  }
  let same = 0;
  while (same < shorter - from && before.at(-1 - same) === after.at(-1 - same)) {
    same += 1;
  }
  return { from, to: before.length - same, insert: after.slice(from, after.length - same) };
}

const lastLine = (text) => text.replace(/\n+$/, '');

/**
 * Change the text of a card's cell, so that undo takes it back. The cell is not run.
 * @returns {'done' | 'other text' | 'no editor'}
 */
export function changeCell(root, before, after) {
  const view = viewOf(root);
  if (!view?.dispatch || view.state.readOnly) {
    return 'no editor';
  }
  const text = view.state.doc.toString();
  if (lastLine(text) !== before) {
    return 'other text';
  }
  const changes = difference(text, after + text.slice(before.length));
  view.dispatch({ changes, userEvent: 'input.gradlab' });
  return 'done';
}
