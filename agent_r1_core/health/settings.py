"""HealthConfig: the section `health` of a recipe, with a key for every monitor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, create_model

from agent_r1_core.contracts.component import Section
from agent_r1_core.health.monitor import Monitor
from agent_r1_core.health.monitors import MONITORS
from agent_r1_core.health.rule import MeasuredFall, Rule

_OFF = "off"


class _HealthSection(Section):
    """What happens when training collapses, and the rule of every monitor."""

    early_stop: bool = False
    """End the run when a severe monitor raises an alarm."""
    if TYPE_CHECKING:
        information: MeasuredFall | None = None

    def rules(self) -> Iterator[tuple[Monitor, Rule]]:
        """The monitors that are on, each with its rule."""
        for monitor in MONITORS:
            rule: Rule | None = getattr(self, monitor.name)
            if rule is not None:
                yield monitor, rule


def _on(value: Any) -> Any:
    return None if value == _OFF else value


def _written(rule: Rule | None) -> Any:
    return _OFF if rule is None else rule.model_dump(mode="json")


def _field(rule: Rule) -> tuple[Any, Rule]:
    """A monitor's key: the numbers of its rule, or `off`."""
    return Annotated[type(rule) | None, BeforeValidator(_on), PlainSerializer(_written)], rule


if TYPE_CHECKING:
    HealthConfig = _HealthSection
else:
    HealthConfig = create_model(
        "HealthConfig",
        __base__=_HealthSection,
        __cls_kwargs__={"use_attribute_docstrings": False},  # pydantic would search every frame and module for them
        **{monitor.name: _field(monitor.rule) for monitor in MONITORS},
    )
