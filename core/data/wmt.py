"""The WMT news test sets, downloaded and verified by sacreBLEU."""

from pathlib import Path

from core.data.text_files import Find, LinePairs

SETS = tuple(f"wmt{year}" for year in range(13, 24))


def read(split: str, find: Find | None, source: str, target: str) -> list[tuple[str, str]]:
    """Read one year's (source, target) pairs; since 2019, each direction has its own test set.

    With `find`, read the files `<set>.<source>-<target>.<language>`; without it, use sacreBLEU.
    Raises ValueError if sacreBLEU cannot download the set.
    """
    if find is not None:
        names = [f"{split}.{source}-{target}.{language}" for language in (source, target)]
        return list(LinePairs(find(names[0]), find(names[1])))
    import sacrebleu

    try:
        left = sacrebleu.get_source_file(split, f"{source}-{target}")
        right = sacrebleu.get_reference_files(split, f"{source}-{target}")[0]
    except SystemExit:  # an SSL error or a wrong checksum, which sacreBLEU logs
        raise ValueError(f"sacreBLEU rejected the download of {split}: pass --data") from None
    except OSError:
        raise ValueError(
            f"sacreBLEU cannot download {split}: check the network or pass --data"
        ) from None
    return list(LinePairs(Path(left), Path(right)))
