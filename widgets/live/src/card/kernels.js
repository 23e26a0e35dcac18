// The kernels: their rates beside what the machine was measured to reach, who declined, and how to tune them.

import { ask } from '../shared/ask.js';
import { copyText } from '../shared/copy.js';
import { clip, fill, html, linkButton, quiet } from '../shared/dom.js';
import { count, fixed, isNumber, sum, time, whole } from '../shared/format.js';
import { makeFoldable, openRow, table } from './table.js';

const NO_PEAK = 'The peak was not measured on this machine';
const COLUMNS = 8;

/** The share of forward from which on a kernel is worth tuning. */
const SLOW = 0.1;

/** A rate in units of 10⁹ a second. */
function giga(rate) {
  if (!isNumber(rate)) {
    return rate ?? '';
  }
  if (rate < 1e8) {
    return '<0.1';
  }
  return rate < 1e12 ? fixed(rate / 1e9) : whole(Math.round(rate / 1e9));
}

function percent(share) {
  if (share > 1) {
    return '>100 %';
  }
  return share < 1e-3 ? '<0.1 %' : `${+(100 * share).toPrecision(2)} %`;
}

/** A kernel's rates, each with the machine's peak and the share of it where both are known. */
function ratesOf(kernel, machine) {
  const peaks = machine?.device === kernel.device ? machine : null;
  const rates = [
    { unit: 'GB/s', rate: kernel.bytes_per_s, peak: peaks?.bytes_per_s, what: 'copied' },
    {
      unit: 'GFLOP/s',
      rate: kernel.flops_per_s,
      peak: peaks?.flops_per_s[kernel.dtype],
      what: `of a ${kernel.dtype} product`,
    },
  ];
  const known = rates.filter(({ rate }) => isNumber(rate));
  return known.map((one) => ({ ...one, share: one.peak > 0 ? one.rate / one.peak : null }));
}

/** The largest share of a peak that a kernel reaches; null where none is known. */
function reachedBy(rates) {
  const shares = rates.map(({ share }) => share).filter(isNumber);
  return shares.length ? Math.max(...shares) : null;
}

function ofPeak({ reached, rates }) {
  if (isNumber(reached)) {
    return percent(reached);
  }
  return rates.length ? quiet('not measured') : '';
}

/**
 * The button that tunes a kernel: the kernel that drew this card starts the tuner below it. A card that nobody listens
 * to has the command copied, or selected where a page may not copy.
 */
function tuneButton({ root }, command, isItself) {
  const code = html('code', { class: 'code' }, command);
  const status = html('span', { class: 'quiet', role: 'status' });
  const say = (words) => fill(status, words);
  const copy = async () => {
    if (await copyText(command)) {
      say('copied; run it in a new cell');
    } else {
      getSelection().selectAllChildren(code);
      say('copy it, and run it in a new cell');
    }
  };
  const answered = ({ said }) => {
    if (said) {
      say(said);
    } else {
      copy();
    }
  };
  const tune = (event) => {
    event.stopPropagation();
    if (ask(root.dataset.kernel, command, answered)) {
      say('asked the kernel …');
    } else {
      copy();
    }
  };
  return html(
    'p',
    {},
    linkButton(isItself ? 'Tune this kernel' : 'Tune a C kernel', tune),
    ' ',
    code,
    ' ',
    !isItself && quiet("the tuner's own, at this shape: your ops do not run it. "),
    status,
  );
}

function rateParagraph({ unit, rate, peak, what, share }, machine) {
  let beside = `: ${machine ? 'no peak was measured for this' : NO_PEAK.toLowerCase()}`;
  if (peak > 0) {
    beside = `, ${percent(share)} of the ${giga(peak)} ${unit} ${what} that this machine reaches`;
  }
  return html('p', {}, html('b', {}, `${giga(rate)} ${unit}`), quiet(beside));
}

