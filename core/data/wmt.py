"""The news test sets of the WMT campaigns, by sacreBLEU, which fetches and verifies them."""

from pathlib import Path

from core.data.text_files import Find, LinePairs

SETS = tuple(f"wmt{year}" for year in range(13, 24))


def read(split: str, find: Find | None, source: str, target: str) -> list[tuple[str, str]]:
    """(source, target) pairs of one year's set for this direction (from 2019 on they differ).

    With `find`, from the files `<set>.<source>-<target>.<language>`; without, by sacreBLEU.
    Raises ValueError where neither can be had.
    """
    if find is not None:
        names = [f"{split}.{source}-{target}.{language}" for language in (source, target)]
        return list(LinePairs(find(names[0]), find(names[1])))
    import sacrebleu

    try:
        left = sacrebleu.get_source_file(split, f"{source}-{target}")
        right = sacrebleu.get_reference_files(split, f"{source}-{target}")[0]
    except (OSError, SystemExit):  # without a network it logs why, and leaves by exit()
        raise ValueError(
            f"sacreBLEU cannot fetch {split}: check the network or pass --data"
        ) from None
    return list(LinePairs(Path(left), Path(right)))
