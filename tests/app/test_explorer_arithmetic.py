"""The explorer's computations in the browser equal NumPy's, on random maps and words."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from playwright.sync_api import Page

from app.components.assets import joined, palette
from app.components.explorer.payload import KINDS, pack, payload
from app.figures.style import diverging
from tests.app.explorer_harness import Record, Token, _maps, synthetic_quantity, synthetic_record

FOLDER = Path(__file__).parents[2] / "app/components/explorer"
SCRIPTS = joined(*(FOLDER / f"{name}.js" for name in ("data", "maps", "measures", "words")))
VIEW = {"kind": "cross", "layer": 0, "head": 0}
# Return the numbers and measures of all maps; `ask` has quantity, unit and combine.
WORK = f"""([sent, ask, hide, share, others]) => {{
{SCRIPTS}
  const decoded = (sent) => {{
    const bytes = Uint8Array.from(atob(sent), (one) => one.charCodeAt(0));
    return decodePayload(unpack(bytes));
  }};
  const data = decoded(sent);
  others.forEach((other, i) => data.peers.set(i, decoded(other)));
  const hidden = new Set(hide);
  const found = {{}};
  for (const kind of KINDS) {{
    found[kind] = [];
    for (let layer = 0; layer <= data.layers[kind]; layer++) {{
      for (let head = 0; head <= data.heads; head++) {{
        const map = mapOf(data, {{ ...ask, kind, layer, head }});
        const measured = measure(map);
        found[kind].push({{
          layer, head, queries: map.queries, keys: map.keys, sumsToOne: map.sumsToOne,
          lo: map.lo, hi: map.hi,
          values: [...map.values], open: [...map.unmasked], spread: [...measured.entropy],
          peak: measured.peak, roles: measured.roles, distance: measured.distance,
          received: [...measured.received],
          hidden: [...map.values].length ? hiddenMass(map, hidden) : 0,
          lines: smallestSet(map, hidden, share).lines,
        }});
      }}
    }}
  }}
  return JSON.stringify(found);
}}"""

quick = settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def random_record(seed: int) -> Record:
    """Return a record of random length and words; if the seed is odd, <bos> starts its source."""
    random = np.random.default_rng(seed)

    def pieces(count: int) -> tuple[Token, ...]:
        starts = random.random(count) < 0.5
        return tuple(
            Token("." if random.random() < 0.1 else f"w{i}", starts_word=bool(starts[i]))
            for i in range(count)
        )

    base = synthetic_record("short", 2, 3)
    end, begin = Token("<eos>", special=True), Token("<bos>", special=True)
    source, target = (
        (*[begin][: seed % 2], *pieces(int(random.integers(1, 7))), end),
        pieces(int(random.integers(1, 7))),
    )
    S, T = len(source), len(target) + 1
    masks = {"encoder": np.ones((S, S), bool), "decoder": np.tri(T, dtype=bool)}
    masks["cross"] = np.ones((T, S), bool)
    rows = tuple((*target, end)[i : i + 1] * 5 for i in range(T))
    return replace(
        base,
        source=source,
        target_in=(begin, *target),
        target_out=(*target, end),
        log_probs=np.full(T, -0.5, np.float32),
        alternatives=rows,
        alternative_log_probs=np.full((T, 5), -0.5, np.float32),
        **{kind: _maps(seed + i, 2, 3, masks[kind]) for i, kind in enumerate(KINDS)},
        **{f"{kind}_mask": masks[kind] for kind in KINDS},
    )


def sent(record: Record, quantity=None) -> str:
    """Return a payload in base64, since Playwright takes and returns long lists slowly."""
    packed = pack(payload(record, VIEW, quantities=dict([quantity] if quantity else [])))
    return base64.b64encode(packed).decode()


def work(
    blank: Page, record: Record, ask: dict, quantity=None, hide=(), share=0.7, beside=()
) -> dict:
    """Return the browser's results; `beside` are payloads of the other explorers in the group."""
    asked = [sent(record, quantity), ask, list(hide), share, list(beside)]
    return json.loads(blank.evaluate(WORK, asked))


def groups(tokens: tuple[Token, ...]) -> np.ndarray:
    """Return each token's word index; a punctuation mark or special token is its own word."""
    word, found, alone = -1, [], True
    for token in tokens:
        single = token.special or token.text in (".", ",")
        word += token.starts_word or single or alone
        found.append(word)
        alone = single
    return np.array(found)


def sides(record: Record, kind: str) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
    rows = record.source if kind == "encoder" else record.target_out
    return rows, record.target_in if kind == "decoder" else record.source


