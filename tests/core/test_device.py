"""What a device is asked for, and how many threads a network gets."""

import pytest
import torch

from core.device import spare_threads


@pytest.mark.parametrize("parameters, threads", [(3_000_000, 1), (60_000_000, 2)])
def test_only_a_small_network_keeps_to_one_thread(parameters, threads):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        spare_threads(parameters)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
