"""The command that stands between an agent and two models: serve."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bayes_tacit import validate
from bayes_tacit.cli.common import AnySeed
from bayes_tacit.data.timing import HANDOFFS
from bayes_tacit.errors import MissingDependencyError
from bayes_tacit.keys import key_from, no_key_in

MEGABYTE = 2**20


def serve(
    cheap: Annotated[str, typer.Option(help="Cheap's server, such as http://127.0.0.1:8000/v1.", show_default=False)],
    strong: Annotated[str, typer.Option(help="Strong's server.", show_default=False)],
    router: Annotated[
        Path | None, typer.Argument(help="A router, .json; without one, four bad signs hand off.", show_default=False)
    ] = None,
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Where to listen.")] = 8080,
    cheap_model: Annotated[str | None, typer.Option(help="Cheap's name there; by default the client's.")] = None,
    strong_model: Annotated[str | None, typer.Option(help="Strong's name there.")] = None,
    cheap_key: Annotated[
        str | None, typer.Option(help="Environment variable with Cheap's key; by default the client's key.")
    ] = None,
    strong_key: Annotated[
        str | None, typer.Option(help="The same for Strong; a client's key never goes to another host than Cheap's.")
    ] = None,
    cheap_price: Annotated[str, typer.Option(help="Of a call, or of a million tokens: input,cached,output.")] = "1",
    strong_price: Annotated[str, typer.Option(help="The same for Strong.")] = "10",
    handoff: Annotated[str | None, typer.Option(help="resume or restart, in place of what the router says.")] = None,
    shadow: Annotated[
        Path | None, typer.Option(help="A second router, which decides and is logged, and hands off nothing.")
    ] = None,
    log: Annotated[Path | None, typer.Option(help="Append every decision to this file, .jsonl.")] = None,
    state: Annotated[Path | None, typer.Option(help="Keep sessions in this SQLite file; else in memory.")] = None,
    fallback: Annotated[
        bool, typer.Option("--fallback", help="Strong serves a request that Cheap's server cannot, without a handoff.")
    ] = False,
    logprobs: Annotated[
        bool, typer.Option("--logprobs", help="Ask Cheap for log-probabilities where the client does not.")
    ] = False,
    workers: Annotated[int, typer.Option(help="Processes; more than one need --state.")] = 1,
    max_body: Annotated[float, typer.Option(help="Megabytes that a request may have.")] = 64.0,
    connect_timeout: Annotated[float, typer.Option(help="Seconds to reach a model's server.")] = 10.0,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the first or next piece of a reply.")] = 600.0,
    max_sessions: Annotated[int, typer.Option(help="Sessions that are kept; then the idlest is forgotten.")] = 100_000,
    idle: Annotated[float, typer.Option(help="Hours until an idle session is forgotten.")] = 24.0,
    check: Annotated[
        bool, typer.Option("--check", help="Load and check everything, say what is to be said, and end.")
    ] = False,
    _seed: AnySeed = 0,
    _as_json: Annotated[
        bool, typer.Option("--json", help="Accepted by every command; answers are JSON anyway.")
    ] = False,
) -> None:
    """Serve OpenAI's chat protocol, with Cheap or Strong behind it as the router decides.

    An agent is pointed at it by its base address, http://HOST:PORT/v1. Each request is judged by what its messages show
    of the steps before it; once a session is handed off, Strong serves it to the end. Response headers (x-tacit-...)
    say who served and why.

    Example: `bayes-tacit serve router.json --cheap http://127.0.0.1:8000/v1 --strong http://127.0.0.1:8001/v1`
    """
    try:
        from bayes_tacit.gateway.server.app import create_app
        from bayes_tacit.gateway.server.app import serve as run
        from bayes_tacit.gateway.server.settings import Limits, Settings, Upstream
    except ModuleNotFoundError as error:
        raise MissingDependencyError(f"serve needs {error.name}: install bayes_tacit with the extra gateway") from None

    wanted = None if handoff is None else validate.choice("handoff", handoff, HANDOFFS)
    body = int(validate.number("max-body", max_body, "a number above 0", above=0) * MEGABYTE)
    settings = Settings(
        router=_text(router),
        cheap=Upstream(cheap, cheap_model, cheap_key, cheap_price),
        strong=Upstream(strong, strong_model, strong_key, strong_price),
        shadow=_text(shadow),
        handoff=wanted,
        fallback=fallback,
        logprobs=logprobs,
        log=_text(log),
        state=_text(state),
        limits=Limits(body, connecting=connect_timeout, silence=timeout, sessions=max_sessions, idle=idle * 3600),
    )
    validate.whole("port", port, 0, 65535)
    validate.whole("workers", workers, 1, 256)
    for one in (settings.cheap, settings.strong):
        no_key_in(key_from(one.key_variable), address=one.url, model=one.model)
    app = create_app(settings)
    for remark in app.state.remarks:
        typer.echo(f"note: {remark}", err=True)
    app.state.close()
    if check:
        return
    typer.echo(f"serving on http://{host}:{port}/v1", err=True)
    run(settings, host, port, workers)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
