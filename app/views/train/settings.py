"""What the visitor chooses before a training: task, network, mistake; kept in the URL."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import streamlit as st

from app.lessons.texts import rules, text
from app.state import address, folders, session
from app.views.shared.choices import choose
from core.data.captions import CAPTIONS
from core.data.tasks import PASTED, TASKS

if TYPE_CHECKING:  # imports torch
    from core.experiments.bugs import Bug
    from core.small.run import SmallConfig

say = partial(text, "train")
_LEFT = 4  # settings in the left column
OUTCOMES = "training outcomes"
"""The saved result with a sentence for each ready experiment that this visit has finished."""
_SETTINGS: dict[str, dict[str, Any]] = rules("train")["settings"]
EXPERIMENTS: dict[str, dict[str, Any]] = rules("train")["experiments"]
"""Ready experiments: what each sets, over the defaults."""
DEFAULTS: dict[str, Any] = {name: one["usual"] for name, one in _SETTINGS.items()}


def set_experiment(name: str) -> None:
    """Set all widgets for a ready experiment; an unknown name sets the defaults."""
    for key, value in (DEFAULTS | EXPERIMENTS.get(name, {})).items():
        session.put(key, value)
    session.put("train_predicted", None)


def chosen_experiment() -> str | None:
    """Return the ready experiment whose settings are chosen, or None."""
    now = {key: session.get(key) for key in DEFAULTS}
    return next((name for name, own in EXPERIMENTS.items() if now == DEFAULTS | own), None)


def choose_task() -> str:
    """Draw the list of tasks; return the chosen one."""
    offered = (*TASKS, *([CAPTIONS] if folders.captions() else []), PASTED)
    tasks = {name: say(f"tasks.{name}") for name in offered}
    return choose("Task", tasks, DEFAULTS["train_task"], "train_task", show_label=False)


def ask_for_pairs() -> str:
    """Draw the box for one's own pairs; return its text."""
    return st.text_area(
        say("pairs.label"),
        key="train_pairs",
        persist_state="session",
        height=160,
        placeholder=say("pairs.shown"),
    )


def choose_config() -> SmallConfig:
    """Draw the network's settings; return them. Raises ValueError for an impossible network."""
    from core.experiments.bugs import BUGS
    from core.small.run import SmallConfig

    columns, chosen = st.columns([8, 5], gap="xsmall"), {}  # as wide as their choices
    for name in _SETTINGS:
        with columns[len(chosen) >= _LEFT]:
            if options := _SETTINGS[name].get("options"):
                chosen[name] = choose(
                    _SETTINGS[name]["label"],
                    {one: f"{one}" for one in options},
                    DEFAULTS[name],
                    name,
                )
    with columns[1]:
        seed = _seed()
    mistakes = {one: say(f"mistake.{one}") for one in ("none", *BUGS)}
    address.initialise("train_bug", mistakes, "none")
    bug = st.selectbox(
        _SETTINGS["train_bug"]["label"],
        list(mistakes),
        format_func=lambda one: mistakes[one],
        key="train_bug",
        persist_state="session",
    )
    address.write_choice("train_bug", bug, "none")
    return SmallConfig(
        layers=chosen["train_layers"],
        heads=chosen["train_heads"],
        d_model=chosen["train_width"],
        positions=chosen["train_positions"],
        norm_first=chosen["train_norm"] == "before",
        label_smoothing=chosen["train_smoothing"],
        warmup=chosen["train_warmup"],
        seed=seed,
        bug=None if bug == "none" else cast("Bug", bug),
    )


def _seed() -> int:
    label, most, usual = _SETTINGS["train_seed"].values()
    if session.get("train_seed") is None:
        given = address.pop("train_seed") or ""
        session.put("train_seed", int(given) if given.isdecimal() and len(given) < 5 else usual)
    seed = int(st.number_input(label, 0, most, key="train_seed", persist_state="session"))
    address.write({"train_seed": None if seed == usual else str(seed)}, "train_seed")
    return seed


def without(config: SmallConfig) -> SmallConfig | None:
    """Return the same network without its mistake, with positions, with four heads; None if equal.

    It has the same seed, so it starts from the same weights and sees the same examples.
    """
    positions = "sinusoids" if config.positions == "none" else config.positions
    plain = replace(
        config, bug=None, positions=positions, heads=4 if config.heads == 1 else config.heads
    )
    return None if plain == config else plain


def described(config: SmallConfig) -> str:
    """Return what differs from the default network, in one line; "" if nothing does."""
    usual = type(config)()
    parts = {
        "layers": f"{config.layers} + {config.layers} layers",
        "heads": f"{config.heads} head{'s' * (config.heads > 1)}",
        "d_model": f"d_model {config.d_model}",
        "positions": f"positions: {config.positions}",
        "norm_first": "norm after",
        "label_smoothing": f"label smoothing {config.label_smoothing:g}",
        "warmup": f"warm-up {config.warmup}",
        "seed": f"seed {config.seed}",
        "bug": f"mistake: {say(f'mistake.{config.bug}').lower()}" if config.bug else "",
    }
    return " · ".join(
        words for name, words in parts.items() if getattr(config, name) != getattr(usual, name)
    )
