"""Start the server: `python -m app.serving.start`; says in one line what keeps it from starting."""

from __future__ import annotations

import argparse
import errno
import os
import socket
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SERVE = Path("app/serve.py")
ELSEWHERE = "make app HOME=$(mktemp -d)"


def home_problem() -> str | None:
    """One line that says why the home folder cannot be used, or None: Streamlit reads there."""
    try:
        home = Path.home()
    except RuntimeError:
        return f"HOME is not set, and this user has no other home folder: {ELSEWHERE}"
    try:
        (home / ".streamlit/config.toml").stat()
    except PermissionError:
        return f"HOME={home} cannot be read: {ELSEWHERE}"
    except OSError:  # no such file, which is usual
        pass
    return None


def port_problem(address: str, port: int) -> str | None:
    """One line that says why a port cannot be listened on, or None."""
    other = f"choose another: make app PORT={8502 if port != 8502 else 8503}"
    if not 0 < port < 65536:
        return f"port {port}: choose from 1 to 65535: make app PORT=8501"
    try:
        family, kind, *_, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            if os.name != "nt":  # there it would allow a port in use
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
            probe.listen()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return f"port {port} is in use, {other}"
        if error.errno == errno.EACCES:
            return f"port {port} may not be used by this user, {other}"
        return f"{address} cannot be listened on ({error.strerror})"
    return None


def main(arguments: list[str] | None = None) -> None:
    """Start the server; options other than the port and address are Streamlit's own."""
    parser = argparse.ArgumentParser(prog="python -m app.serving.start", description=main.__doc__)
    parser.add_argument("--server.port", dest="port", type=int, default=8501)
    parser.add_argument("--server.address", dest="address")
    options, others = parser.parse_known_args(arguments)
    if problem := home_problem():
        sys.exit(problem)
    os.chdir(ROOT)  # where .streamlit/config.toml has the limits
    usual = tomllib.loads((ROOT / ".streamlit/config.toml").read_text(encoding="utf-8"))["server"]
    address = options.address or os.environ.get("STREAMLIT_SERVER_ADDRESS", usual["address"])
    if problem := port_problem(address, options.port):
        sys.exit(problem)
    os.environ.setdefault("FORWARDED_ALLOW_IPS", "")  # else uvicorn believes all of this machine
    from streamlit.web import cli

    from app.serving.protocol import bound

    try:
        bound()
    except ValueError as error:
        sys.exit(str(error))
    command = ["run", str(SERVE), "--server.port", str(options.port), "--server.address", address]
    cli.main([*command, *others], prog_name="streamlit")


if __name__ == "__main__":
    main()
