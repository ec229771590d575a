"""`python -m simulations STUDY`: run a study, or go on with one that was stopped, and write its results."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console

from bayes_tacit import validate
from bayes_tacit.errors import InvalidDataError, TacitError
from simulations.studies.run import RESULTS, run_study
from simulations.studies.study import EXPERIMENTS, LOGS, STUDIES, Study, load

BAD_INPUT, INTERRUPTED = 2, 130


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line, like all others."""

    def error(self, message: str) -> NoReturn:
        raise TacitError(f"{message} (see python -m simulations --help)")


def main(words: Sequence[str] | None = None) -> int:
    """Run the program: exit code 0, 2 for bad input or a failed replicate, which is told in one line."""
    console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    words = sys.argv[1:] if words is None else words
    try:
        arguments = _parser(explained=bool({"-h", "--help"} & set(words))).parse_args(words)
        if arguments.list:
            print(_studies())
        elif arguments.study is None:
            names = ", ".join([*STUDIES, *EXPERIMENTS])
            raise TacitError(f"no study was named; expected one of {names}, or all")
        elif arguments.study in LOGS:
            _run_intercode(arguments, console)
        elif arguments.study == "pairs":
            _run_pairs(arguments, console)
        elif arguments.study == "dabench":
            _run_dabench(arguments, console)
        elif arguments.study in EXPERIMENTS:
            _run_alfworld(arguments, console)
        else:
            _run(arguments, console)
    except (TacitError, OSError) as error:
        console.print("error: " + " ".join(str(error).split()))
        return BAD_INPUT
    except KeyboardInterrupt:
        console.print("stopped; every finished replicate is kept, and the same command goes on from there")
        return INTERRUPTED
    return 0


def _run(arguments: argparse.Namespace, console: Console) -> None:
    everything = arguments.study == "all"
    if everything and arguments.setting:
        raise InvalidDataError("no --setting when all studies are run", field="setting", value=arguments.setting)
    for study in [load(name) for name in (STUDIES if everything else [arguments.study])]:
        root = arguments.out or (RESULTS if everything else RESULTS / study.name)
        _run_one(study, root / study.name if everything else root, arguments, console)
    if everything:
        _run_alfworld(arguments, console)
        _run_dabench(arguments, console)


def _run_one(study: Study, folder: Path, arguments: argparse.Namespace, console: Console) -> None:
    names = ("replicates", "seed", "jobs", "scheduler", "fresh")
    options = {name: getattr(arguments, name) for name in names}
    written = run_study(study, folder, only=arguments.setting, console=console, **options)
    said = "results in" if written else "tables and figures are written once all settings are there; kept in"
    console.print(f"{study.name}: {said} {folder}")


def _run_alfworld(arguments: argparse.Namespace, console: Console) -> None:
    # It needs the packages of the agents, which no study does.
    from simulations.alfworld import experiment as command

    alone = arguments.study in (command.NAME, command.LEARNED)
    name = arguments.study if alone else command.NAME
    if not alone and not command.has_data(arguments.data):
        console.print("alfworld: left out, since there are no games; expected --data, or the variable ALFWORLD_DATA")
        return
    folder, settings = _played(arguments, name, alone=alone)
    command.run(name, arguments.data, folder, **settings)
    console.print(f"{name}: results in {folder}")


def _run_dabench(arguments: argparse.Namespace, console: Console) -> None:
    from simulations.dabench import experiment as command

    alone = arguments.study == command.NAME
    if not alone and not os.environ.get(command.VARIABLE):
        console.print(f"dabench: left out, since there are no questions; expected the variable {command.VARIABLE}")
        return
    folder, settings = _played(arguments, command.NAME, alone=alone)
    if alone:
        settings |= {side: _path(getattr(arguments, side)) for side in ("cheap", "strong")}
    command.run(arguments.data if alone else None, folder, **settings)
    console.print(f"{command.NAME}: results in {folder}")


