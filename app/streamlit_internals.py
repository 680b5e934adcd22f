"""The only module that uses private Streamlit APIs; the exact version pin keeps them stable.

Each function says what the public API lacks. Server modules are imported on first use, so that a
page does not load them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit import config, runtime
from streamlit.components.v2.get_bidi_component_manager import get_bidi_component_manager
from streamlit.components.v2.manifest_scanner import ComponentConfig, ComponentManifest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.runtime.runtime_util import get_max_widget_state_size_bytes
from streamlit.runtime.scriptrunner import StopException, get_script_run_ctx
from streamlit.runtime.scriptrunner_utils.script_requests import (
    RerunData,
    ScriptRequests,
    ScriptRequestType,
)
from streamlit.runtime.scriptrunner_utils.script_run_context import ThreadState

__all__ = ["BackMsg"]
"""The client's message, which has no public type: the middleware reads it before Streamlit does."""


def is_server_running() -> bool:
    """Whether a Streamlit server runs in this process, not a plain `python app/main.py`."""
    return runtime.exists()


def session_id() -> str | None:
    """Return the session of the current script run, or None outside one: there is no public id."""
    context = get_script_run_ctx(suppress_warning=True)
    return context.session_id if context else None


def is_history_navigation() -> bool:
    """Whether the back or forward button caused this run: the query parameters do not say."""
    context = get_script_run_ctx(suppress_warning=True)
    return context is not None and context.is_history_navigation


def fragment_id() -> str | None:
    """Return the id of the innermost running fragment, or None: fragments have no public id."""
    return ThreadState.get().fragment_id if get_script_run_ctx(suppress_warning=True) else None


def yield_to_waiting_fragment(timed: Container[str | None]) -> None:
    """End this fragment's run if the visitor asked for another fragment, and rerun it afterwards.

    Streamlit interrupts a run to rerun the whole page, but not to rerun a fragment. `timed` holds
    the ids of fragments that a timer reruns: they interrupt nothing.
    """
    context = get_script_run_ctx(suppress_warning=True)
    if context is None or not context.fragment_ids_this_run or context.script_requests is None:
        return
    requests = context.script_requests
    with requests._lock:
        waiting = requests._rerun_data.fragment_id_queue
        asked = requests._state == ScriptRequestType.RERUN
        if not asked or all(one in timed for one in waiting):
            return
        again = [one for one in context.fragment_ids_this_run if one not in waiting]
        requests._rerun_data = replace(requests._rerun_data, fragment_id_queue=[*waiting, *again])
    raise StopException


@contextmanager
def own_fragments(is_new_page: bool) -> Generator[None]:
    """Forget the fragments of the page before, and those that a full run did not draw.

    Streamlit forgets them only when a full run reaches its end. A component of the page before may
    ask for its fragment while this page is on its way, or after `st.stop` has ended the run. A run
    of that fragment would empty the page in the browser.
    """
    context = get_script_run_ctx(suppress_warning=True)
    if context is None or context.fragment_ids_this_run:
        yield
        return
    if is_new_page:
        context.fragment_storage.clear()
        _drop_waiting_fragments(context.script_requests)
    try:
        yield
    except StopException:
        drawn = context.shared.new_fragment_ids.snapshot()
        context.fragment_storage.clear(new_fragment_ids=drawn)
        raise


def _drop_waiting_fragments(requests: ScriptRequests | None) -> None:
    """Drop a request to rerun fragments that waits for the end of the run."""
    if requests is not None:
        with requests._lock:
            asked = requests._state == ScriptRequestType.RERUN  # not: a session that is stopped
            if asked and requests._rerun_data.fragment_id_queue:
                requests._state, requests._rerun_data = ScriptRequestType.CONTINUE, RerunData()


def max_client_message_bytes() -> int:
    """Return the size limit of a client message: `server.maxWidgetStateSize`, in bytes."""
    return get_max_widget_state_size_bytes()


def uploaded_files() -> Any:
    """Return the server's store of uploaded files: no public API lists or deletes them."""
    return runtime.get_instance().uploaded_file_mgr


def is_active_session(session: str) -> bool:
    """Whether a session is connected: no public API lists the sessions."""
    return runtime.get_instance().is_active_session(session)


def is_host_allowed(host: str | None) -> bool:
    """Whether `server.allowedHosts` includes a host: Streamlit itself checks only websockets."""
    from streamlit.web.server.starlette import starlette_websocket

    return starlette_websocket.is_host_allowed(host)


def set_default(option: str, value: object, reason: str) -> None:
    """Set an option unless the user has set it: `st.set_option` rejects server options."""
    if not config.is_manually_set(option):
        config.set_option(option, value, reason)


def set_uvicorn_options(options: Callable[[], dict[str, Any]]) -> None:
    """Start uvicorn with these options as well: Streamlit exposes none of them."""
    from streamlit.web.server.starlette import starlette_server

    defaults = starlette_server._get_uvicorn_config_kwargs
    starlette_server._get_uvicorn_config_kwargs = (  # ty: ignore[invalid-assignment]
        lambda: defaults() | options()
    )


def run_server(arguments: Sequence[str]) -> None:
    """Run the `streamlit` command in this process: no public function starts a server."""
    from streamlit.web import cli

    cli.main(list(arguments), prog_name="streamlit")


def component_with_script_file(
    package: str, name: str, folder: Path, file: str, **arguments: Any
) -> Callable[..., Any]:
    """Declare a component whose script is a file in `folder`, which the browser caches.

    The public API accepts such files only from an installed package, so this registers the folder
    as a package. `arguments` are those of `st.components.v2.component`. Requires a running server.
    """
    full = f"{package}.{name}"
    manifest = ComponentManifest(package, "", [ComponentConfig(name, asset_dir=".")])
    get_bidi_component_manager().register_from_manifest(manifest, folder)
    return st.components.v2.component(full, js=file, **arguments)


def has_script_folder(package: str, name: str) -> bool:
    """Whether `component_with_script_file` has declared this component on the running server."""
    return get_bidi_component_manager().get_component_asset_root(f"{package}.{name}") is not None
