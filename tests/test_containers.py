"""The container recipes, read as text: no image is built here, so what would fail or harm there is looked for."""

from __future__ import annotations

import fnmatch
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RECIPES = [*sorted((ROOT / ".containers").glob("*.Dockerfile")), ROOT / ".devcontainer" / "Dockerfile"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WORDS = {"FROM", "RUN", "COPY", "ENV", "WORKDIR", "USER", "EXPOSE", "CMD", "ENTRYPOINT"}  # no ADD, no ARG that hides


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a recipe, with their continued lines joined and comments left out."""
    joined, rest = [], ""
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("#") or not line:
            continue
        rest += line.removesuffix("\\").rstrip() + " "
        if not line.endswith("\\"):
            joined.append(rest.strip())
            rest = ""
    assert not rest, "the last line is continued"
    return [(line.split()[0].upper(), line.partition(" ")[2].strip()) for line in joined]


def kept_out() -> list[str]:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def is_kept_out(path: str) -> bool:
    parts = path.split("/")
    ends = ["/".join(parts[:k]) for k in range(1, len(parts) + 1)]
    return any(
        fnmatch.fnmatch(end, p) or (p.startswith("**/") and fnmatch.fnmatch(end.rpartition("/")[2], p[3:]))
        for p in kept_out()
        for end in ends
    )


def faults(text: str) -> Iterator[str]:
    """What is wrong with a recipe."""
    found = instructions(text)
    yield from (f"{word} is not used here" for word, _ in found if word not in WORDS)
    if not found or found[0][0] != "FROM":
        yield "it does not begin with FROM"
    stages: set[str] = set()
    user = "root"
    for word, rest in found:
        if word == "FROM":
            image, _, name = rest.partition(" AS ")
            if image not in stages and not re.search(r":[\w.-]*\d+\.\d+\.\d+[\w.-]*$|@sha256:[0-9a-f]{64}$", image):
                yield f"{image} is not pinned to a version of three numbers"
            stages.add(name)
            user = "root"
        elif word == "USER":
            user = rest
        elif word == "RUN":
            yield from _faults_of_run(rest, user)
        elif word == "COPY":
            yield from _faults_of_copy(rest, stages)
        elif word == "ENV" and re.search(r"(?i)token|password|secret|key", rest):
            yield f"a secret in ENV {rest}"
        elif word in ("CMD", "ENTRYPOINT"):
            try:
                json.loads(rest)
            except ValueError:
                yield f"{word} is no list: a shell would stand between it and the signal to stop"
    if user in ("root", "0"):
        yield "it ends as root"


def _faults_of_run(rest: str, user: str) -> Iterator[str]:
    if "apt-get install" in rest:
        for needed in ("apt-get update", " -y", "--no-install-recommends", "rm -rf /var/lib/apt/lists/*"):
            if needed not in rest:
                yield f"apt-get install without {needed.strip()} in the same RUN"
        if user not in ("root", "0"):
            yield "apt-get needs root"
    if "pip install" in rest and "--no-cache-dir" not in rest:
        yield "pip install leaves its cache: --no-cache-dir"
    for extras in re.findall(r"\.whl\)\[([\w,]+)\]", rest):
        for extra in set(extras.split(",")) - set(PROJECT["project"]["optional-dependencies"]):
            yield f"there is no extra {extra}"
    if re.search(r"\bsudo\b|(curl|wget)[^&|]*\|", rest):
        yield f"sudo, or a script from the network: {rest}"


def _faults_of_copy(rest: str, stages: set[str]) -> Iterator[str]:
    options = [w for w in rest.split() if w.startswith("--")]
    *sources, _ = [w for w in rest.split() if not w.startswith("--")]
    origin = next((o.removeprefix("--from=") for o in options if o.startswith("--from=")), None)
    if origin is not None:
        if origin not in stages:
            yield f"there is no stage {origin}"
        return
    for source in sources:
        if not list(ROOT.glob(source)):
            yield f"{source} does not exist"
        elif is_kept_out(source):
            yield f"{source} is kept out by .dockerignore"


@pytest.mark.parametrize("path", RECIPES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_a_recipe_is_sound(path: Path) -> None:
    assert not list(faults(path.read_text()))


def test_there_is_one_for_each_place() -> None:
    assert {p.name.split(".")[0] for p in RECIPES} == {"cpu", "cuda", "serve", "Dockerfile"}
    cuda = (ROOT / ".containers" / "cuda.Dockerfile").read_text()
    assert "FROM nvidia/cuda:" in cuda
    assert "gpu" in re.search(r"\.whl\)\[([\w,]+)\]", cuda)[1].split(",")


@pytest.mark.parametrize("path", RECIPES[:-1], ids=lambda p: p.name)
def test_what_the_build_reads_is_copied(path: Path) -> None:
    """The wheel is built of what pyproject.toml names, and all of it is in the image that builds it."""
    copied = {w for word, rest in instructions(path.read_text()) if word == "COPY" for w in rest.split()[:-1]}
    packages = {pattern.removesuffix("*") for pattern in PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]}
    files = {PROJECT["project"]["readme"], *PROJECT["project"]["license-files"], "pyproject.toml"}
    assert packages | files <= copied
    for package in packages:
        assert not is_kept_out(f"{package}/__init__.py")
    sources = [str(p.relative_to(ROOT)) for p in (ROOT / "core" / "native" / "kernels").glob("*.c")]
    assert sources
    assert not [s for s in sources if is_kept_out(s)]
    assert is_kept_out("core/native/_native.cpython-311-x86_64-linux-gnu.so")


def test_the_development_container_is_for_its_recipe() -> None:
    told = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    recipe = ROOT / ".devcontainer" / told["build"]["dockerfile"]
    assert recipe == RECIPES[-1]
    assert (ROOT / ".devcontainer" / told["build"]["context"]).resolve() == ROOT
    assert f"--uid 1000 {told['remoteUser']}" in recipe.read_text().replace("--shell /bin/bash ", "")
    extras = re.search(r"\.\[([\w,]+)\]", told["postCreateCommand"])
    assert extras is not None
    assert set(extras[1].split(",")) <= set(PROJECT["project"]["optional-dependencies"])
    interpreter = told["customizations"]["vscode"]["settings"]["python.defaultInterpreterPath"]
    assert f"python -m venv {interpreter.removesuffix('/bin/python')}" in recipe.read_text()


SOUND = "FROM python:3.11.13-slim AS a\nRUN apt-get update && apt-get install -y --no-install-recommends gcc \\\n" \
        "    && rm -rf /var/lib/apt/lists/*\nCOPY lab lab\nUSER 1000\nCMD [\"python\"]\n"  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("3.11.13-slim", "3.11", "python:3.11 is not pinned"),
        ("python:3.11.13-slim", "python", "python is not pinned"),
        ("3.11.13-slim", "latest", "python:latest is not pinned"),
        ("USER 1000\n", "", "it ends as root"),
        ("USER 1000\n", "USER 1000\nUSER 0\n", "it ends as root"),
        ("USER 1000\n", "USER 1000\nFROM a\n", "it ends as root"),
        (" \\\n    && rm -rf /var/lib/apt/lists/*", "", "without rm -rf /var/lib/apt/lists/*"),
        ("apt-get update && ", "", "without apt-get update"),
        ("--no-install-recommends ", "", "without --no-install-recommends"),
        ("COPY lab lab", "COPY labb lab", "labb does not exist"),
        ("COPY lab lab", "COPY tests tests", "tests is kept out by .dockerignore"),
        ("COPY lab lab", "COPY --from=b /x /x", "there is no stage b"),
        ("COPY lab lab", "ADD lab lab", "ADD is not used here"),
        ("COPY lab lab", 'RUN pip install "$(ls *.whl)[labb]"', "there is no extra labb"),
        ("COPY lab lab", "RUN pip install x", "--no-cache-dir"),
        ("COPY lab lab", "RUN curl -s https://x | sh", "a script from the network"),
        ("COPY lab lab", "ENV API_KEY=1", "a secret in ENV"),
        ('CMD ["python"]', "CMD python", "CMD is no list"),
    ],
)
def test_the_linter_finds_faults(old: str, new: str, said: str) -> None:
    assert not list(faults(SOUND))
    assert old in SOUND
    assert any(said in fault for fault in faults(SOUND.replace(old, new)))