def as_words(record: Record, kind: str, maps: np.ndarray) -> np.ndarray:
    """Sum over the tokens of a key word; average over the tokens of a query word."""
    rows, columns = (np.eye(max(g) + 1)[g] for g in map(groups, sides(record, kind)))
    return np.einsum("qw,lhqk,kv->lhwv", rows / rows.sum(0), maps.astype(np.float64), columns)


def arrays(found: list[dict], layers: int, heads: int) -> np.ndarray:
    """Return [layers + 1, heads + 1, query, key]; the last layer and head combine all."""
    first = found[0]
    shape = layers + 1, heads + 1, first["queries"], first["keys"]
    return np.array([one["values"] for one in found]).reshape(shape)


@quick
@given(seed=st.integers(0, 10**6), unit=st.sampled_from(["pieces", "words"]))
def test_words_and_aggregates_are_sums_and_means(blank, seed, unit):
    record = random_record(seed)
    ask = {"quantity": "weights", "unit": unit, "combine": "mean"}
    mean = work(blank, record, ask)
    largest = work(blank, record, {**ask, "combine": "max"})
    for kind in KINDS:
        maps = getattr(record, kind)
        expected = as_words(record, kind, maps) if unit == "words" else maps
        found = arrays(mean[kind], 2, 3)
        np.testing.assert_allclose(found[:2, :3], expected, atol=1e-6)
        # Heads may be averaged before or after tokens are merged into words: both are linear.
        average = maps.mean(1, keepdims=True)
        np.testing.assert_allclose(
            found[:2, 3:],
            as_words(record, kind, average) if unit == "words" else average,
            atol=1e-6,
        )
        np.testing.assert_allclose(found[2, :3], expected.mean(0), atol=1e-6)
        np.testing.assert_allclose(found[2, 3], expected.mean((0, 1)), atol=1e-6)
        np.testing.assert_allclose(found.sum(-1), 1, atol=1e-3)
        maxima = arrays(largest[kind], 2, 3)
        np.testing.assert_allclose(maxima[:2, 3], expected.max(1), atol=1e-6)
        np.testing.assert_allclose(maxima[2, 3], expected.max((0, 1)), atol=1e-6)
        sums = [one["sumsToOne"] for one in largest[kind]]
        assert sums == [one["layer"] < 2 and one["head"] < 3 for one in largest[kind]]


@quick
@given(seed=st.integers(0, 10**6), share=st.sampled_from([0.3, 0.7, 0.95]))
def test_measures_lines_and_hidden_mass_match_numpy(blank, seed, share):
    record = random_record(seed)
    ask = {"quantity": "weights", "unit": "pieces", "combine": "mean"}
    found = work(blank, record, ask, hide=["eos", "punctuation"], share=share)
    for kind in KINDS:
        maps, (_, columns) = getattr(record, kind).astype(np.float64), sides(record, kind)
        hidden = np.array([token.special or token.text == "." for token in columns])
        for one in found[kind]:
            if one["layer"] == 2 or one["head"] == 3:
                continue
            weights = maps[one["layer"], one["head"]]
            entropy = -(weights * np.log2(np.where(weights > 0, weights, 1))).sum(-1)
            np.testing.assert_allclose(one["spread"], entropy, atol=5e-3)
            assert one["peak"] == pytest.approx(weights.max(-1).mean(), abs=1e-4)
            np.testing.assert_allclose(one["received"], weights.mean(0), atol=1e-4)
            queries, keys = weights.shape
            place = np.arange(queries)
            if kind == "cross":
                place = place * (keys - 1) / max(1, queries - 1)
            if kind == "decoder":  # a row is named by the token it produces, which is fed in next
                place = place + 1
            away = np.abs(np.arange(keys) - place[:, None])
            assert one["distance"] == pytest.approx((weights * away).sum() / queries, abs=2e-3)
            assert one["roles"] == pytest.approx(roles(kind, weights, columns[0].text), abs=1e-4)
            assert one["hidden"] == pytest.approx(weights[:, hidden].sum(-1).mean(), abs=1e-3)
            check_lines(one["lines"], np.where(hidden, 0, weights), share)


def roles(kind: str, weights: np.ndarray, first_key: str) -> dict[str, float]:
    """Return the mean weight on each role's position, relative to the token that names the row."""
    back = {"encoder": 0, "decoder": -1}.get(kind)
    first = 2 if kind == "decoder" else 0
    found = {"eos": weights[:, -1]} if kind != "decoder" else {}
    found |= {"bos": weights[first:, 0]} if first_key == "<bos>" else {}
    if kind == "decoder":
        places = {"prev": -1, "second": -2}
    else:
        places = {"prev": -1, "self": 0, "next": 1} if kind == "encoder" else {}
    queries, keys = weights.shape
    for name, away in places.items():
        cells = [(q, q - back + away) for q in range(first, queries)]
        found[name] = np.array([weights[q, k] for q, k in cells if 0 <= k < keys])
    return {name: values.mean() for name, values in found.items() if values.size}


