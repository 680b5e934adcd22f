"""A client that opens a new tab for each request gets no more than one that keeps its tab."""

from collections.abc import Hashable

import pytest

from app.state import visits
from app.state.visits import Visits
from core.serving.fair_share import FairShare

COST_S = 0.2  # of a run


class House:
    """A server in simulated time, whose sessions are named after their addresses: "a 1"."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.shares = FairShare(lambda: self.now)
        self.open: set[str] = set()
        self.visits = Visits(self.shares, lambda session: session in self.open)
        self.used: dict[str, float] = {}
        self.waiting: dict[str, Hashable] = {}  # the account that pays for each waiting run
        self.session = ""
        monkeypatch.setattr(visits, "_address", lambda: self.session.split()[0])

    def run(self, session: str) -> bool:
        """Run once, if the session may start now."""
        self.open.add(session)
        self.session = session
        if session not in self.waiting:
            self.waiting[session] = self.visits.begin(session)
        account = self.waiting[session]
        if (in_advance := self.shares.admit(account, session)) is None:
            return False
        del self.waiting[session]
        self.now += COST_S
        self.shares.charge(account, COST_S - in_advance)
        address = session.split()[0]
        self.used[address] = self.used.get(address, 0.0) + COST_S
        return True


@pytest.fixture
def house(monkeypatch) -> House:
    return House(monkeypatch)


@pytest.mark.parametrize("requests", [1, 2])
@pytest.mark.parametrize("reader", ["a reader", "b reader"])
def test_a_new_tab_for_each_request_gets_a_third_beside_a_reader(house, reader, requests):
    """Whether the reader has the same address or another one, and is never kept waiting."""
    served, tab, asked = 0, 0, -1.0
    house.run(reader)
    while house.now < 120:
        if house.now >= asked + 2:
            asked = house.now
            assert house.run(reader)
            served += 1
        name = f"a {tab // requests}"
        if house.run(name):
            tab += 1
            if tab % requests == 0:
                house.open.discard(name)
        else:
            house.now += 0.05
    assert served > 50
    others = house.used["a"] - (served + 1) * COST_S * (reader == "a reader")
    assert 0.2 < others / house.now < 0.4


@pytest.mark.parametrize(("reading_s", "again"), [(5, "a {}"), (10, "a again {}")])
def test_a_class_that_opens_or_reloads_the_page_at_once_is_not_slowed(house, reading_s, again):
    assert all(house.run(f"a {pupil}") for pupil in range(30))
    house.now += reading_s
    if again != "a {}":
        house.open.clear()
    assert all(house.run(again.format(pupil)) for pupil in range(30))


def test_a_tab_that_stays_gets_its_own_account(house):
    for tab in range(10):
        house.run(f"a {tab}")
        house.open.clear()
    house.session = "a stays"
    house.open.add("a stays")
    paid = [house.visits.begin("a stays") for _ in range(3)]
    assert paid == [("address", "a"), "a stays", "a stays"]
    house.session = "b new"
    assert house.visits.begin("b new") == "b new", "another address"


def test_opening_a_tab_costs_more_than_its_runs(house):
    """Streamlit's own work for a new session is in no run: many cheap tabs are heavy, too."""
    for tab in range(10):
        house.open = {f"a {tab}"}
        house.session = f"a {tab}"
        house.visits.begin(f"a {tab}")
    assert not house.shares.is_light(("address", "a"))
    house.session = "b 1"
    house.visits.begin("b 1")
    assert house.shares.is_light("b 1")


def test_ended_sessions_are_forgotten(house):
    for tab in range(100):
        house.run(f"a {tab}")
        house.open.clear()
    assert len(house.visits._addresses) == 1
    assert house.visits.begin(None) is None
