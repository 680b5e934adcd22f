"""Tokenizers of T5, mBART-50, M2M100, NLLB, BART and FSMT folders.

Each function returns a `Vocabulary` for both sides (for FSMT, one for each). Its `rows` cover every
row of the network's table: rows without a piece, such as T5's last 28, are special tokens that no
text has. `ids` are `pad`, `start` and `end` of config.json; `start` may equal `pad` (T5) or `end`
(BART, mBART, M2M100), whose row then occurs twice: its copy at our <bos> must have the classifier
bias NEVER. The tokenizer's `frame` holds the language codes, of which `options` choose the default
pair, and what goes in front of sources and targets. All raise ValueError, in one line, for a
missing or invalid file, and for a tokenizer that this project would read differently.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

from core.data.corpora import LANGUAGES
from core.files import MAX_CONFIG_BYTES
from core.foreign.family import Options, Vocabulary, check_ids, special_rows
from core.foreign.pieces import MAX_BYTES, Model, built, loaded, model_of, read_ids, read_model
from core.foreign.sources import read, read_json, shown
from core.foreign.tokenizer_json import pair_of, read_library_tokenizer
from core.foreign.words import stand_in
from core.text.tokenizer import SPECIALS, Frame
from core.text.vocabulary import BYTES

_FIRST = ("<s>", "<pad>", "</s>", "<unk>")  # ids 0 to 3 of fairseq's vocabularies
_CODE = re.compile("__([a-z]{2,3})__|([a-z]{2,3}_[A-Z][A-Za-z]{1,3})")
# The original libraries know these codes, so not every folder lists them.
_MBART50 = """ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR
    lt_LT lv_LV my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN af_ZA az_AZ bn_IN fa_IR he_IL
    hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN te_IN th_TH
    tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI""".split()
_M2M100 = """af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd
    gl gu ha he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn
    mr ms my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr
    uk ur uz vi wo xh yi yo zh zu""".split()
_UNUSED = "<unused_{}>"


class _Settings(TypedDict):
    """What is read of tokenizer_config.json, special_tokens_map.json and config.json."""

    tokenizer_class: NotRequired[str | None]
    extra_ids: NotRequired[int]
    legacy_behaviour: NotRequired[bool]
    do_lower_case: NotRequired[bool]
    additional_special_tokens: NotRequired[Any]
    task_specific_params: NotRequired[Any]
    src_lang: NotRequired[Any]
    tgt_lang: NotRequired[Any]
    source_lang: NotRequired[Any]
    target_lang: NotRequired[Any]


def sentencepiece(
    family: Literal["t5", "mbart", "m2m100"],
    folder: Path,
    options: Options,
    size: int,
    ids: dict[str, int],
) -> Vocabulary:
    """Return the vocabulary of a T5, mBART-50, or M2M100 network, the last with NLLB."""
    settings = _settings(folder, "tokenizer_config.json")
    kind = (settings.get("tokenizer_class") or "").removesuffix("Fast")
    file = _model_file(folder)
    if file is None:
        found = read_library_tokenizer(folder / "tokenizer.json")
        pieces, model = found.pieces | found.special, found.model
    else:
        pieces, model = _of_model(folder, file, family)
        pieces |= _special(folder, family, settings, len(pieces), size)
    behind = kind == "MBartTokenizer" or settings.get("legacy_behaviour", False)
    if behind or (family == "mbart" and size < len(pieces)):
        raise ValueError(
            f"{shown(folder)} puts the source's language behind </s>, but here </s> ends a source: "
            "only networks with the language in front, such as mBART-50, can be converted"
        )
    scores = {piece: score for piece, score in model.scores.items() if not _CODE.fullmatch(piece)}
    return _joint(folder, options, pieces, replace(model, scores=scores), size, ids)


def _model_file(folder: Path) -> Path | None:
    files = [folder / name for name in ("spiece.model", "sentencepiece.bpe.model")]
    found = next(filter(Path.exists, files), None)
    if found is None and not (folder / "tokenizer.json").exists():
        raise ValueError(
            f"{shown(folder)} has no tokenizer: neither {files[0].name} or {files[1].name} nor "
            "tokenizer.json; get the whole folder"
        )
    return found


def _of_model(folder: Path, file: Path, family: str) -> tuple[dict[int, str], Model]:
    """Return the pieces of a SentencePiece model by the original's ids.

    They are its own (T5), those of vocab.json (M2M100), or shifted by fairseq (mBART and NLLB).
    """
    proto, processor = read_model(file, bpe=True)
    own = {id: piece.piece for id, piece in enumerate(proto.pieces)}
    if family == "t5":
        return own, model_of(proto, processor.encode)
    if (folder / "vocab.json").exists():
        id_of = read_ids(folder / "vocab.json")
    elif [own.get(id) for id in range(3)] == ["<unk>", "<s>", "</s>"]:
        id_of = {piece: id for id, piece in enumerate(_FIRST)}
        id_of |= {piece: id + 1 for id, piece in own.items() if id > 2}
    else:
        raise ValueError(f"{shown(file)} does not begin with <unk>, <s> and </s>: get it again")

    def encode(text: str) -> list[int]:
        pieces = processor.encode(text, out_type=str)
        return [id_of.get(piece, id_of["<unk>"]) for piece in pieces]

    return {id: piece for piece, id in id_of.items()}, model_of(proto, encode)


def _special(
    folder: Path, family: str, settings: _Settings, behind: int, size: int
) -> dict[int, str]:
    """Return the special tokens behind a model's pieces: sentinels, or languages and <mask>."""
    if (file := folder / "tokenizer.json").exists():
        return read_library_tokenizer(file).special
    if family == "t5":
        count = max(0, min(settings.get("extra_ids", 100), size - behind))
        return {behind + count - 1 - n: f"<extra_id_{n}>" for n in range(count)}
    listed = _settings(folder, "special_tokens_map.json").get("additional_special_tokens")
    tokens = [token for token in listed or () if isinstance(token, str)]
    if not any(map(_CODE.fullmatch, tokens)):
        if family == "mbart":
            tokens = _MBART50
        elif (folder / "vocab.json").exists():
            tokens = [f"__{code}__" for code in _M2M100]
        else:
            raise ValueError(
                f"{shown(folder)} names no languages: get tokenizer.json or special_tokens_map.json"
            )
    if not (folder / "vocab.json").exists():
        tokens = [*tokens, "<mask>"]
    return dict(enumerate(tokens, start=behind))