def check_lines(lines: list[list[float]], visible: np.ndarray, share: float) -> None:
    """Check that each row's lines cover the share, and that one line fewer would not."""
    for query, row in enumerate(visible):
        held = [value for q, _, value in lines if q == query]
        if row.sum() == 0:
            continue
        goal = share * row.sum()
        assert sum(held) >= goal - 1e-3
        assert np.sort(row)[::-1][: max(0, len(held) - 1)].sum() <= goal + 1e-3


@quick
@given(seed=st.integers(0, 10**6), name=st.sampled_from(["scores", "norms", "rollout"]))
def test_other_quantities_keep_their_numbers_on_one_scale(blank, seed, name):
    record = random_record(seed)
    numbers = synthetic_quantity(record, name)
    for unit in ("pieces", "words"):
        ask = {"quantity": name, "unit": unit, "combine": "mean"}
        found = work(blank, record, ask, quantity=(name, numbers))
        for kind in KINDS:
            if name == "scores":  # symmetric about 0
                limit = np.abs(numbers[kind][..., getattr(record, f"{kind}_mask")]).max()
                assert found[kind][0]["hi"] == pytest.approx(limit)
                assert found[kind][0]["lo"] == -found[kind][0]["hi"]
            mask = getattr(record, f"{kind}_mask")
            expected = np.where(mask, numbers[kind], 0)
            if unit == "words" and name == "scores":  # the mean over unmasked cells
                expected = as_words(record, kind, expected)
                expected /= np.maximum(as_words(record, kind, mask[None, None] * 1.0), 1e-9)
            elif unit == "words":
                expected = as_words(record, kind, expected)
            for one in found[kind]:
                assert one["sumsToOne"] == (name == "rollout")
                assert (one["lo"], one["hi"]) == (found[kind][0]["lo"], found[kind][0]["hi"])
                if one["layer"] < 2 and (one["head"] < 3):
                    head = 0 if name == "rollout" else one["head"]
                    values = np.reshape(one["values"], expected.shape[2:])
                    opened = np.reshape(one["open"], expected.shape[2:]) == 1
                    np.testing.assert_allclose(
                        values[opened], expected[one["layer"], head][opened], atol=1e-5
                    )
                    assert values.max() <= one["hi"] * (1 + 1e-6)


