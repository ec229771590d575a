import sys
import warnings
from importlib import import_module
from pathlib import Path

from rich.console import Console

from benchmarks.large import FIGURE

PARTS = ("fitting", "sampling", "scoring", "large", "deploying", "simulating")
PAGE = "benchmarks.html"

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    console = Console(record=True, width=140)
    for name in sys.argv[1:] or PARTS:
        for table in import_module(f"benchmarks.{name}").tables():
            console.print(table)
    console.save_html(PAGE)
    if FIGURE.exists():
        page = Path(PAGE).read_text(encoding="utf-8")
        Path(PAGE).write_text(page.replace("</body>", f"{FIGURE.read_text(encoding='utf-8')}</body>"), encoding="utf-8")
    console.print(f"written to {PAGE}")
