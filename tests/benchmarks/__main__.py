import warnings

from rich.console import Console

from benchmarks import deploying, fitting, importing, large, observing, playing, routing, sampling, scoring, simulating

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    console = Console()
    for part in (fitting, sampling, scoring, large, deploying, observing, routing, simulating, playing, importing):
        for table in part.tables():
            console.print(table)
