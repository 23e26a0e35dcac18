// Figures in words. A value that is no number ("NaN", "∞", null) is written as it came.

/** @returns {boolean} whether a value of the data is a number */
export function isNumber(value) {
  return typeof value === 'number';
}

function asItCame(value) {
  return value ?? '';
}

/** Three significant digits, without an exponent. */
export function fixed(x) {
  return x.toFixed(Math.max(0, 2 - Math.floor(Math.log10(Math.abs(x)))));
}

export function number(x) {
  if (!isNumber(x)) {
    return asItCame(x);
  }
  if (!x) {
    return '0';
  }
  const size = Math.abs(x);
  return size < 1e-3 || size >= 1e4 ? x.toExponential(2) : fixed(x);
}

/** A time in milliseconds. */
export function time(ms) {
  if (!isNumber(ms)) {
    return asItCame(ms);
  }
  if (ms >= 1e3) {
    return `${fixed(ms / 1e3)} s`;
  }
  if (ms >= 1) {
    return `${fixed(ms)} ms`;
  }
  if (ms >= 1e-3) {
    return `${fixed(ms * 1e3)} µs`;
  }
  return ms ? `${(ms * 1e3).toFixed(1)} µs` : '0 ms';
}

/** A share of 1 in percent. */
export function share(x) {
  if (!isNumber(x)) {
    return asItCame(x);
  }
  return x > 0 && x < 1e-3 ? '<0.1 %' : `${+(100 * x).toPrecision(3)} %`;
}

const WHOLE = new Intl.NumberFormat('en'); // ten times as fast as toLocaleString, which thousands of boxes notice

export function whole(n) {
  return WHOLE.format(n);
}

/** "1 run", "2,000 runs". */
export function count(n, noun) {
  return `${whole(n)} ${noun}${n === 1 ? '' : 's'}`;
}

export function bytes(x) {
  if (!x) {
    return '0';
  }
  for (const [unit, name] of [
    [1e9, 'GB'],
    [1e6, 'MB'],
    [1e3, 'kB'],
  ]) {
    if (x >= unit) {
      return `${fixed(x / unit)} ${name}`;
    }
  }
  return `${x} bytes`;
}

/** The sum of one property over rows; what is no number counts nothing. */
export function sum(rows, key) {
  return rows.reduce((total, row) => total + (+row[key] || 0), 0);
}

/** Time of a row: forward, backward, and of a line what was neither. */
export function took(row) {
  return (+row.forward || 0) + (+row.backward || 0) + (+row.other || 0);
}

/** The largest figure of rows, and 1 where there is none: bars are drawn as shares of it. */
export function largest(rows, figure) {
  return rows.reduce((most, row) => Math.max(most, +figure(row) || 0), 0) || 1;
}
