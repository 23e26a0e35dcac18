// A widget without a view: what a card's button asks goes to the kernel that drew the card, and its answer back.

const randomName = () => String(Math.random()).slice(2);

export default {
  /** Listen in the page as soon as the model is made; anywidget calls what is returned when the model goes. */
  initialize({ model }) {
    const answers = new Map();
    const name = model.get('name');

    const hear = (event) => {
      const { to, command, answer } = event.detail;
      if (!to.startsWith(`${name} `) || event.defaultPrevented) {
        return;
      }
      event.preventDefault();
      const id = randomName();
      answers.set(id, answer);
      model.send({ id, place: to.slice(name.length + 1), command });
    };

    const receive = (message) => {
      answers.get(message.id)?.(message);
      if (!message.heard) {
        answers.delete(message.id);
      }
    };

    document.addEventListener('gradlab', hear);
    model.on('msg:custom', receive);
    model.set('page', randomName()); // after a reload nothing is drawn any more below the cards of before
    model.save_changes();
    return () => {
      document.removeEventListener('gradlab', hear);
      model.off('msg:custom', receive);
      for (const answer of answers.values()) {
        answer({}); // the kernel has gone
      }
    };
  },
};
