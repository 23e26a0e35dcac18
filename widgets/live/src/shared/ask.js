// How a card's buttons reach the kernel that drew it: listener.js hears the event in the page,
// lab/notebook/card_buttons.py answers.

const TRIES = 5;
const RETRY_MS = 200;
const ANSWER_MS = 2000;

/**
 * Hand a command to the kernel that drew this card; its listener may still be on its way to the page.
 * @param {string} [to] whom: the card's attribute data-kernel
 * @param {string} command
 * @param {(answer: {said?: string}) => void} onAnswer gets an empty answer where nobody hears
 * @returns {boolean} false for a card that has nobody to ask
 */
export function ask(to, command, onAnswer) {
  if (!to) {
    return false;
  }
  let tries = 0;
  let timer;
  const answer = (message) => {
    clearTimeout(timer);
    if (!message.heard) {
      onAnswer(message);
    }
  };
  const send = () => {
    const event = new CustomEvent('gradlab', { cancelable: true, detail: { to, command, answer } });
    const nobodyYet = document.dispatchEvent(event); // a listener cancels what it takes
    if (!nobodyYet) {
      timer = setTimeout(onAnswer, ANSWER_MS, {});
      return;
    }
    tries += 1;
    if (tries < TRIES) {
      setTimeout(send, RETRY_MS);
    } else {
      onAnswer({});
    }
  };
  send();
  return true;
}
