"""The wheel, in an environment that has its hard dependencies and nothing else: neither extras nor this clone."""

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest
from documents import Document
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
BEHIND_EXTRAS = ("bayes_tacit.frameworks", "bayes_tacit.gateway.server")

IMPORT_ALL = """
import importlib, json, pkgutil, sys, bayes_tacit
missing = {}
for module in pkgutil.walk_packages(bayes_tacit.__path__, "bayes_tacit.", onerror=lambda name: None):
    try:
        importlib.import_module(module.name)
    except ImportError as error:
        missing[module.name] = str(error)
print(json.dumps(missing))
"""

SAMPLED = """
from bayes_tacit import Router, load_example, sample_posterior
tree = sample_posterior(load_example(), draws=20, tune=50, chains=1, seed=1)
Router.from_posterior(tree, alpha=0.3).save("sampled.json")
"""


def needed(text: str) -> set[str]:
    """Return the names of a distribution and of all that it requires."""
    found: set[tuple[str, str]] = set()
    waiting = [Requirement(text)]
    while waiting:
        one = waiting.pop()
        for extra in ("", *one.extras):
            name = canonicalize_name(one.name)
            if (one.marker and not one.marker.evaluate({"extra": ""})) or (name, extra) in found:
                continue
            found.add((name, extra))
            for line in importlib.metadata.requires(name) or ():
                other = Requirement(line)
                if other.marker is None or other.marker.evaluate({"extra": extra}):
                    other.marker = None
                    waiting.append(other)
    return {name for name, _ in found}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def plain(wheel, tmp_path_factory):
    """Run Python where the wheel is installed with what it requires, all taken from the environment of the tests."""
    home = tmp_path_factory.mktemp("plain")
    installed, beside, work = home / "installed", home / "beside", home / "work"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check"]
    subprocess.run([*pip, "--target", str(installed), str(wheel)], check=True, capture_output=True)
    beside.mkdir()
    work.mkdir()
    (metadata,) = installed.glob("*.dist-info")
    requirements = importlib.metadata.Distribution.at(metadata).requires or []
    hard = [Requirement(line) for line in requirements if "extra ==" not in line]
    for name in set().union(*(needed(str(one)) for one in hard)):
        distribution = importlib.metadata.distribution(name)
        for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            link = beside / top
            if not link.exists():
                link.symlink_to(distribution.locate_file(top))
    kept = ("PATH", "HOME", "TMPDIR", "PYTENSOR_FLAGS", "NUMBA_CACHE_DIR")
    environment = {key: value for key, value in os.environ.items() if key in kept}
    environment["PYTHONPATH"] = os.pathsep.join([str(installed), str(beside)])

    def run(*words: str, said: str = "") -> str:
        # Without `site`, and so without the packages of the tests' environment, which have this clone among them.
        command = [sys.executable, "-S", *words]
        done = subprocess.run(
            command, cwd=work, env=environment, input=said, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run.program = str(installed / "bin" / "bayes-tacit")
    return run


def test_what_is_in_the_package_is_in_the_wheel(wheel):
    tracked = {path.relative_to(ROOT).as_posix() for path in (ROOT / "bayes_tacit").rglob("*") if path.is_file()}
    tracked = {path for path in tracked if "__pycache__" not in path}
    with ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == tracked


def test_the_clone_and_extras_are_not_there(plain):
    code = "import json, importlib.util as u; print(json.dumps([n for n in {} if u.find_spec(n)]))"
    assert json.loads(plain("-c", code.format(["simulations", "models", "starlette", "pytest", "pip"]))) == []
    assert not plain("-c", "import bayes_tacit; print(bayes_tacit.__file__)").startswith(str(ROOT))


def test_the_quickstart_runs_and_prints_what_the_readme_says(plain):
    blocks = Document(ROOT / "README.md").blocks
    at = next(at for at, block in enumerate(blocks) if block.language == "python")
    assert plain("-W", "ignore", "-c", blocks[at].body) == blocks[at + 1].body


def test_only_rooms_behind_extras_need_more_to_be_imported(plain):
    missing = json.loads(plain("-W", "ignore", "-c", IMPORT_ALL))
    assert [name for name in missing if not name.startswith(BEHIND_EXTRAS)] == []


def test_it_samples_and_the_program_fits_recommends_and_routes(plain):
    assert "recommend" in plain(plain.program, "--help")
    plain(plain.program, "example", "e.jsonl")
    plain(plain.program, "fit", "e.jsonl", "--out", "fit.json")
    plain(plain.program, "recommend", "e.jsonl", "--cap", "60", "--step-budget", "30", "--out", "recommended.json")
    plain("-W", "ignore", "-c", SAMPLED)
    task = {"episode": "a", "features": {"entities": 12, "subgoals": 3, "needs_tool": 1}}
    for router in ("recommended.json", "sampled.json"):
        assert json.loads(plain(plain.program, "route", router, said=json.dumps(task)))["started"]


def test_it_is_said_how_every_extra_is_installed():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    page = (ROOT / "docs/start.md").read_text(encoding="utf-8")
    assert sorted(set(re.findall(r"pip install '?\.(?:\[([\w-]+)\])?", page))) == sorted(["", *extras])
