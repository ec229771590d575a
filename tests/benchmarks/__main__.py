import warnings

from rich.console import Console

from benchmarks import fitting

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    console = Console()
    for table in fitting.tables():
        console.print(table)
