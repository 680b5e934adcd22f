"""Start the server: `python -m app.serving.start`; start-up errors are one line."""

from __future__ import annotations

import argparse
import errno
import os
import socket
import sys
import tomllib
from pathlib import Path

from app.state.folders import add_option, log_once, named_folders, set_data, set_folders

ROOT = Path(__file__).resolve().parents[2]
SERVE = Path("app/serve.py")
OTHER_HOME = "run make app HOME=$(mktemp -d)"


def home_error() -> str | None:
    """Return why Streamlit cannot read the home folder, in one line, or None."""
    try:
        home = Path.home()
    except RuntimeError:
        return f"HOME is not set, and this user has no other home folder: {OTHER_HOME}"
    try:
        (home / ".streamlit/config.toml").stat()
    except PermissionError:
        return f"HOME={home} cannot be read: {OTHER_HOME}"
    except OSError:  # usually: no such file
        pass
    return None


def port_error(address: str, port: int) -> str | None:
    """Return why the server cannot listen on a port, in one line, or None."""
    other = f"choose another: make app PORT={8502 if port != 8502 else 8503}"
    if not 0 < port < 65536:
        return f"port {port} does not exist: choose one from 1 to 65535, such as make app PORT=8501"
    try:
        family, kind, *_, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            if os.name != "nt":  # on Windows it would allow a port in use
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
            probe.listen()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return f"port {port} is in use, {other}"
        if error.errno == errno.EACCES:
            return f"port {port} may not be used by this user, {other}"
        return (
            f"the server cannot listen on {address} ({error.strerror}): choose another address "
            "with --server.address"
        )
    return None


def main(arguments: list[str] | None = None) -> None:
    """Start the server; options that are not listed here are passed to Streamlit."""
    parser = argparse.ArgumentParser(prog="python -m app.serving.start", description=main.__doc__)
    parser.add_argument(
        "--server.port", dest="port", type=int, default=8501, help="the port, 8501 by default"
    )
    parser.add_argument(
        "--server.address",
        dest="address",
        help="the address to listen on, by default as configured",
    )
    add_option(parser)
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="folder of corpora: if it contains multi30k/, Train one here offers its captions",
    )
    options, others = parser.parse_known_args(arguments)
    if error := home_error():
        sys.exit(error)
    set_folders(options.checkpoints)
    set_data(options.data)
    log_once(named_folders(())[1])
    os.chdir(ROOT)  # Streamlit reads .streamlit/config.toml from the working directory
    defaults = tomllib.loads((ROOT / ".streamlit/config.toml").read_text(encoding="utf-8"))[
        "server"
    ]
    address = options.address or os.environ.get("STREAMLIT_SERVER_ADDRESS", defaults["address"])
    if error := port_error(address, options.port):
        sys.exit(error)
    os.environ.setdefault("FORWARDED_ALLOW_IPS", "")  # else uvicorn trusts every local process
    from app.serving.protocol import limit_connections
    from app.streamlit_internals import run_server

    try:
        limit_connections()
    except ValueError as invalid:
        sys.exit(str(invalid))
    command = ["run", str(SERVE), "--server.port", str(options.port), "--server.address", address]
    run_server([*command, *others])


if __name__ == "__main__":
    main()
