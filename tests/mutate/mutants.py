"""Generic mistakes in Python and JavaScript: an operator, constant, name or argument exchanged."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from pygments.lexers import get_lexer_by_name
from pygments.token import Name, Number, Operator, Punctuation

PAIRS = """source/target layer/head layers/heads low/high query/key queries/keys encoder/decoder
row/column rows/columns width/height left/right top/bottom start/end first/last before/after
min/max floor/ceil x/y mean/sum any/all minimum/maximum fed/produced sure/possible shown/hidden
above/below"""
SWAPPED = {
    name: other
    for pair in PAIRS.split()
    for name, other in (pair.split("/"), pair.split("/")[::-1])
}
OPERATORS = {
    **{
        "<": "<=",
        "<=": "<",
        ">": ">=",
        ">=": ">",
        "==": "!=",
        "!=": "==",
        "and": "or",
        "or": "and",
    },
    **{"+": "-", "-": "+", "*": "/", "/": "*", "//": "/", "%": "*", "in": "not in", "not in": "in"},
    **{"is": "is not", "is not": "is", "===": "!==", "!==": "===", "&&": "||", "||": "&&"},
    **{"&": "|", "|": "&", "+=": "-=", "-=": "+=", "++": "--", "--": "++"},
}
WORDS = {"True": "False", "False": "True", "true": "false", "false": "true"}


@dataclass(frozen=True)
class Mutant:
    """A replacement of the characters from `start` to `end` of a file, counted from 0."""

    file: str
    line: int
    start: int
    end: int
    new: str

    def apply(self, text: str) -> str:
        return text[: self.start] + self.new + text[self.end :]

    def parses(self, text: str) -> bool:
        """Whether a Python file still parses with the mutant; scripts are not parsed."""
        try:
            return not self.file.endswith(".py") or bool(ast.parse(self.apply(text)))
        except (SyntaxError, ValueError):
            return False

    def told(self, text: str) -> str:
        """Describe the mutant: its place and the line before and after."""
        begin = text.rfind("\n", 0, self.start) + 1
        finish = text.find("\n", self.end)
        finish = len(text) if finish < 0 else finish
        before = text[begin:finish]
        after = text[begin : self.start] + self.new + text[self.end : finish]
        shown = [re.sub(r"\s+", " ", part).strip()[:160] for part in (before, after)]
        return f"{self.file}:{self.line}: {shown[0]}  ->  {shown[1]}"


def mutants(root: Path, file: str) -> list[Mutant]:
    """Return all mutants of a file that differ from it; some may not parse."""
    text = (root / file).read_text(encoding="utf-8")
    known = set(re.findall(r"\w+", text))
    swapped = {name: other for name, other in SWAPPED.items() if other in known}
    found = _python(text, swapped) if file.endswith(".py") else _javascript(text, swapped)
    return [
        Mutant(file, text.count("\n", 0, start) + 1, start, end, new)
        for start, end, new in dict.fromkeys(found)
        if text[start:end] != new
    ]


def _python(text: str, swapped: dict[str, str]) -> Iterator[tuple[int, int, str]]:
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    lines = text.splitlines(keepends=True)

    def at(line: int, column: int) -> int:  # columns of ast count bytes
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    def span(node: ast.AST) -> tuple[int, int]:
        return at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset)

    def between(left: ast.AST, right: ast.AST) -> Iterator[tuple[int, int, str]]:
        start, end = span(left)[1], span(right)[0]
        for found in re.finditer(
            r"not in|is not|//|[<>=!]=|\b(?:in|is|and|or)\b|[-+*/%<>&|]", text[start:end]
        ):
            if new := OPERATORS.get(found[0]):
                yield start + found.start(), start + found.end(), new

    tree = ast.parse(text)
    skipped = {
        id(inner) for node in ast.walk(tree) for part in _unread(node) for inner in ast.walk(part)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        match node:
            case ast.Compare(left=left, comparators=[right]) | ast.BinOp(left=left, right=right):
                yield from between(left, right)
            case ast.BoolOp(values=values):
                yield from between(*values[:2])
            case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
                yield span(node)[0], span(operand)[0], ""
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                yield *span(test), f"(not ({text[slice(*span(test))]}))"
            case ast.Constant(value=bool() as value):
                yield *span(node), str(not value)
            case ast.Constant(value=int() | float() as value):
                yield *span(node), str(value + 1 if isinstance(value, int) else 2 * value)
            case ast.Constant(value=str() as value) if value in swapped:
                yield *span(node), f'"{swapped[value]}"'
            case ast.Name(id=name) if name in swapped:
                yield *span(node), swapped[name]
            case ast.Attribute(attr=name) if name in swapped:
                yield span(node)[1] - len(name), span(node)[1], swapped[name]
            case ast.Call(args=args, keywords=keywords):
                for one, two in pairwise(args):
                    a, b = span(one), span(two)
                    yield a[0], b[1], text[slice(*b)] + text[a[1] : b[0]] + text[slice(*a)]
                for keyword in keywords:
                    if keyword.arg:
                        start, end = span(keyword)
                        comma = re.match(r"\s*,", text[end:])
                        yield start, end + (comma.end() if comma else 0), ""
            case ast.Slice(lower=lower, upper=upper):
                for part in filter(None, (lower, upper)):
                    yield *span(part), ""
            case ast.Expr() | ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break():
                yield *span(node), "pass"


def _unread(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what has no effect: docstrings, annotations and the texts of errors."""
    match node:
        case ast.Expr(value=ast.Constant()):
            yield node
        case ast.AnnAssign() | ast.arg() if node.annotation:
            yield node.annotation
        case ast.FunctionDef() if node.returns:
            yield node.returns
        case ast.JoinedStr():
            yield node
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            yield node


def _javascript(text: str, swapped: dict[str, str]) -> Iterator[tuple[int, int, str]]:
    place = 0
    for kind, value in get_lexer_by_name("javascript", stripnl=False, ensurenl=False).get_tokens(
        text
    ):
        start, end = place, place + len(value)
        place = end
        if kind in Number and re.fullmatch(r"[\d.]+", value):
            yield start, end, str(int(value) + 1) if value.isdigit() else str(2 * float(value))
        elif kind in Operator or kind in Punctuation:
            if new := OPERATORS.get(value):
                yield start, end, new
            elif value == "!":
                yield start, end, ""
        elif value in WORDS:
            yield start, end, WORDS[value]
        elif kind in Name and value in swapped:
            yield start, end, swapped[value]
