export default {
  render({model, el}) {
    const host = h('div', {});
    el.append(host);
    const update = panel(host, message => model.send(message));
    const draw = () => update({...model.get('head'), trials: model.get('trials')});
    model.on('change:head', draw);
    draw();
    return () => model.off('change:head', draw);
  }
};
