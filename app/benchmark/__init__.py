"""Measure the page's response times in a headless browser.

    python -m core.benchmark page|growth|offline [--rounds N] [--json FILE]
    python -m core.benchmark page --against REF

Needs Chromium (on the path, or CHROME_BIN). Times are medians, in milliseconds, from the click or
pointer move to the frame that shows its effect. Slow measurements use fewer than N rounds, and
start-up is measured once. Sizes are those of the largest message sent for one sentence, or of the
HTML file (offline page, BertViz).

`offline` writes the offline page in both precisions (fp16, int8) and opens it from disk. The same
run also measures the served app, and the offline page without WebAssembly.

`page --against REF` measures this version and another commit in pairs: start, new sentences, edits.

`growth` uses synthetic maps of up to 512 tokens and 12 layers of 16 heads.

If BertViz is installed (the extra `benchmark`), `page` also measures BertViz's model view with the
same number of maps. BertViz loads its scripts from cdnjs.cloudflare.com. To load them from disk,
set BERTVIZ_SCRIPTS to a folder with require.min.js, jquery.min.js and d3.min.js.
"""

from collections.abc import Iterator

from app.benchmark.against import against_rows
from app.benchmark.offline import offline_rows
from app.benchmark.page import growth_rows, page_rows
from core.benchmarks.contest import Missing, Options, Row


def _page(options: Options) -> Iterator[Row | Missing]:
    if options.against:
        return against_rows(options.against, options.rounds)
    return page_rows(options.rounds)


_PACKAGES = ("streamlit", "playwright")
BENCHMARKS = {
    "page": (_page, _PACKAGES, ("against",)),
    "offline": (lambda options: offline_rows(options.rounds), _PACKAGES, ()),
    "growth": (lambda options: growth_rows(options.rounds), _PACKAGES, ()),
}