def _played(arguments: argparse.Namespace, name: str, *, alone: bool) -> tuple[Path, dict[str, Any]]:
    """Return the folder of a played experiment's results, and how it is run."""
    for option in ("replicates", "setting", "scheduler", "fresh") if alone else ():
        if getattr(arguments, option):
            raise InvalidDataError(f"no --{option} with {name}", field=option, value=getattr(arguments, option))
    folder = arguments.out if alone and arguments.out else (arguments.out or RESULTS) / name
    seed = validate.whole("seed", 0 if arguments.seed is None else arguments.seed, 0)
    jobs = validate.whole("jobs", arguments.jobs, 1)
    return folder, {"kept": arguments.kept if alone else None, "jobs": jobs, "seed": seed}


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def _run_intercode(arguments: argparse.Namespace, console: Console) -> None:
    from simulations.intercode import few_shot, study
    from simulations.intercode.logs import CHEAP, STRONG, Source

    name = arguments.study
    for option in ("scheduler", "kept"):
        if getattr(arguments, option):
            raise InvalidDataError(f"no --{option} with {name}", field=option, value=getattr(arguments, option))
    if arguments.data is None:
        raise InvalidDataError("the folder of InterCode's results", field="--data", value=None)
    source = Source(arguments.data, arguments.cheap or CHEAP, arguments.strong or STRONG)
    made = few_shot.study_of(source) if name == few_shot.NAME else study.study_of(source)
    _run_one(made, arguments.out or RESULTS / name, arguments, console)


def _run_pairs(arguments: argparse.Namespace, console: Console) -> None:
    from simulations import pairs

    splits = pairs.SPLITS if arguments.replicates is None else validate.whole("replicates", arguments.replicates, 1)
    folder = pairs.run(
        arguments.data, arguments.out or RESULTS / "pairs", splits=splits, fresh=arguments.fresh, console=console
    )
    console.print(f"written to {folder}")


def _parser(*, explained: bool) -> argparse.ArgumentParser:
    """Make the parser; that its help lists the studies too takes importing them all."""
    parser = _Parser(
        prog="python -m simulations",
        description="Run a study on simulated episodes, or go on with one that was stopped.",
        epilog=f"studies:\n{_studies()}" if explained else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("study", nargs="?", help="name of a study, or all")
    parser.add_argument("--list", action="store_true", help="list the studies and exit")
    parser.add_argument("--replicates", type=int, metavar="N", help="replicates of each setting; default: the study's")
    parser.add_argument("--seed", type=int, metavar="N", help="default: the study's")
    parser.add_argument(
        "--setting", action="append", default=[], metavar="NAME", help="compute only this one; repeatable"
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes to use; default: 1")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="compute on a Dask cluster, such as tcp://host:8786")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help=f"folder of the results; default: {RESULTS}/STUDY. With all, the folder that holds one for each study",
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="alfworld: its games, default: $ALFWORLD_DATA; dabench: its files, default: $DABENCH_DATA; "
        "intercode: its logs; pairs: the folder with intercode, mint and ldb",
    )
    for side in ("cheap", "strong"):
        parser.add_argument(
            f"--{side}",
            metavar="PATH",
            help=f"intercode: {side.capitalize()}'s results in that folder; dabench: a folder of recorded transcripts "
            "that it replays",
        )
    parser.add_argument(
        "--kept",
        type=Path,
        metavar="FOLDER",
        help="alfworld, dabench: where all that is played is kept; default: OUT/kept",
    )
    parser.add_argument("--fresh", action="store_true", help="discard the replicates that the folder holds")
    return parser


def _studies() -> str:
    described = {name: load(name).description for name in STUDIES} | EXPERIMENTS
    width = max(map(len, described))
    return "\n".join(f"  {name:<{width}}  {words}" for name, words in described.items())


if __name__ == "__main__":
    sys.exit(main())
