"""Counts where things are in the games set aside for that, and writes the table that stands beside this file.

python -m simulations.alfworld.write_places path/to/alfworld
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bayes_tacit.files import atomic_path
from simulations.alfworld.games import make_splits
from simulations.alfworld.plan import learn_places


def write_table(data: str, target: Path) -> None:
    """Write the table as JSON, a line for each kind of receptacle."""
    values = learn_places(make_splits(data).knowledge).as_dict()
    parts = []
    for name, content in values.items():
        if isinstance(content, dict):
            lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in content.items()]
            parts.append(f"{json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n}")
        else:
            parts.append(f"{json.dumps(name)}: {json.dumps(content, indent=1)}")
    with atomic_path(target) as temporary:
        temporary.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    write_table(sys.argv[1], Path(__file__).with_name("places.json"))
