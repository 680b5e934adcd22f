"""Connect to a Ray cluster, or start one on this machine."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def connect() -> Any:
    """Return the module `ray`, connected to the cluster at RAY_ADDRESS or to a new one.

    A new cluster is private to this machine and ends with this process. Each machine of a cluster
    needs this project and the checkpoint folders at the same paths. Raises ValueError if Ray is not
    installed (the project's extra `ray`), and RuntimeError if it does not start.
    """
    os.environ.setdefault("RAY_raylet_start_wait_time_s", "120")  # for busy machines
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # no warning about GPUs
    try:
        import ray
        from ray.job_config import JobConfig
    except ImportError:
        raise ValueError('Ray is not installed: pip install -e ".[ray]"') from None
    if ray.is_initialized():
        return ray
    private: dict[str, Any] = {}
    if not os.environ.get("RAY_ADDRESS"):
        private = {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    attempts = 2 if private else 1  # Ray's own time limits are short for a busy machine
    for left in reversed(range(attempts)):
        try:
            ray.init(
                job_config=JobConfig(_py_driver_sys_path=[str(ROOT)]),  # workers find this code
                logging_level=logging.ERROR,
                log_to_driver=False,
                **private,
            )
            break
        except Exception as error:
            ray.shutdown()
            if not left:
                reason = " ".join(str(error).split())
                raise RuntimeError(f"Ray did not start: {reason}") from None
    return ray
