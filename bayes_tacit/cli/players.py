"""What `collect` and `evaluate` share: which games are played, by whom, and what is shown on the way."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayes_tacit.errors import InvalidDataError, MissingFileError

if TYPE_CHECKING:
    from bayes_tacit.agents.alfworld import Game
    from bayes_tacit.agents.alfworld.collect import Players
    from bayes_tacit.agents.protocols import Actor, Agent

SCRIPTED = "scripted"

Data = Annotated[Path | None, typer.Option(help="Folder of ALFWorld's games; by default what ALFWORLD_DATA says.")]
Split = Annotated[str, typer.Option(help="Folder of games in it, such as valid_seen.")]
GameList = Annotated[Path | None, typer.Option("--games", help="Only these: a text file with one id a line.")]
First = Annotated[int | None, typer.Option(help="Only the first so many, by id.")]
Cheap = Annotated[str, typer.Option(help="Who plays Cheap: scripted, or the address of an endpoint.")]
CheapModel = Annotated[str | None, typer.Option(help="Name of the model behind that endpoint.")]
CheapKey = Annotated[str | None, typer.Option(help="Environment variable that holds its key.")]
Strong = Annotated[str, typer.Option(help="Who plays Strong: scripted, or the address of an endpoint.")]
StrongModel = Annotated[str | None, typer.Option(help="Name of the model behind that endpoint.")]
StrongKey = Annotated[str | None, typer.Option(help="Environment variable that holds its key.")]
Pricing = Annotated[str, typer.Option(help="What calls cost, in calls of the 4B model: 4b, or 9b for a 9B Cheap.")]
Actions = Annotated[int, typer.Option(help="Actions that an episode may take.")]
Workers = Annotated[int, typer.Option(help="Number of processes.")]


@dataclass(frozen=True)
class Seat:
    """Who plays one of the two roles, as the command line says it."""

    agent: Agent
    who: str
    model: str | None
    key_variable: str | None

    def actor(self, seed: int) -> Actor:
        """Make the actor."""
        from bayes_tacit.agents.alfworld import CheapActor, StrongActor
        from bayes_tacit.agents.endpoint import Endpoint, EndpointActor
        from bayes_tacit.agents.endpoint.secrets import shown_address

        if self.who == SCRIPTED:
            if self.model or self.key_variable:
                expected = f"none with --{self.agent} scripted"
                raise InvalidDataError(
                    expected, field=f"--{self.agent}-model, --{self.agent}-key", value=(self.model, self.key_variable)
                )
            return CheapActor(seed) if self.agent == "cheap" else StrongActor(seed)
        if not self.who.startswith(("http://", "https://")):
            raise InvalidDataError(
                "scripted, or http://... or https://...", field=f"--{self.agent}", value=shown_address(self.who)
            )
        if not self.model:
            raise InvalidDataError("the name of the model there", field=f"--{self.agent}-model", value=self.model)
        return EndpointActor(Endpoint(self.who, self.model, self.key_variable, seed=seed))


def players_of(cheap: Seat, strong: Seat, pricing: str, actions: int, seed: int) -> Players:
    """Give who plays, at what cost, for how long."""
    from bayes_tacit.agents.accounts import Budget
    from bayes_tacit.agents.alfworld.collect import Players
    from bayes_tacit.data.costs import StepCost

    return Players(cheap.actor(seed), strong.actor(seed), StepCost.paper(pricing), Budget(actions))


def games_of(data: Path | None, split: str, listed: Path | None, first: int | None) -> list[Game]:
    """Find the games that are to be played."""
    from bayes_tacit import validate
    from bayes_tacit.agents.alfworld import list_games

    games = list_games(split, data)
    if listed is not None:
        known = {game.id: game for game in games}
        if not listed.is_file():
            raise MissingFileError(f"{listed}: no such file; expected a text file with one id of a game a line")
        wanted = [line.strip() for line in listed.read_text(encoding="utf-8").splitlines() if line.strip()]
        for name in wanted:
            if name not in known:
                raise InvalidDataError(
                    f"an id such as {next(iter(known), split + '/...')!r}", field="game", value=name, where=str(listed)
                )
        games = [known[name] for name in dict.fromkeys(wanted)]
    if first is not None:
        games = games[: validate.whole("--first", first, 1)]
    if not games:
        raise MissingFileError(f"no game of the split {split!r}; expected at least one that can be solved")
    return games
