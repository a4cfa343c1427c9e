"""`agent-r1 serve`: answers programs with a model, as training would, without training it."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Annotated

import typer

from agent_r1_cli.output import say
from agent_r1_cli.plugin_options import DisabledPlugins, PluginFiles, TrustFiles, trust_as
from agent_r1_cli.recipe_arguments import Arguments, ModelName, resolve_for_model
from agent_r1_core.errors import ConfigError

if TYPE_CHECKING:
    from agent_r1_core.config import ResolvedConfig


def serve(
    arguments: Arguments = None,
    model: ModelName = None,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="PORT", min=0, max=65535, help="0: any free one.")] = 8710,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="The API key that clients send (default: a new one, printed).",
            envvar="AGENT_R1_SERVE_KEY",
            show_default=False,
        ),
    ] = None,
    plugin: PluginFiles = None,
    disable_plugin: DisabledPlugins = None,
    trust: TrustFiles = False,
) -> None:
    """Answer programs over the APIs of OpenAI and Anthropic, until SIGTERM or Ctrl-C.

    \b
    agent-r1 serve                       the bundled model
    agent-r1 serve --model runs/mine-1   a run's best policy

    Prints what a program needs, as lines for a shell. Sampling is the recipe's: engine.temperature, top_p and top_k.
    """
    from agent_r1_cli.display import TrainDisplay
    from agent_r1_core.training.api import run_async

    with TrainDisplay("loading torch and the model ...") as display:
        resolved = resolve_for_model(arguments, model, plugin, disable_plugin, trust_as(trust, display))
        for warning in resolved.warnings:
            display.note(warning)
        run_async(_serve(resolved, host, port, key))


async def _serve(resolved: ResolvedConfig, host: str, port: int, key: str | None) -> None:
    from agent_r1_core import ToolFormatBlock
    from agent_r1_core.assembly.assembly import assemble
    from agent_r1_core.assembly.components import make_tool_format
    from agent_r1_core.assembly.model_source import positions_of
    from agent_r1_gateway.line import Line
    from agent_r1_gateway.server import Gateway
    from agent_r1_gateway.serving import Served

    gateway = Gateway(host, port)
    assembly = assemble(resolved, learning=False, task_sets=(), note=say)
    engine = getattr(assembly.rollouts, "engine", None)
    if engine is None:
        raise ConfigError("the model of this recipe is on other machines; serve it with distributed=null")
    try:
        await assembly.start()
        config = resolved.config
        form = make_tool_format(resolved) or resolved.make("tool_format", ToolFormatBlock(name="native"))
        sampling, positions = config.engine.config.sampling, positions_of(assembly.model.folder)
        served = Served(engine, assembly.tokenizer, form, sampling, positions, seed=config.seed)
        line = Line(served.take, on_left=served.leave)
        line.key = key or line.key
        gateway.open(line)
        gateway.start()
        for name, value in (
            ("OPENAI_BASE_URL", f"{gateway.address}/v1"),
            ("OPENAI_API_KEY", line.key),
            ("ANTHROPIC_BASE_URL", gateway.address),
            ("ANTHROPIC_API_KEY", line.key),
        ):
            print(f"export {name}={value}", flush=True)
        say("serving; press Ctrl-C to end")
        ended = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
        try:
            await ended.wait()
        finally:
            line.close("the server is ending; ask again when it runs", 503, "api_error")
    finally:
        await assembly.close()
