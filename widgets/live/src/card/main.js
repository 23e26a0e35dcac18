// The live card: takes the place of the still one inside its <div class="gradlab-card"> once this script runs.

import { fill, html, keepKey, OWN_KEYS, swatch } from '../shared/dom.js';
import { sum } from '../shared/format.js';
import { drawSaved } from '../shared/saved.js';
import { tabBar } from '../shared/tabs.js';
import { changesTab } from './changes.js';
import { compiledTab } from './compiled.js';
import { createFindings, createHeader } from './findings.js';
import { fullScreenButton } from './full_screen.js';
import { gradientsTab } from './gradients.js';
import { createGraph } from './graph.js';
import { memoryTab } from './memory.js';
import { readRecord } from './record.js';
import { createReveal } from './reveal.js';
import { runTab } from './run.js';
import { choose, createSelection } from './selection.js';
import { createSource } from './source.js';
import { timingsTab } from './timings.js';

const LOWEST = 320;
const HIGHEST = 520;

/** Height of a line of the source. */
const LINE = 20;

/**
 * @typedef {object} Card  The parts of one card; those that are made later are reached through it.
 * @property {HTMLElement} root
 * @property {object} record see record.js
 * @property {object} selection see selection.js
 * @property {(ops: number[], line?: number, names?: string[]) => void} reveal see reveal.js
 * @property {object} source see source.js
 * @property {object} graph see graph.js
 * @property {{gradient: object, row: HTMLElement}[]} gradientRows of the table of gradients, once it is made
 * @property {{open: (index: number) => void}} tabs the graph is the first, the gradients are the second
 */

/**
 * The tabs; the contents of all but the graph are made when they are first seen.
 * @returns the `bar`, the `panels` below it, and how to `open` one
 */
function createTabs(card) {
  const { record, selection } = card;
  const { data, gradients, rows } = record;
  const stages = [
    { name: 'Graph', contents: card.graph.elements },
    { name: `Gradients (${gradients.length})`, make: () => gradientsTab(card) },
    { name: 'Timings', make: () => timingsTab(card) },
  ];
  if (data.run) {
    stages.push({ name: 'Run', make: () => runTab(card) });
  }
  if (data.memory) {
    stages.push({ name: 'Memory', make: () => memoryTab(card) });
  }
  if (data.compiled_said.length) {
    stages.push({ name: 'Compiled', make: () => compiledTab(card) });
  }
  if (data.beside !== null) {
    const changes = rows('changes');
    stages.push({ name: `Changes (${changes.length})`, make: () => changesTab(card, changes) });
  }
  const panels = stages.map(({ contents }, index) =>
    html(
      'div',
      { role: 'tabpanel', id: `p${index}`, 'aria-labelledby': `t${index}` },
      contents || html('div', { class: 'scroll', tabindex: 0 }),
    ),
  );
  const open = (index) => {
    const stage = stages[index];
    if (stage.make) {
      fill(panels[index].firstChild, stage.make());
      stage.make = null;
      selection.rest();
    }
    mark(index);
    panels.forEach((panel, k) => {
      panel.hidden = k !== index;
    });
  };
  const names = stages.map(({ name }) => name);
  const { bar, mark } = tabBar(names, (index) => `p${index}`, open);
  return { bar, panels, open };
}

/** The first glance: what is wrong, on which line, at which box. */
function glance(card) {
  const { data, findings } = card.record;
  const [first] = findings;
  if (data.error) {
    card.reveal(data.failed, data.error.line);
  } else if (first?.severity === 'note') {
    card.selection.pin(choose(first.ops, first.line, first.parameters)); // a note leaves the graph as it is
  } else if (first) {
    card.reveal(first.ops, first.line, first.parameters);
  }
}

function sourcePane({ source, record: { lines } }) {
  const legend = [
    html('span', { class: 'end' }, swatch('f'), 'forward'),
    html('span', {}, swatch('b'), 'backward'),
    sum(lines, 'other') > 0 && html('span', {}, swatch('o'), 'other'),
  ];
  const folds = source.folds.length > 0 && html('div', { class: 'folds' }, source.folds);
  return html(
    'div',
    { class: 'pane source' },
    html('div', { class: 'bar' }, 'Source', legend),
    html('div', { class: 'scroll' }, source.element, folds),
    source.status,
  );
}

/** How high the source and the graph are, in pixels: as they need, within bounds. */
function bodyHeight({ record: { data, views }, source }) {
  const sourceHeight = LINE * source.lines + 30 * source.folds.length + 90;
  const graphHeight = data.layouts[views[data.start].layout].h + 150;
  const height = Math.max(LOWEST, Math.min(HIGHEST, Math.max(sourceHeight, graphHeight)));
  source.unfold(Math.floor((height - sourceHeight) / LINE));
  return height;
}

function drawCard(root, data) {
  const card = { root, record: readRecord(data), selection: createSelection(), gradientRows: [] };
  card.reveal = createReveal(card);
  card.graph = createGraph(card);
  card.source = createSource(card);
  card.selection.watch((choice) => {
    for (const { gradient, row } of card.gradientRows) {
      row.classList.toggle('lit', choice.names.has(gradient.name));
    }
  });
  const header = createHeader(card);
  const findings = createFindings(card);
  card.tabs = createTabs(card);
  card.tabs.open(0);

  const body = html(
    'div',
    { class: 'body', style: `--tall:${bodyHeight(card)}px` },
    sourcePane(card),
    html(
      'div',
      { class: 'pane' },
      html(
        'div',
        { class: 'views' },
        card.tabs.bar,
        fullScreenButton(() => body),
      ),
      card.tabs.panels,
    ),
  );
  const host = html('div', { [OWN_KEYS]: 'true', onkeydown: keepKey });
  host
    .attachShadow({ mode: 'open' })
    .append(
      html('style', {}, data.css),
      html('section', { class: 'card', 'aria-label': `autograd card ${data.head.title}` }, header, findings, body),
    );
  root.querySelector('.gradlab-still').replaceWith(host);
  card.graph.show(data.start);
  glance(card);
}

drawSaved('gradlab-card', 'gradlab card', drawCard);
