// How a saved output comes alive: the script that follows its data draws it in place of the still one.

/** Decode a large record: deflated, in base64 (`packed` of widgets/card.py). */
function unpack(text) {
  const characters = atob(text);
  const deflated = new Uint8Array(characters.length); // a loop: Uint8Array.from takes ten times as long
  for (let k = 0; k < deflated.length; k += 1) {
    deflated[k] = characters.charCodeAt(k);
  }
  const stream = new Blob([deflated]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Response(stream).text();
}

/**
 * Draw the output that this script belongs to; where a page does not tell a script its place, all not yet drawn.
 * @param {string} className of the outputs' elements
 * @param {string} name for messages on the console
 * @param {(root: HTMLElement, data: object) => void} draw puts the live part in the place of the still one
 */
export function drawSaved(className, name, draw) {
  const script = document.currentScript;
  const roots = script ? [script.parentElement] : document.querySelectorAll(`.${className}:not([data-live])`);
  const failed = (error) => console.error(`${name}:`, error);
  for (const root of roots) {
    const drawText = (text) => {
      try {
        draw(root, JSON.parse(text));
        root.dataset.live = 1;
      } catch (error) {
        failed(error);
      }
    };
    const { type, textContent } = root.querySelector('script[type]');
    if (type.endsWith('json')) {
      drawText(textContent);
    } else {
      unpack(textContent).then(drawText, failed);
    }
  }
}
