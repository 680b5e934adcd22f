"""All heavy users together get a third of the processor while others are active."""

from __future__ import annotations

import pytest

from core.serving.fair_share import CREDIT_S, FairShare

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
    machine.run(greedy, 5)
    assert sum(machine.used[account] for account in greedy) < 4.2, "they divide the credit"
    machine.run(greedy, 35)
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


def test_a_light_account_pays_processor_time_and_a_heavy_one_wall_clock_time():
    """On a machine with other work, a batch lasts longer than it computes."""
    machine = Machine()
    machine.shares.mark_active("other")
    for _ in range(4):
        machine.shares.charge("reader", 0.05, 5.0)
        machine.shares.charge("greedy", 0.5, 5.0)
    assert machine.shares.is_light("reader")
    assert machine.shares.has_to_wait("greedy", "greedy")
    machine.now += 20  # pays back 6.7 s: more than it computed, less than it lasted
    assert machine.shares.has_to_wait("greedy", "greedy")


@pytest.mark.parametrize(("pause", "light"), [(1.0, True), (0.0, False)])
def test_a_pause_between_requests_pays_back(pause, light):
    """On a slow machine a sentence takes 0.12 s; a reader who pauses a second stays light."""
    machine, seen = Machine(), []
    for _ in range(60):
        machine.now += pause
        machine.shares.arrive("visitor")
        machine.work("visitor", 0.12)
        seen.append(machine.shares.is_light("visitor"))
    assert all(seen) == light


def test_waiting_for_a_share_is_not_a_pause():
    machine = Machine()
    machine.shares.arrive("greedy")
    machine.now += 10  # it waits
    machine.work("greedy", 0.3)
    machine.shares.arrive("greedy")
    machine.work("greedy", 0.3)
    assert not machine.shares.is_light("greedy")


def test_visitors_with_one_heavy_account_start_one_after_another():
    machine = Machine()
    machine.shares.mark_active("reader")
    assert machine.shares.admit("address", "new") == 0.0
    machine.work("address", CREDIT_S)
    assert machine.shares.admit("address", "new") is None
    while (in_advance := machine.shares.admit("address", "new")) is None:
        machine.now += 0.05
    assert in_advance > 0
    assert machine.shares.admit("address", "another new") is None
    machine.shares.charge("address", 0.01 - in_advance)  # cheaper than thought
    machine.now += 0.1
    assert machine.shares.admit("address", "another new") == in_advance


def test_a_debt_moves_to_another_account():
    machine = Machine()
    machine.work("tab", 0.4)
    machine.work("address", 0.4)
    machine.shares.move("tab", "address")
    assert machine.shares.is_light("tab") and not machine.shares.is_light("address")
    machine.shares.arrive("reader")
    machine.work("reader", 0.4)
    machine.now += 10  # reading
    machine.shares.move("reader", "another address")
    machine.work("another address", 0.45)
    assert machine.shares.is_light("another address")
