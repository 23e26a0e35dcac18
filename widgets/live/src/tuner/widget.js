// The live panel: fed by a widget's model (lab/notebook/panel.py) while the session runs.

import { html } from '../shared/dom.js';
import { createPanel } from './panel.js';

export default {
  /** Draw a view of the model; anywidget calls what is returned when the view goes. */
  render({ model, el }) {
    const host = html('div', {});
    el.append(host);
    const update = createPanel(host, (message) => model.send(message));
    const draw = () => update({ ...model.get('head'), trials: model.get('trials') });
    model.on('change:head', draw);
    draw();
    return () => model.off('change:head', draw);
  },
};
