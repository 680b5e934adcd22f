"""Generated dates, written out in German and as ISO 8601: a corpus that is learned in a minute."""

import random
from datetime import date
from itertools import accumulate

from core.data.names import MONTHS

Pairs = list[tuple[str, str]]

SPLITS = {"train": 10_000, "val": 500, "test": 500}
_FIRST, _LAST = date(1000, 1, 1).toordinal(), date(2999, 12, 31).toordinal()


def read(split: str) -> Pairs:
    """Generate the (German, ISO) pairs of a split, always the same ones; no date is in two."""
    days = random.Random(1).sample(range(_FIRST, _LAST + 1), sum(SPLITS.values()))
    ends = dict(zip(SPLITS, accumulate(SPLITS.values()), strict=True))
    dates = map(date.fromordinal, days[ends[split] - SPLITS[split] : ends[split]])
    names = list(MONTHS)
    return [(f"{day.day}. {names[day.month - 1]} {day.year}", str(day)) for day in dates]
