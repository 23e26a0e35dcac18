// The panel that stays in the notebook: takes the place of the still one inside its <div class="gradlab-tuning">.

import { html } from '../shared/dom.js';
import { drawSaved } from '../shared/saved.js';
import { createPanel } from './panel.js';

function drawPanel(root, data) {
  const host = html('div', {});
  const update = createPanel(host, null, root.dataset.kernel);
  update(data);
  root.querySelector('.gradlab-still').replaceWith(host);
}

drawSaved('gradlab-tuning', 'gradlab panel', drawPanel);
