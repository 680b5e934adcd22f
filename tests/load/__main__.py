"""Load-test the app on this machine: `python -m tests.load crowd|proxy|sessions|abuse|learners`."""

from __future__ import annotations

import argparse
import asyncio
import statistics
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from tests.load.abuse import KINDS, abuse, alone, learners, next_to, ratio
from tests.load.client import Client
from tests.load.crowd import Results, crowd
from tests.load.proxy import proxy
from tests.load.sentences import mismatches
from tests.load.server import Server, server
from tests.load.sessions import sessions

WARM = 100
"""Warm-up sessions before the first memory measurement."""


def bounded(limit: float, kind: Callable = int) -> Callable[[str], float]:
    """Return a parser of numbers up to a limit, so that a typo cannot flood the machine."""

    def read(text: str) -> float:
        value = kind(text)
        if not 0 < value <= limit:
            raise argparse.ArgumentTypeError(f"{text}: choose a number above 0, up to {limit}")
        return value

    return read


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="python -m tests.load",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument(
        "--port",
        type=bounded(65535),
        help="port of a running server; without it, and for proxy, new ones are started",
    )
    commands = result.add_subparsers(dest="command", required=True)
    many = commands.add_parser("crowd", help="many users at once: latency, errors, memory")
    processes = commands.add_parser("proxy", help="half the users on one process, then all on two")
    for one in (many, processes):
        one.add_argument("--visitors", type=bounded(200), default=50)
        one.add_argument("--seconds", type=bounded(900), default=300)
        one.add_argument(
            "--think",
            type=bounded(60, float),
            nargs=2,
            default=(3.0, 7.0),
            help="shortest and longest pause of a user between sentences, in seconds",
        )
    series = commands.add_parser("sessions", help="sessions one after another: does memory grow?")
    series.add_argument("--count", type=bounded(5000), default=1000)
    abused = commands.add_parser("abuse", help="one user next to an abuser, for each kind")
    abused.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    abused.add_argument("--sentences", type=bounded(100), default=12)
    training = commands.add_parser("learners", help="the memory of one training, and of four")
    training.add_argument("--seconds", type=bounded(900), default=60)
    abuser = commands.add_parser("abuser", help="run one abuser against the server at --port")
    abuser.add_argument("kind", choices=KINDS)
    abuser.add_argument("--seconds", type=bounded(900), default=300)
    return result


def say(*lines: object) -> None:
    print(*lines, sep="\n", flush=True)  # noqa: T201


@contextmanager
def served(args: argparse.Namespace) -> Iterator[Server]:
    """Yield the server at --port, or a new one, with its model loaded."""
    with ExitStack() as stack:
        found = Server(args.port) if args.port else stack.enter_context(server())
        asyncio.run(warm_up(found.port))
        yield found


async def warm_up(port: int) -> None:
    async with await Client.connect(port) as client:
        await client.open()


def verdict(answers: list[tuple[str, str | None]]) -> str:
    """Summarise the answers that differ from the model's own."""
    bad = mismatches(answers)
    return "; ".join([f"{len(bad)} of {len(answers)} wrong", *bad[:3]])


def run_crowd(args: argparse.Namespace) -> None:
    with served(args) as own:
        before, cost = own.memory, own.seconds
        seen = asyncio.run(crowd(own.port, args.visitors, args.seconds, tuple(args.think)))
        count = len(seen.seconds) + len(seen.first)
        say(
            seen.line(),
            *seen.errors[:3],
            f"memory {before:.0f} → {own.memory:.0f} MB (most {own.most_memory:.0f}); "
            f"{(own.seconds - cost) / count:.3f} s of CPU time per request",
        )
    say(verdict(seen.answers))


def run_proxy(args: argparse.Namespace) -> None:
    """Put half of the users on one process, then all of them on two, behind the proxy."""

    async def behind(ports: list[int], visitors: int) -> Results:
        async with proxy(ports) as port:
            return await crowd(port, visitors, args.seconds, tuple(args.think))

    for count in (1, 2):
        with ExitStack() as stack:
            ports = [stack.enter_context(server()).port for _ in range(count)]
            for port in ports:
                asyncio.run(warm_up(port))
            visitors = args.visitors * count // 2
            seen = asyncio.run(behind(ports, visitors))
        say(
            f"processes behind the proxy: {count}; visitors: {visitors}; {seen.line()}",
            verdict(seen.answers),
        )


def run_sessions(args: argparse.Namespace) -> None:
    memory = {}
    with served(args) as own:
        asyncio.run(sessions(own.port, WARM))
        memory[0] = own.memory

        def after(done: int) -> None:
            if done % 100 == 0:
                memory[done] = own.memory

        answers, errors = asyncio.run(sessions(own.port, args.count, after))
    say(
        f"{args.count} sessions, {len(errors)} errors; memory "
        + ", ".join(f"{at}: {mb:.0f}" for at, mb in memory.items()),
        f"grown by {100 * (max(memory.values()) / memory[0] - 1):.1f} %",
        verdict(answers),
    )


def p95(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=20, method="inclusive")[-1]


def run_abuse(args: argparse.Namespace) -> None:
    """For each kind, measure one user alone, next to the abuser, and alone again."""
    count = args.sentences
    with served(args) as own:
        for i, kind in enumerate(args.kinds):
            first = 3 * i * count
            before, answers = asyncio.run(alone(own.port, count, first))
            abused, more, rejected = asyncio.run(next_to(own.port, kind, count, first + count))
            after, rest = asyncio.run(alone(own.port, count, first + 2 * count))
            usual = before + after
            say(
                f"{kind}: p50 alone {statistics.median(usual):.2f} s, under abuse "
                f"{statistics.median(abused):.2f} s, ratio {ratio(usual, abused):.1f}, p95 "
                f"{p95(usual):.2f} and {p95(abused):.2f} s; "
                f"{verdict(answers + more + rest)}; {own.memory:.0f} MB, most {own.most_memory:.0f}"
            )
            if rejected:
                say(f"  rejected {len(rejected)} times, after at most {max(rejected):.2f} s")


def run_learners(args: argparse.Namespace) -> None:
    """Measure the server's memory without a training, and while one and four visits train."""

    async def during(count: int) -> float:
        """Return the mean memory over the second half of the time."""
        tabs = asyncio.create_task(learners(own.port, count))
        await asyncio.sleep(args.seconds / 2)
        seen = []
        for _ in range(10):
            await asyncio.sleep(args.seconds / 20)
            seen.append(own.memory)
        tabs.cancel()
        return statistics.mean(seen)

    with served(args) as own:
        before = own.memory
        said = [f"{count}: {asyncio.run(during(count)):.0f}" for count in (1, 4)]
        say(f"memory without trainings {before:.0f} MB, with {', '.join(said)} MB")


def main() -> None:
    args = parser().parse_args()
    runs = {"crowd": run_crowd, "proxy": run_proxy, "sessions": run_sessions, "abuse": run_abuse}
    runs["learners"] = run_learners
    if args.command == "abuser":
        asyncio.run(abuse(args.port, args.kind, args.seconds))
    else:
        runs[args.command](args)


if __name__ == "__main__":
    main()