def _joint(
    folder: Path,
    options: Options,
    pieces: dict[int, str],
    model: Model,
    size: int,
    ids: dict[str, int],
) -> Vocabulary:
    if not pieces or max(pieces) >= size:
        raise ValueError(
            f"{shown(folder)} has {len(pieces):,} pieces, but the network's table has {size:,} "
            "rows: get both from one version"
        )
    whole = {id: pieces.get(id, _UNUSED.format(id)) for id in range(size)}
    id_of = {piece: id for id, piece in whole.items()}
    if len(id_of) < size or "<unk>" not in id_of:
        raise ValueError(f"{shown(folder)} has a piece twice, or no <unk>: get it again")
    codes = {
        match[1] or match[2]: id
        for piece, id in id_of.items()
        if (match := _CODE.fullmatch(piece)) and piece not in model.scores
    }

    def frame(ours: dict[int, int]) -> dict[str, Any]:
        languages = {code: ours[id] for code, id in codes.items()}
        controls = {ours[id] for id, piece in whole.items() if piece not in model.scores}
        found = Frame(
            languages=languages,
            controls=frozenset(id for id in controls if id > 3).difference(languages.values()),
            prefix=_prefix(folder, options),
        )
        if languages:
            source, target = default_codes(folder, options, languages)
            found = replace(found, first=(languages[source],), forced=(languages[target],))
        return found.to_json()

    roles = ids | {"unknown": id_of["<unk>"]}
    return built(folder, "joint", whole, roles, model, frame)


def default_codes(folder: Path, options: Options, languages: dict[str, int]) -> list[str]:
    """Return the codes of source and target: those given, else those of the folder's direction.

    If `any_codes` will do, the tokenizer's own or the first ones replace what is missing.
    """
    chosen, frame = [], Frame(languages=languages)
    settings = _settings(folder, "tokenizer_config.json")
    own = settings.get("src_lang"), settings.get("tgt_lang")
    for wanted, language, flag, default in zip(
        options.codes, options.languages, ("--from-lang", "--to-lang"), own, strict=True
    ):
        if wanted is not None:
            frame.language(wanted)
            chosen.append(wanted)
            continue
        name = LANGUAGES[language]
        fitting = [code for code in languages if LANGUAGES[code.partition("_")[0]] == name]
        if options.any_codes and len(fitting) != 1:
            fitting = [default if default in languages else min(languages)]
        if len(fitting) != 1:
            some = ", ".join(fitting or sorted(languages)[:5])
            raise ValueError(
                f"{shown(folder)} has {len(fitting) or 'no'} codes for {name} ({language}): choose "
                f"one of its {len(languages)} with {flag}, such as {some}"
            )
        chosen += fitting
    return chosen


def _prefix(folder: Path, options: Options) -> str:
    """Return the text in front of every source: the one given, else the one in config.json."""
    if options.prefix is not None:
        return options.prefix
    task: Any = _settings(folder, "config.json").get("task_specific_params")
    for name in (f"translation_{options.languages[0]}_to_{options.languages[1]}", "prefix"):
        task = task.get(name) if isinstance(task, dict) else None
    return task if isinstance(task, str) else ""


