"""The command that stands between an agent and two models: serve."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from bayes_tacit import validate
from bayes_tacit.cli.common import AnySeed
from bayes_tacit.data.timing import HANDOFFS
from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingDependencyError, MissingFileError
from bayes_tacit.keys import key_from, no_key_in

MEGABYTE = 2**20


def _configure(context: typer.Context, path: Path | None) -> Path | None:
    """Take options from a file; what stands on the command line counts before it."""
    if path is None:
        return None
    if not path.is_file():
        raise MissingFileError(f"{path}: no such file; expected options of serve, .toml")
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise FileFormatError(f"{path}: {error}; expected options of serve as TOML") from None
    known = {one.name: one for one in context.command.params if one.name not in ("config", "check", "help")}
    found: dict[str, Any] = {}
    for key, value in content.items():
        name = key.replace("-", "_")
        if name not in known:
            listed = ", ".join(str(one).replace("_", "-") for one in known)
            raise InvalidDataError(f"an option of serve: {listed}", field=str(path), value=key)
        if isinstance(value, dict | list):
            raise InvalidDataError("one value, a text with commas for several", field=f"{path}, {key}", value=value)
        found[name] = value if isinstance(value, bool) else str(value)
    context.default_map = {**(context.default_map or {}), **found}
    return path


Config = Annotated[
    Path | None,
    typer.Option(help="Take options from this file, .toml, by their names.", callback=_configure, is_eager=True),
]


def serve(
    cheap: Annotated[str, typer.Option(help="Cheap's server, such as http://127.0.0.1:8000/v1.", show_default=False)],
    strong: Annotated[str, typer.Option(help="Strong's server.", show_default=False)],
    router: Annotated[
        Path | None, typer.Argument(help="A router, .json; without one, four bad signs hand off.", show_default=False)
    ] = None,
    config: Config = None,  # noqa: ARG001  read before all others
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
    cheap_speaks: Annotated[str, typer.Option(help="The protocols of Cheap's server.")] = "chat,responses,messages",
    strong_speaks: Annotated[str, typer.Option(help="The same for Strong's.")] = "chat,responses,messages",
    handoff: Annotated[str | None, typer.Option(help="resume or restart, in place of what the router says.")] = None,
    shadow: Annotated[
        Path | None, typer.Option(help="A second router, which decides and is logged, and hands off nothing.")
    ] = None,
    canary: Annotated[Path | None, typer.Option(help="Another router, for a share of sessions.")] = None,
    canary_share: Annotated[float, typer.Option(help="The share that it decides.")] = 0.0,
    explore: Annotated[
        float, typer.Option(help="Share of sessions that Cheap serves to the end, or Strong from the start.")
    ] = 0.0,
    log: Annotated[Path | None, typer.Option(help="Append every decision to this file, .jsonl.")] = None,
    state: Annotated[
        str | None,
        typer.Option(help="Keep sessions in an SQLite file, redis:// or postgresql://; else in memory."),
    ] = None,
    store_down: Annotated[
        str, typer.Option(help="Where sessions cannot be read: fail, or serve by cheap or strong.")
    ] = "fail",
    fallback: Annotated[
        str | None,
        typer.Option(
            help="Who may stand in, commas between: strong (where Cheap's server fails), cheap (where Strong's does), "
            "overflow (the other, where a conversation is too long for one)."
        ),
    ] = None,
    logprobs: Annotated[
        bool, typer.Option("--logprobs", help="Ask Cheap for log-probabilities where the client does not.")
    ] = False,
    client_keys: Annotated[
        str | None,
        typer.Option(help="Environment variable with clients' keys, commas between; else any may ask."),
    ] = None,
    admin_key: Annotated[
        str | None, typer.Option(help="The same with the key for /metrics, /admin and everybody's sessions.")
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Listen to other machines without keys of clients.")] = False,
    workers: Annotated[int, typer.Option(help="Processes; more than one need --state.")] = 1,
    max_body: Annotated[float, typer.Option(help="Megabytes that a request may have.")] = 64.0,
    read_timeout: Annotated[float, typer.Option(help="Seconds to wait for the next piece of a request.")] = 30.0,
    connect_timeout: Annotated[float, typer.Option(help="Seconds to reach a model's server.")] = 10.0,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the first or next piece of a reply.")] = 600.0,
    store_timeout: Annotated[float, typer.Option(help="Seconds to wait for the store of sessions.")] = 1.0,
    drain: Annotated[float, typer.Option(help="Seconds that requests have to end when it is stopped.")] = 10.0,
    max_sessions: Annotated[
        int, typer.Option(help="Sessions that are kept of one key; then its idlest is forgotten.")
    ] = 100_000,
    idle: Annotated[float, typer.Option(help="Hours until an idle session is forgotten.")] = 24.0,
    telemetry: Annotated[bool, typer.Option("--telemetry", help="Have OpenTelemetry watch.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Load and check everything, say what is to be said, and end.")
    ] = False,
    _seed: AnySeed = 0,
    _as_json: Annotated[
        bool, typer.Option("--json", help="Accepted by every command; answers are JSON anyway.")
    ] = False,
) -> None:
    """Serve OpenAI's chat and responses and Anthropic's messages, with Cheap or Strong behind as the router decides.

    An agent is pointed at it by its base address, http://HOST:PORT/v1. Each request is judged by what its messages show
    of the steps before it; once a session is handed off, Strong serves it to the end. Response headers (x-tacit-...)
    say who served and why.

    Example: `bayes-tacit serve router.json --cheap http://127.0.0.1:8000/v1 --strong http://127.0.0.1:8001/v1`
    """
    try:
        from bayes_tacit.gateway import Plan
        from bayes_tacit.gateway.server.app import create_app
        from bayes_tacit.gateway.server.app import serve as run
        from bayes_tacit.gateway.server.settings import Doors, Limits, Settings, Upstream
    except ModuleNotFoundError as error:
        raise MissingDependencyError(f"serve needs {error.name}: install bayes_tacit with the extra gateway") from None

    body = int(validate.number("max-body", max_body, "a number above 0", above=0) * MEGABYTE)
    settings = Settings(
        router=_text(router),
        cheap=Upstream(cheap, cheap_model, cheap_key, cheap_price, _words(cheap_speaks)),
        strong=Upstream(strong, strong_model, strong_key, strong_price, _words(strong_speaks)),
        shadow=_text(shadow),
        canary=_text(canary),
        plan=Plan(explore, canary_share),
        handoff=None if handoff is None else validate.choice("handoff", handoff, HANDOFFS),
        fallback=_words(fallback),
        logprobs=logprobs,
        log=_text(log),
        state=state,
        store_down=store_down,
        limits=Limits(
            body,
            reading=read_timeout,
            connecting=connect_timeout,
            silence=timeout,
            store=store_timeout,
            drain=drain,
            sessions=max_sessions,
            idle=idle * 3600,
        ),
        doors=Doors(client_keys, admin_key, open_),
        telemetry=telemetry,
        workers=workers,
    )
    validate.whole("port", port, 0, 65535)
    settings.doors.check(host)
    for one in (settings.cheap, settings.strong):
        no_key_in(key_from(one.key_variable), address=one.url, model=one.model)
    app = create_app(settings)
    for remark in app.state.remarks:
        typer.echo(f"note: {remark}", err=True)
    app.state.close()
    if check:
        return
    typer.echo(f"serving on http://{host}:{port}/v1", err=True)
    run(settings, host, port)


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
