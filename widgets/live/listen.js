// A widget without a view: what a card's button asks goes to the kernel that drew the card, and its answer back.
export default {
  initialize({model}) {
    const answers = new Map(), name = model.get('name');
    const hear = e => {
      const {to, command, answer} = e.detail;
      if (!to.startsWith(name + ' ') || e.defaultPrevented) return;
      e.preventDefault();
      const id = String(Math.random()).slice(2);
      answers.set(id, answer);
      model.send({id, place: to.slice(name.length + 1), command});
    };
    const told = message => { answers.get(message.id)?.(message); if (!message.heard) answers.delete(message.id); };
    document.addEventListener('gradlab', hear);
    model.on('msg:custom', told);
    model.set('page', String(Math.random())); // after a reload nothing is drawn any more below the cards of before
    model.save_changes();
    return () => { document.removeEventListener('gradlab', hear); model.off('msg:custom', told); };
  }
};
