"""The bundles in widgets/bundles are what the sources in widgets/live give."""

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

import widgets
from widgets.assets import bundle

PACKAGE = Path(widgets.__file__).parent
LIVE = PACKAGE / "live"
BUNDLES = sorted(path for path in (PACKAGE / "bundles").iterdir())
SOURCES = sorted(path for folder in ("src", "styles") for path in (LIVE / folder).rglob("*") if path.is_file())
REBUILD = "Remedy: npm ci && npm run build in widgets/live"


def digest_of_sources():
    """As widgets/live/build.mjs computes it."""
    digest = hashlib.sha256()
    names = {
        path.relative_to(LIVE).as_posix(): path for path in (*SOURCES, LIVE / "build.mjs", LIVE / "package-lock.json")
    }
    for name in sorted(names):
        digest.update(f"{name}\0".encode() + names[name].read_bytes() + b"\0")
    return digest.hexdigest()


def test_every_bundle_names_the_sources_as_they_are():
    assert {path.name for path in BUNDLES} == {
        "card.css",
        "card.js",
        "exported.css",
        "listener.js",
        "ranked.css",
        "run.css",
        "shrunk.css",
        "study.css",
        "training.css",
        "tuner.css",
        "tuner.js",
        "tuner_widget.js",
    }
    first = f"/* made by widgets/live/build.mjs from sources {digest_of_sources()} */"
    stale = [path.name for path in BUNDLES if path.read_text(encoding="utf-8").partition("\n")[0] != first]
    assert stale == [], REBUILD


def test_building_again_gives_the_same_bundles():
    """The digest cannot tell whether a bundle was changed by hand: this can."""
    if shutil.which("node") is None or not (LIVE / "node_modules" / "esbuild").is_dir():
        pytest.skip("needs Node.js and what `npm ci` installs in widgets/live")
    done = subprocess.run(["node", "build.mjs", "--check"], cwd=LIVE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


@pytest.mark.parametrize("path", [*SOURCES, LIVE / "build.mjs"], ids=lambda path: path.name)
def test_sources_are_lines_that_a_person_can_read(path):
    """The formatter leaves a long string as it is."""
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [f"{path.name}:{k}" for k, line in enumerate(lines, 1) if len(line) > 120] == []
    assert len(lines) <= 500


def test_what_is_inlined_stays_small():
    """Every saved card and panel holds a copy: these are the sizes of today, so that what is added is noticed."""
    limits = {"card.js": 61_700, "tuner.js": 23_657, "tuner_widget.js": 28_872, "listener.js": 978, "card.css": 14_600,
              "tuner.css": 7_180, "training.css": 4_800, "exported.css": 3_380,
              "run.css": 3_000, "shrunk.css": 4_750, "ranked.css": 5_000, "study.css": 4_480}  # fmt: skip
    sizes = {path.name: len(bundle(path.name).encode()) for path in BUNDLES}
    assert {name for name, size in sizes.items() if size > limits[name]} == set()
