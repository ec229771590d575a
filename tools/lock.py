"""Write requirements.lock: one file, in sections, each holding what the ones above it do not.

`make demo` installs the first section only, `make test` the first three. Everything is resolved together, so a
package has one version whichever sections are installed. Run by `make lock`, which has `uv` on its path.
"""

import re
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
SECTIONS: dict[str, list[str]] = {
    "demo": ["--group", "build", "--extra", "gateway"],
    "test": [
        "--group",
        "dev",
        "--group",
        "benchmarks",
        "--extra",
        "scale",
        "--extra",
        "agents",
        "--extra",
        "langchain",
        "--extra",
        "litellm",
        "--extra",
        "openai-agents",
        "--extra",
        "redis",
        "--extra",
        "postgres",
    ],
    "docs": ["--group", "docs"],
    "notebooks": ["--extra", "notebooks"],
}


def compile_lock(options: list[str], constraints: Path | None = None) -> str:
    """Resolve the project with some of its extras and groups, for every platform, with hashes."""
    command = ["uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--universal"]
    command += ["--python-version", "3.12", "--generate-hashes", "pyproject.toml", *options]
    if constraints is not None:
        command += ["--constraint", str(constraints)]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def requirements(text: str) -> dict[str, str]:
    """Split a lock into its requirements, each with its hash lines, by the line that names it."""
    blocks = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)
    return {block.splitlines()[0]: block for block in blocks if block.strip()}


def main() -> None:
    """Resolve everything once, then cut the result into sections."""
    with tempfile.TemporaryDirectory() as folder:
        everything = Path(folder) / "everything.txt"
        everything.write_text(compile_lock([option for options in SECTIONS.values() for option in options]))
        options: list[str] = []
        written: set[str] = set()
        lock = ""
        for section, its_options in SECTIONS.items():
            options += its_options
            resolved = requirements(compile_lock(options, constraints=everything))
            lock += f"# section: {section}\n"
            lock += "".join(block for name, block in resolved.items() if name not in written)
            written |= resolved.keys()
    (ROOT / "requirements.lock").write_text(lock)


if __name__ == "__main__":
    main()
