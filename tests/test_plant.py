"""The fault lists fit the project: each text to replace occurs once, and each test exists."""

from __future__ import annotations

import re

import pytest

from tests.plant.fault import ROOT, Fault, faults


def test_each_fault_applies_and_names_existing_tests():
    for fault in faults():
        path = ROOT / fault.file
        assert fault.planted(path.read_text(encoding="utf-8"))
        assert fault.tests, fault.name
        for test in fault.tests:
            file, *names = test.split("::")
            text = (ROOT / file).read_text(encoding="utf-8")
            for name in names:
                base = re.escape(name.split("[")[0])
                definition = rf"^ *(?:async )?(?:def|class) {base}\b"
                assert re.search(definition, text, re.M), (fault.name, test)


def test_a_fault_that_does_not_apply_is_rejected():
    fault = Fault("area", "name", "file", "a", "b", ())
    assert fault.planted("xax") == "xbx"
    for text in ("", "aa"):
        with pytest.raises(ValueError, match="occurs"):
            fault.planted(text)
    with pytest.raises(ValueError, match="nothing is changed"):
        Fault("area", "name", "file", "a", "a", ()).planted("a")
