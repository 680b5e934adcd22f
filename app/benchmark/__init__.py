"""Measure how fast the page answers, in a real headless browser.

    python -m core.benchmark page|growth [--rounds N] [--json FILE]

Needs Chromium (on the path, or CHROME_BIN). Times are medians of N rounds, in milliseconds, from
the click or the move of the pointer until the frame that shows its effect; the starts are taken
once. Sizes are those of the largest message that a page is sent for one sentence.

`growth` shows made-up maps of many sizes, up to 512 tokens and 12 layers of 16 heads.

Beside `page` stands BertViz's model view of as many maps, where it is installed (the extra
`benchmark`). It loads its scripts from cdnjs.cloudflare.com, or from a folder in BERTVIZ_SCRIPTS
that holds require.min.js, jquery.min.js and d3.min.js.
"""

from app.benchmark.growth import growth_rows
from app.benchmark.page import page_rows

BENCHMARKS = {
    "page": (page_rows, ("streamlit", "playwright")),
    "growth": (growth_rows, ("streamlit", "playwright")),
}
