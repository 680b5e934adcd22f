"""All heavy users together get a third of the processor while others are active."""

from __future__ import annotations

import pytest

from core.serving.fair_share import FairShare

STEP_S = 0.05


class Machine:
    """One processor in simulated time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.shares = FairShare(lambda: self.now)
        self.used: dict[str, float] = {}

    def work(self, account: str, seconds: float = STEP_S) -> None:
        self.now += seconds
        self.shares.charge(account, seconds)
        self.used[account] = self.used.get(account, 0.0) + seconds

    def run(self, greedy: list[str], seconds: float, light: str | None = "light") -> None:
        """Run greedy accounts next to one that asks for little each second."""
        end, asked = self.now + seconds, -1.0
        while self.now < end:
            if light and self.now >= asked + 1:
                asked = self.now
                self.shares.mark_active(light)
                self.work(light, 0.01)
            for account in greedy:
                self.shares.mark_active(account)
            # The least served account goes first, as if each had one request in a queue.
            may = [account for account in greedy if not self.shares.has_to_wait(account, account)]
            if may:
                self.work(min(may, key=lambda account: self.used.get(account, 0.0)))
            else:
                self.now += 0.01


@pytest.mark.parametrize("tabs", [1, 2, 5])
def test_many_tabs_get_no_more_than_one_does(tabs):
    machine = Machine()
    greedy = [f"tab {i}" for i in range(tabs)]
    machine.run(greedy, 40)
    before = sum(machine.used[account] for account in greedy)
    machine.run(greedy, 60)
    assert 60 * 0.28 < sum(machine.used[account] for account in greedy) - before < 60 * 0.38
    assert not machine.shares.has_to_wait("light", "light")


def test_a_single_account_may_use_two_seconds_at_once():
    machine = Machine()
    machine.shares.mark_active("light")
    while not machine.shares.has_to_wait("greedy", "greedy"):
        machine.work("greedy")
    assert 2.0 <= machine.used["greedy"] < 3.2  # a third is paid back meanwhile


def test_five_accounts_divide_the_credit():
    machine = Machine()
    greedy = [f"tab {i}" for i in range(5)]
    machine.run(greedy, 5)
    assert sum(machine.used[account] for account in greedy) < 4.2


def test_heavy_users_do_not_wait_for_each_other():
    machine = Machine()
    greedy = ["one", "two"]
    machine.run(greedy, 20, light=None)
    assert sum(machine.used.values()) > 19
    machine.shares.mark_active("light")
    assert machine.shares.has_to_wait("one", "one")
    machine.now += 31  # the light account is no longer active
    for account in greedy:
        machine.work(account, 3)
        machine.shares.mark_active(account)
    assert not machine.shares.has_to_wait("one", "one")


def test_a_crowd_of_usual_visitors_stays_light():
    """Fifty visitors who each translate a sentence every five seconds use half of a processor."""
    machine = Machine()
    crowd = [f"visitor {i}" for i in range(50)]
    for _ in range(60):
        for account in crowd:
            machine.shares.mark_active(account)
            assert not machine.shares.has_to_wait(account, account)
            assert machine.shares.is_light(account)
            machine.work(account, 0.05)
            machine.now += 0.05


def test_debts_decay():
    machine = Machine()
    machine.work("greedy", 3)
    assert not machine.shares.is_light("greedy")
    for _ in range(90):
        machine.now += 0.1
        machine.shares.is_light("greedy")
    assert machine.shares.is_light("greedy")


def test_the_account_none_is_not_counted():
    machine = Machine()
    machine.work("greedy", 5)
    machine.shares.mark_active(None)
    machine.shares.charge(None, 100)
    assert not machine.shares.has_to_wait("greedy", "greedy")
    assert machine.shares.is_light(None)