function whoDeclined({ declined, device, backend, op }) {
  if (declined.length) {
    const items = declined.map((reason) => html('li', { class: 'code' }, clip(reason)));
    return html('div', {}, quiet('declined before it:'), html('ul', {}, items));
  }
  const couldDecline = device && backend !== 'PyTorch' && !op.endsWith(' backward');
  return html('p', { class: 'quiet' }, couldDecline ? 'It stands first: no kernel declined.' : '');
}

/** What the row of a kernel opens. */
function aboutKernel(card, kernel) {
  const { machine } = card.record.data;
  const { inputs, config, tune } = kernel;
  const isItself = () => kernel.backend === 'Triton' || tune.startsWith('%tune core_');
  return [
    html(
      'p',
      {},
      html('b', {}, time(kernel.mean_us / 1e3)),
      quiet(' a run'),
      inputs.length > 0 && [quiet(', first on '), inputs.join(', ')],
      config && [quiet(' with '), html('span', { class: 'code' }, config)],
    ),
    ...kernel.rates.map((rate) => rateParagraph(rate, machine)),
    whoDeclined(kernel),
    tune
      ? tuneButton(card, tune, isItself())
      : html('p', { class: 'quiet' }, 'The tuner has no space for this kernel.'),
  ];
}

/** Opens a kernel's row, and presses the button in it. */
function tuneInRow(event) {
  event.stopPropagation();
  openRow(event.target.closest('tr')).querySelector('.link').click();
}

/** What the peaks are, below the table. */
function peaksParagraph(machine) {
  const advice = 'Open a kernel for its config, for who declined, and to tune it.';
  if (!machine) {
    return html('p', { class: 'lead' }, `${NO_PEAK}, so rates stand alone. ${advice}`);
  }
  const { name, threads, bytes_per_s: copied, flops_per_s: products } = machine;
  const threadWords = threads ? `, ${count(threads, 'thread')}` : '';
  return html(
    'p',
    { class: 'lead' },
    'Peak: what this machine was measured to reach, ',
    html('b', {}, `${giga(copied)} GB/s`),
    ' copied',
    Object.entries(products).map(([dtype, rate]) => [
      ', ',
      html('b', {}, `${giga(rate)} GFLOP/s`),
      ` in ${dtype} products`,
    ]),
    ` (${name}${threadWords}). Arrays that lie in its cache may pass it. ${advice}`,
  );
}

/**
 * The table of kernels, and what stands below it.
 * @param {Card} card
 * @param {{columns: Column[], totals: string[]}} spent the columns of times
 * @returns {Child[]}
 */
export function kernelsTable(card, spent) {
  const {
    data: { machine },
  } = card.record;
  const kernels = card.record.kernels.map((kernel) => {
    const rates = ratesOf(kernel, machine);
    return { ...kernel, rates, reached: reachedBy(rates) };
  });
  const forward = sum(kernels, 'forward');
  const isSlow = (kernel) => kernel.tune && kernel.forward >= SLOW * forward;
  const name = (kernel) => {
    const attributes = { type: 'button', class: 'tune', 'aria-label': `Tune ${kernel.kernel}`, onclick: tuneInRow };
    return [
      html('button', { type: 'button', 'aria-expanded': 'false' }, kernel.kernel),
      isSlow(kernel) && html('button', attributes, 'Tune'),
    ];
  };
  const columns = [
    { title: 'kernel', cell: name, by: 'kernel', kind: 'code' },
    { title: 'backend', by: 'backend', kind: 'text' },
    ...spent.columns,
    { title: 'GB/s', by: 'bytes_per_s', write: giga },
    { title: 'GFLOP/s', by: 'flops_per_s', write: giga },
    { title: 'of peak', cell: ofPeak, by: ({ reached }) => reached },
  ];
  const total = ['all kernels', '', ...spent.totals, '', '', ''];
  const onRow = (kernel, row) => makeFoldable(row, COLUMNS, () => aboutKernel(card, kernel));
  return [
    ...table('By kernel', columns, kernels, { total, sortBy: 3, onRow }),
    kernels.length && peaksParagraph(machine),
  ];
}
