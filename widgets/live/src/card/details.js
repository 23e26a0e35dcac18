// What the line below the graph says of a box.

import { html } from '../shared/dom.js';
import { bytes, number, share, time, whole } from '../shared/format.js';
import { CUT, FAILED, UNREACHED, withCount } from './record.js';

/** A value, with its name before it; nothing where there is no value. */
function pair(name, value) {
  return value && html('span', {}, name && `${name} `, html('b', {}, value));
}

function wide(...children) {
  return html('span', { class: 'wide' }, ...children);
}

function times({ forward, backward }) {
  return [pair('forward', time(forward)), pair('backward', time(backward))];
}

function ofLeaf(tensor) {
  return [
    pair('', tensor.name),
    pair(tensor.kind, tensor.shape),
    pair('', tensor.dtype),
    pair('requires grad', tensor.requires_grad ? 'yes' : 'no'),
  ];
}

function ofGroup(item) {
  return [pair('', item.label), pair('', item.detail), times(item), 'Enter opens it'];
}

/** Whether backward came to an op, in words. */
function gradient(op, reached) {
  if (op.flags & CUT) {
    return 'cut here';
  }
  if (!op.requires_grad) {
    return 'not required';
  }
  return op.flags & UNREACHED ? reached : 'yes';
}

function statistics([low, high, mean, deviation, zeros, bad]) {
  return wide(
    'values ',
    html('b', {}, `${number(low)} … ${number(high)}`),
    ` · mean ${number(mean)} · std ${number(deviation)} · zeros ${share(zeros)}`,
    bad && html('b', { class: 'flag' }, ` · ${whole(bad)} NaN or infinite`),
  );
}

function ofOp(op, { ops, tensors, data }) {
  const nameOfRead = (index) => {
    if (index >= 0) {
      return `${ops[index].op} ${ops[index].shape}`;
    }
    const tensor = tensors[~index]; // tensors that no op made count from -1 downwards
    return `${tensor.name || tensor.kind} ${tensor.shape}`;
  };
  return [
    pair('', withCount(op)),
    pair('kernel', op.kernel && `${op.kernel}, ${op.backend}`),
    op.flags & FAILED ? pair('', 'failed here') : pair('output', `${op.shape} ${op.dtype}`),
    pair('size', op.size_bytes && bytes(op.size_bytes)),
    times(op),
    op.count > 1 && pair('slowest run', time(op.slowest)),
    pair('gradient', gradient(op, data.reached)),
    pair('module', op.module),
    op.stats && statistics(op.stats),
    wide(
      [op.file, op.line && `line ${op.line}`].filter(Boolean).join(', '),
      ' ',
      html('span', { class: 'code' }, op.code),
      op.reads.length && ` · reads ${op.reads.map(nameOfRead).join(', ')}`,
    ),
  ];
}

/**
 * @param {object} item a box of the graph
 * @returns {Child[]}
 */
export function detailsOf(item, record) {
  if (item.kind === 'leaf') {
    return ofLeaf(record.tensors[item.index]);
  }
  return item.kind === 'group' ? ofGroup(item) : ofOp(record.ops[item.index], record);
}
