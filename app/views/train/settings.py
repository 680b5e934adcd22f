"""What the visitor chooses before a training: task, network, mistake; kept in the URL."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast, get_args

import streamlit as st

from app.lessons.texts import text
from app.state import address, folders, session
from app.views.shared.choices import choose
from core.data.captions import CAPTIONS
from core.data.tasks import TASKS

if TYPE_CHECKING:  # imports torch
    from core.experiments.bugs import Bug
    from core.small.run import SmallConfig

say = partial(text, "train")
PASTED = "pasted"
OUTCOMES = "training outcomes"
"""The saved result with a sentence for each ready experiment that this visit has finished."""
EXPERIMENTS: dict[str, dict[str, Any]] = {
    "positions": {"train_task": "reversal", "train_positions": "none"},
    "causal": {"train_task": "dates", "train_bug": "no_causal_mask"},
    "heads": {"train_task": "dates", "train_heads": 1},
}
"""Ready experiments: what each sets, over the defaults."""
DEFAULTS: dict[str, Any] = {
    "train_task": "dates",
    "train_layers": 2,
    "train_heads": 4,
    "train_width": 64,
    "train_positions": "sinusoids",
    "train_norm": "before",
    "train_smoothing": 0.0,
    "train_warmup": 50,
    "train_seed": 1,
    "train_bug": "none",
}


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
    task = choose("Task", tasks, "dates", "train_task", show_label=False)
    return task


def ask_for_pairs() -> str:
    """Draw the box for one's own pairs; return its text."""
    return st.text_area(
        "Pairs: source, a tab, = or →, then the target; one pair a line",
        key="train_pairs",
        persist_state="session",
        height=160,
        placeholder="ein Hund → a dog\neine Katze → a cat",
    )


def choose_config() -> SmallConfig:
    """Draw the network's settings; return them. Raises ValueError for an impossible network."""
    from core.experiments.bugs import BUGS
    from core.small.run import Positions, SmallConfig

    left, right = st.columns(2)
    with left:
        layers = _number("Layers of each side", "train_layers", (1, 2, 3))
        heads = _number("Heads", "train_heads", (1, 2, 4, 8))
        width = _number("d_model", "train_width", (32, 64, 96))
        positions = choose(
            "Positions",
            {one: one for one in get_args(Positions)},
            "sinusoids",
            "train_positions",
        )
    with right:
        norm = choose("Norm", {"before": "before", "after": "after"}, "before", "train_norm")
        smoothing = _number("Label smoothing", "train_smoothing", (0.0, 0.1))
        warmup = _number("Warm-up steps", "train_warmup", (1, 50, 200))
        seed = _seed()
    mistakes = {one: say(f"mistake.{one}") for one in ("none", *BUGS)}
    address.initialise("train_bug", mistakes, "none")
    bug = st.selectbox(
        "Train with a mistake",
        list(mistakes),
        format_func=lambda one: mistakes[one],
        key="train_bug",
        persist_state="session",
    )
    address.write_choice("train_bug", bug, "none")
    return SmallConfig(
        layers=layers,
        heads=heads,
        d_model=width,
        positions=positions,
        norm_first=norm == "before",
        label_smoothing=smoothing,
        warmup=warmup,
        seed=seed,
        bug=None if bug == "none" else cast("Bug", bug),
    )


def _number(label: str, key: str, options: tuple[Any, ...]) -> Any:
    return choose(label, {one: f"{one:g}" for one in options}, DEFAULTS[key], key)


def _seed() -> int:
    if session.get("train_seed") is None:
        given = address.pop("train_seed") or ""
        session.put("train_seed", int(given) if given.isdecimal() and len(given) < 5 else 1)
    seed = int(st.number_input("Seed", 0, 9_999, key="train_seed", persist_state="session"))
    address.write({"train_seed": None if seed == 1 else str(seed)}, "train_seed")
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