def check_direction(folder: Path, options: Options) -> None:
    """Raise ValueError if the folder's settings name the reverse of the chosen languages."""
    settings = _settings(folder, "tokenizer_config.json")
    source, target = options.languages
    own = settings.get("source_lang"), settings.get("target_lang")
    if own == (target, source) and not options.any_codes:
        raise ValueError(
            f"{shown(folder)} translates from {target} to {source}, as its tokenizer_config.json "
            f"says: let --out end with -{target}-{source}"
        )


def _settings(folder: Path, name: str) -> _Settings:
    file = folder / name
    if not file.exists():
        return {}
    return read_json(_Settings, file, MAX_CONFIG_BYTES, MAX_CONFIG_BYTES)


def byte_level(folder: Path, size: int, ids: dict[str, int], forced: int | None) -> Vocabulary:
    """Return the vocabulary of a BART network; `forced` is forced_bos_token_id of config.json."""
    if (folder / "vocab.json").exists():
        id_of = read_ids(folder / "vocab.json")
        merges = _merges(folder / "merges.txt")
    else:
        found = read_library_tokenizer(folder / "tokenizer.json", byte_level=True)
        id_of = {piece: id for id, piece in (found.pieces | found.special).items()}
        merges = found.merges
    if max(id_of.values()) >= size or "<unk>" not in id_of or "<s>" not in id_of:
        raise ValueError(
            f"{shown(folder)}: its {len(id_of):,} tokens do not fit a table of {size:,} rows, or "
            "lack <s> or <unk>: get both from one version"
        )
    pieces = {id: piece for piece, id in id_of.items()}
    whole = {id: pieces.get(id, _UNUSED.format(id)) for id in range(size)}
    roles = ids | {"unknown": id_of["<unk>"]}
    check_ids(shown(folder), roles, size)
    rows = special_rows(roles["pad"], roles["start"], roles["end"], roles["unknown"], size)
    ours = {int(id): n for n, id in enumerate(rows)}
    read = {*BYTES, *(first + second for first, second in merges)}
    controls = {ours[id] for id, piece in whole.items() if piece not in read}
    frame = Frame(
        first=(ours[id_of["<s>"]],),
        forced=() if forced is None else (ours.get(forced, -1),),  # -1 is refused below
        controls=frozenset(id for id in controls if id >= len(SPECIALS)),
    )
    values = {
        "kind": "bytes",
        "vocabulary": {whole[int(id)]: n for n, id in enumerate(rows) if n >= len(SPECIALS)}
        | {name: id for id, name in enumerate(SPECIALS)},
        "merges": merges,
        **frame.to_json(),
    }
    return Vocabulary(loaded(values, folder, "joint"), rows)


def _merges(file: Path) -> list[tuple[str, str]]:
    """Return the pairs of merges.txt, in order; FSMT adds their counts. Raises ValueError."""
    try:
        lines = read(file, MAX_BYTES).decode().split("\n")
    except UnicodeDecodeError:
        raise ValueError(f"{shown(file)} is not UTF-8: get the file again") from None
    lines = [line for line in lines if line and not line.startswith("#version")]
    return [pair_of(" ".join(line.split(" ")[:2]), shown(file)) for line in lines]


def moses(
    folder: Path, options: Options, sizes: tuple[int, int], ids: dict[str, int]
) -> tuple[Vocabulary, Vocabulary]:
    """Return both sides' vocabularies of an FSMT network: vocab-src.json and vocab-tgt.json."""
    merges = _merges(folder / "merges.txt")
    lower = _settings(folder, "tokenizer_config.json").get("do_lower_case", False)
    found = []
    for side, size, language in zip(("src", "tgt"), sizes, options.languages, strict=True):
        file = folder / f"vocab-{side}.json"
        id_of = read_ids(file, size)
        roles = ids | {"unknown": id_of["<unk>"]}
        check_ids(shown(file), roles, size)
        rows = special_rows(roles["pad"], roles["start"], roles["end"], roles["unknown"], size)
        pieces = {id: piece for piece, id in id_of.items()}
        ordered = [pieces[int(id)] for id in rows[len(SPECIALS) :]]
        controls = [n for n, piece in enumerate(ordered, start=len(SPECIALS)) if piece == "<s>"]
        values = {
            "kind": "moses",
            "language": language,
            "vocabulary": [stand_in(piece) for piece in ordered],
            "merges": merges,
            "lower": lower,
            "controls": controls,
        }
        found.append(Vocabulary(loaded(values, folder, file.name), rows))
    source, target = found
    return source, target
