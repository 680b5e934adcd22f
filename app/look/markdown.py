"""Text from outside, such as file names and error messages, shown literally."""

import re
from unicodedata import category

_JOINER = "\u2060"  # has no width; without it Streamlit makes :smile:, → and links of plain letters
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~$&!])")
_JOINED = re.compile(r"(:)(?=[\w/+-])|(-)(?=[->\\])|(www)(?=\.)|(@)(?=\w)|(?<=[<>~])(?=[=-])")
_LIST = re.compile(r"^(\d+)([.)])|^([-+])(?=\s)")


def plain(text: object) -> str:
    """Text of one line in which nothing is markup: no emphasis, link, picture, formula or icon."""
    line = " ".join(str(text).split())
    if line and ((line[0] > "\x7f" and category(line[0])[0] in "SMC") or "\u20e3" in line[:3]):
        line = _JOINER + line  # an alert would take an emoji that begins it for its icon
    line = _JOINED.sub(lambda match: match[0] + _JOINER, line)
    line = _MARKUP.sub(r"\\\1", line)
    return _LIST.sub(lambda match: f"{match[1] or ''}\\{match[2] or match[3]}", line)
