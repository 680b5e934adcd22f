"""Copy a state: a state or a head's output of one sentence's pass goes into that of another."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import streamlit as st

import core
from app.components.answers import send_answer
from app.components.explorer.payload import pack
from app.components.states import states
from app.components.tokens import sent
from app.look.labels import label
from app.state import address, results, session, waiting
from core.checkpoint.errors import CheckpointError
from core.checkpoint.folder import Card
from core.config import DecodeConfig
from core.kinds import KINDS, SIDES, Kind, Side
from core.record.edits import Edits
from core.record.record import TranslationRecord

KEY = "copied_states"
WAYS = ("restore", "damage")
LEAST = 0.5
"""Nats: with a smaller difference between the sentences, shares of it are not defined."""

_STATE = re.compile(rf"copy\.({'|'.join(SIDES)})\.(\d{{1,4}})\.(\d{{1,4}})\.(\d{{1,4}})")
_HEAD = re.compile(rf"copyhead\.({'|'.join(KINDS)})\.(\d{{1,4}})\.(\d{{1,4}})")


class StateCopy(NamedTuple):
    """The state of the receiver at `to` becomes the donor's at `at`, after `layer` of `side`."""

    side: Side
    layer: int
    to: int
    at: int


class HeadCopy(NamedTuple):
    """The output of a head becomes the donor's, at all paired queries."""

    kind: Kind
    layer: int
    head: int


@dataclass(frozen=True)
class Two:
    """The passes that a copy comes from and goes into; each with its name on the page."""

    donor: TranslationRecord
    receiver: TranslationRecord
    names: tuple[str, str]
    card: Card
    decode: DecodeConfig
