// Bundles and minifies the sources into ../bundles, which are committed: an installation needs no Node.js.
//
//   npm run build          writes the bundles
//   npm run check          also fails where a bundle is not what the sources give
//
// The first line of a bundle holds the digest of all sources, so that a test without Node.js sees a stale one.

import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join, relative, sep } from 'node:path';
import { argv, exit } from 'node:process';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { minify } from 'terser';

const HERE = dirname(fileURLToPath(import.meta.url));
const BUNDLES = join(HERE, '..', 'bundles');

/** Entry point → bundle, and how it is loaded: a script of a saved output, a module of a widget, a style sheet. */
const TARGETS = [
  { entry: 'src/card/main.js', bundle: 'card.js', format: 'iife' },
  { entry: 'src/tuner/saved.js', bundle: 'tuner.js', format: 'iife' },
  { entry: 'src/tuner/widget.js', bundle: 'tuner_widget.js', format: 'esm' },
  { entry: 'src/listener.js', bundle: 'listener.js', format: 'esm' },
  { entry: 'styles/card.css', bundle: 'card.css' },
  { entry: 'styles/run.css', bundle: 'run.css' },
  { entry: 'styles/tuner.css', bundle: 'tuner.css' },
  { entry: 'styles/training.css', bundle: 'training.css' },
  { entry: 'styles/exported.css', bundle: 'exported.css' },
  { entry: 'styles/shrunk.css', bundle: 'shrunk.css' },
  { entry: 'styles/ranked.css', bundle: 'ranked.css' },
  { entry: 'styles/study.css', bundle: 'study.css' },
];

/** What bundles are made of, besides the files below src and styles. */
const OTHER_SOURCES = ['build.mjs', 'package-lock.json'];

/** Paths of all files below a folder, with / between their parts. */
async function filesBelow(folder) {
  const entries = await readdir(join(HERE, folder), { withFileTypes: true, recursive: true });
  const files = entries.filter((entry) => entry.isFile());
  return files.map((entry) => relative(HERE, join(entry.parentPath, entry.name)).split(sep).join('/'));
}

/** The digest of all sources; tests/widgets/test_bundles.py computes the same. */
async function digestOfSources() {
  const found = [...(await filesBelow('src')), ...(await filesBelow('styles')), ...OTHER_SOURCES];
  const digest = createHash('sha256');
  for (const path of found.sort()) {
    digest.update(`${path}\0`);
    digest.update(await readFile(join(HERE, path)));
    digest.update('\0');
  }
  return digest.digest('hex');
}

/** A script's text as small as can be: every saved card holds a copy. */
async function minifiedScript(text, format) {
  const { code } = await minify(text, {
    ecma: 2022,
    module: format === 'esm',
    // safe here: no function of ours uses `this`, and no property is read for what reading it does
    compress: {
      passes: 3,
      inline: 1,
      keep_fargs: false,
      unsafe_arrows: true,
      pure_getters: true,
      lhs_constants: false,
    },
    format: { quote_style: 1 }, // a notebook is JSON: it writes a double quote as two characters
  });
  return code;
}

/** A style sheet without the spaces that esbuild leaves in the values of custom properties and of var(). */
function minifiedSheet(text) {
  return text.replace(/("[^"]*")|([:,(]) | (\))/g, (_, string, before, after) => string || before || after);
}

/** The text of a bundle. */
async function bundled({ entry, format }) {
  const result = await build({
    absWorkingDir: HERE,
    entryPoints: [entry],
    bundle: true,
    minifySyntax: true,
    minifyWhitespace: !format,
    write: false,
    format,
    charset: 'utf8', // an escape takes more room in a notebook than the character
    target: ['chrome111', 'firefox113', 'safari16.4'], // as the style sheets ask: color-mix
    logLevel: 'warning',
  });
  const [{ text }] = result.outputFiles;
  return format ? minifiedScript(text, format) : minifiedSheet(text);
}

const digest = await digestOfSources();
const isCheck = argv.includes('--check');
const stale = [];
await mkdir(BUNDLES, { recursive: true });
for (const target of TARGETS) {
  const path = join(BUNDLES, target.bundle);
  const text = `/* made by widgets/live/build.mjs from sources ${digest} */\n${(await bundled(target)).trim()}\n`;
  if (!isCheck) {
    await writeFile(path, text);
  } else if (text !== (await readFile(path, 'utf8').catch(() => ''))) {
    stale.push(target.bundle);
  }
}
if (stale.length) {
  console.error(`not what the sources give: ${stale.join(', ')}. Remedy: npm run build`);
  exit(1);
}