def test_scores_are_orange_below_zero_and_blue_above(blank: Page) -> None:
    """Zero is grey; the colours are those of all signed maps of the app."""
    blank.set_content(f'<style>{palette(".explorer")}</style><section class="explorer"></section>')
    colours = blank.evaluate(
        f"""() => {{
{SCRIPTS}
  const map = {{ signed: true, lo: -8, hi: 8 }};
  const theme = readTheme(document.querySelector(".explorer"));
  const pixel = (value) => rampOf(theme, map).css[stepOf(map, value)].match(/\\d+/g).map(Number);
  return [-8, 0, 8].map(pixel);
}}"""
    )
    (red, _, blue), zero, (r, _, b) = colours
    assert red > blue + 60 and b > r + 60
    assert max(zero) - min(zero) <= 2
    scale = diverging("light")
    for drawn, place in zip(colours, (0, len(scale) // 2, -1), strict=True):
        of_figures = [int(part) for part in re.findall(r"\d+", scale[place][1])]
        assert np.abs(np.subtract(drawn, of_figures)).max() <= 3


PRINTED = f"""([text, asks]) => {{
{SCRIPTS}
  const data = decodePayload(unpack(Uint8Array.from(atob(text), (c) => c.charCodeAt(0))));
  return asks.map((ask) => {{
    const map = mapOf(data, {{ combine: "mean", layer: 1, head: 2, unit: "pieces", ...ask }});
    return [map.error, [...map.values].map((value) => printedValue(map, value))];
  }});
}}"""


def printed(blank: Page, record: Record, asks: list[dict], **further) -> list:
    """Return the error and printed numbers of each requested map."""
    text = base64.b64encode(pack(payload(record, VIEW, **further))).decode()
    return blank.evaluate(PRINTED, [text, asks])


@pytest.mark.parametrize(
    ("case", "layers", "heads", "digits"),
    [("short", 4, 4, 4), ("long", 4, 8, 4), ("long", 6, 8, 2)],
)
def test_printed_digits_are_correct(blank: Page, case, layers, heads, digits):
    """All digits of floats are correct; quantised numbers are within the printed error."""
    record = synthetic_record(case, layers, heads)
    numbers = synthetic_quantity(record, "scores")
    asks = [{"quantity": name, "kind": kind} for name in ("weights", "scores") for kind in KINDS]
    found = printed(blank, record, asks, quantities={"scores": numbers})
    for ask, (error, texts) in zip(asks, found, strict=True):
        name, kind = ask["quantity"], ask["kind"]
        own = (getattr(record, kind) if name == "weights" else numbers[kind])[1, 2]
        opened = getattr(record, f"{kind}_mask").ravel()
        for value, text in np.column_stack([own.ravel(), np.array(texts, object)])[opened]:
            said, _, within = text.replace("\u2212", "-").partition(" ± ")
            if case == "short":
                assert error == 0 and within == ""
                assert "⁻" in said or said == f"{np.float32(value):.4f}"
            else:
                assert abs(float(said) - value) <= float(within), text
        if case == "long" and name == "weights":
            assert {len(text.split(" ± ")[0].partition(".")[2]) for text in texts} == {digits}


def test_errors_of_summed_cells_add_up(blank: Page) -> None:
    record = synthetic_record("long", 6, 8)
    ask = {"quantity": "weights", "kind": "cross"}
    (pieces, _), (words, _) = printed(blank, record, [ask, {**ask, "unit": "words"}])
    longest = np.bincount(groups(record.source)).max()
    assert [pieces, words] == pytest.approx([1 / 255, longest / 255])


def test_requests_time_out_are_answered_or_fail(blank: Page) -> None:
    """With a fake clock, one request times out, the next is answered, and the third fails."""
    script = joined(FOLDER / "requests.js")
    said = blank.evaluate(
        f"""() => {{
          let late = null;
          const setTimeout = (call) => ((late = call), 1);
          const clearTimeout = () => (late = null);
          {script}
          const parts = {{ "request-note": {{ textContent: "" }} }};
          const asked = [];
          const ask = (...what) => asked.push(what);
          const explorer = {{ dom: {{ parts }}, requests: {{}}, host: {{ ask }} }};
          const found = [];
          const note = () => found.push([parts["request-note"].textContent, late !== null]);
          const undone = [];
          const giveUp = () => undone.push(1);
          const take = (data, {{ q }}) => q === 7;
          const response = {{ what: "It", take, giveUp }};
          const go = () => request(explorer, "quantity", {{ quantity: 7 }}, response);
          const settle = (answer) => {{
            settleRequest(explorer, {{ name: "quantity", ...answer }});
            note();
          }};
          go(); note(); late(); note();
          go(); note();
          settle({{ request: 2, q: 6 }});
          settle({{ request: 1, failed: "Too old." }});
          settle({{ request: null, q: 7 }});
          go();
          settle({{ request: 3, failed: "No memory." }});
          settle({{ request: 3, failed: "No memory, unasked." }});
          return [found, asked, undone.length, Object.keys(explorer.requests)];
        }}"""
    )
    late = "It did not arrive within 20 s: choose it again."
    states = [["", True], [late, False], *[["", True]] * 3, ["", False], ["No memory.", False]]
    states.append(["No memory, unasked.", False])
    asked = [["quantity", {"request": number, "quantity": 7}] for number in (1, 2, 3)]
    assert said == [states, asked, 2, []]


def test_a_label_is_truncated_between_graphemes(blank: Page) -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    cut = blank.evaluate(
        f"""(word) => {{
{joined(FOLDER.parent / "shared/grid.js")}
  const context = {{ measureText: (text) => ({{ width: text.length }}) }};
  return Array.from(word, (_, limit) => cutLabel(context, word, limit + 2));
}}""",
        family * 3,
    )
    assert {text.removesuffix("\u2026").replace(family, "") for text in cut} == {""}


@quick
@given(seed=st.integers(0, 10**6), name=st.sampled_from(["scores", "norms", "rollout"]))
def test_explorers_in_a_group_share_the_larger_scale(blank, seed, name):
    records = [random_record(seed), random_record(seed + 7)]
    both = [(name, synthetic_quantity(record, name)) for record in records]
    both[1] = (name, {kind: 0.9 * numbers for kind, numbers in both[1][1].items()})
    weights = sent(records[1])  # from an explorer without the quantity
    for unit in ("pieces", "words"):
        ask = {"quantity": name, "unit": unit, "combine": "mean"}
        alone = [
            work(blank, *each, quantity=own)
            for *each, own in zip(records, [ask] * 2, both, strict=True)
        ]
        for i in (0, 1):
            other = sent(records[1 - i], both[1 - i])
            found = work(blank, records[i], ask, quantity=both[i], beside=[other, weights])
            for kind in KINDS:
                for end, widest in (("lo", min), ("hi", max)):
                    expected = widest(one[kind][0][end] for one in alone)
                    assert found[kind][0][end] == pytest.approx(expected)
