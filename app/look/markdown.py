"""Escapes text from outside, such as file names and error messages, for Markdown."""

import re
from unicodedata import category

_JOINER = "\u2060"  # zero width; keeps Streamlit from turning text into emoji, arrows and links
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~$&!])")
_JOINED = re.compile(r"(:)(?=[\w/+-])|(-)(?=[->\\])|(www)(?=\.)|(@)(?=\w)|(?<=[<>~])(?=[=-])")
_LIST = re.compile(r"^(\d+)([.)])|^([-+])(?=\s)")


def plain(text: object) -> str:
    """Return one line of Markdown that renders as the text itself, without any markup."""
    line = " ".join(str(text).split())
    if line and ((line[0] > "\x7f" and category(line[0])[0] in "SMC") or "\u20e3" in line[:3]):
        line = _JOINER + line  # an alert uses a leading emoji as its icon
    line = _JOINED.sub(lambda match: match[0] + _JOINER, line)
    line = _MARKUP.sub(r"\\\1", line)
    return _LIST.sub(lambda match: f"{match[1] or ''}\\{match[2] or match[3]}", line)
