"""Checks that a card can be read and used by everyone: axe-core's rules, and two of our own for what it leaves open.

axe does not look at the contrast of SVG text nor at text over a translucent ground (WCAG 2.2, 1.4.3), and says nothing
of an identifier that leads nowhere when a role makes up for it (4.1.2). It comes in a package of the `test` extra.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

_CONTRAST = """
card => {
  const paint = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgba = text => {
    paint.clearRect(0, 0, 1, 1); paint.fillStyle = '#000'; paint.fillStyle = text; paint.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = paint.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], under) => [r, g, b].map((c, i) => c * a + under[i] * (1 - a));
  const light = c => {
    const [r, g, b] = c.map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const ground = e => {
    const stack = [];
    for (let at = e; at; at = at.parentElement || at.getRootNode().host) {
      const box = at.matches('.chip, .badge') ? at.querySelector('rect')
        : at.matches('.node') && at.querySelector('.ring + .box');
      stack.push(rgba(getComputedStyle(box || at)[box ? 'fill' : 'backgroundColor']));
    }
    return stack.reverse().reduce((under, c) => over(c, under), [255, 255, 255]);
  };
  const found = new Set();
  for (const e of card.querySelectorAll('*')) {
    const words = [...e.childNodes].filter(n => n.nodeType === 3).map(n => n.data).join('').trim();
    if (!words || e.tagName === 'STYLE' || e.tagName === 'OPTION' || !e.getClientRects().length) continue;
    const style = getComputedStyle(e), under = ground(e);
    const ink = over(rgba(e instanceof SVGElement ? style.fill : style.color), under);
    const [a, b] = [light(ink), light(under)].sort((a, b) => b - a), ratio = (a + .05) / (b + .05);
    const name = e => e.tagName + '.' + (e.getAttribute('class') || '');
    if (ratio < 4.5) found.add(`${ratio.toFixed(2)} ${name(e)} in ${name(e.parentElement)}: ${words.slice(0, 40)}`);
  }
  return [...found];
}
"""

_CONTROLS = """
card => {
  const found = [], root = card.getRootNode();
  const name = e => (e.getAttribute('aria-label') || e.textContent || '').trim()
    || (e.getAttribute('aria-labelledby') || '').split(' ').map(id => root.getElementById(id)?.textContent).join('');
  const say = (e, what) => found.push(`${e.tagName}.${e.getAttribute('class') || ''}: ${what}`);
  const named = ['button', 'input', 'select', ...['img', 'group', 'option', 'listbox', 'tab', 'tabpanel', 'tablist',
    'button'].map(role => `[role=${role}]`)].join();
  for (const e of card.querySelectorAll('button, input, select, [role], [tabindex="0"], a')) {
    const role = e.getAttribute('role');
    if (e.matches(named) && !name(e)) say(e, 'no name');
    const native = e.matches('button, input, select, .scroll');
    if (e.tabIndex >= 0 && !role && !native) say(e, 'takes focus and has no role');
    if (+e.getAttribute('tabindex') > 0) say(e, 'a tabindex above 0');
    for (const key of ['aria-controls', 'aria-labelledby'])
      if (e.hasAttribute(key) && !root.getElementById(e.getAttribute(key))) say(e, `${key} leads nowhere`);
    if (role === 'option' && !e.closest('[role=listbox]')) say(e, 'an option outside a listbox');
    if (role === 'tab' && !e.closest('[role=tablist]')) say(e, 'a tab outside a tablist');
    if (e.closest('[aria-hidden=true]') && e.tabIndex >= 0) say(e, 'takes focus though hidden');
  }
  for (const t of card.querySelectorAll('th')) if (t.scope !== 'col') say(t, 'a header without a scope');
  for (const e of card.querySelectorAll('.scroll')) {
    const reached = e.matches('[tabindex="0"]') || e.querySelector('[tabindex="0"], button');
    const scrolls = e.clientHeight && e.scrollHeight > e.clientHeight + 1;
    if (scrolls && !reached) say(e, 'scrolls and cannot be reached by keyboard');
  }
  const ids = [...card.querySelectorAll('[id]')].map(e => e.id);
  if (new Set(ids).size < ids.length) found.push('an id twice');
  return found;
}
"""


def faint(card: Any) -> list[str]:
    """Texts of the card whose contrast to what lies behind them is under 4.5."""
    found: list[str] = card.evaluate(_CONTRAST)
    return found


def check(card: Any) -> list[str]:
    """Controls without a name, references that lead nowhere, focus that has no role or no visible place."""
    found: list[str] = card.evaluate(_CONTROLS)
    return found


@cache
def _axe() -> str:
    return files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


def axe(page: Any, inside: str | None = None) -> list[str]:
    """What axe-core finds on the page, or inside the elements of one selector; shadow roots are looked into.

    Of every rule, also the best practices; a rule that cannot decide (text over a picture) is left to `faint`.
    """
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(_axe())
    run = """async inside => {
      const found = await axe.run(inside || document, {resultTypes: ['violations']});
      return found.violations.flatMap(v => v.nodes.map(n =>
        `${v.impact} ${v.id}: ${n.target.flat().join(' ')}: ${n.failureSummary.replaceAll('\\n', ' ')}`));
    }"""
    found: list[str] = page.evaluate(run, inside)
    return found
