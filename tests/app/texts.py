"""Hostile and unusual texts by kind, for tests that text is never markup."""

# ruff: noqa: E501 (long rows keep the lists short)

from __future__ import annotations

from itertools import product

HTML = [
    *(
        f"<{tag}>x</{tag}>"
        for tag in "b i s u a p div span sub sup code pre h1 table li marquee title style".split()
    ),
    *(f"<{tag}>" for tag in "br hr img input base meta link frame isindex keygen wbr".split()),
    *("</div>", "</body></html>", "</textarea>", "</title>", "</style>", "</pre><b>", "<!--", "-->"),
    *("<!-- x --> y", "<![CDATA[x]]>", "<!doctype html>", "<?xml version='1.0'?>", "<?php 1 ?>"),
    *("&amp;", "&lt;b&gt;", "&#60;b&#62;", "&#x3c;b", "&nbsp;x", "&notanentity;", "&", "&;", "<", ">"),
    *("< b >x</ b >", "<b", "b>", "<<b>>x<</b>>", "<B>X</B>", "<b/x>", "<b\tclass=x>t</b>", "<\u00a0b>"),
    *("'", '"', "''", '"x"', "'\"`", "\"><b>x</b>", "'><b>x</b>", "x=y", "<a href=#>x</a>"),
]  # fmt: skip
EVENTS = "onerror onload onclick onmouseover onfocus ontoggle onanimationstart".split()
BEARERS = ["img src=x", "svg", "body", "details open", "input autofocus", "video src=x"]
CALL = "window.taken=1;alert(1)"
SCRIPTS = [
    f"<script>{CALL}</script>",
    f"</script><script>{CALL}</script>",
    f"<scr<script>ipt>{CALL}</script>",
    "<SCRIPT SRC=http://127.0.0.1:9/x.js></SCRIPT>",
    *(f"<{bearer} {event}={CALL}>" for bearer, event in product(BEARERS, EVENTS[:5])),
    f"<a href=javascript:{CALL}>x</a>",
    f"<iframe srcdoc='<script>parent.{CALL}</script>'></iframe>",
    f"<iframe src=javascript:{CALL}>",
    f"<object data=javascript:{CALL}>",
    f"<embed src=data:text/html,<script>{CALL}</script>>",
    f"<form action=javascript:{CALL}><button>x</button></form>",
    "<meta http-equiv=refresh content='0;url=http://127.0.0.1:9/'>",
    "<link rel=stylesheet href=http://127.0.0.1:9/x.css>",
    "<img src=http://127.0.0.1:9/x.png>",
    "<base href=http://127.0.0.1:9/>",
    f"javascript:{CALL}",
    f"data:text/html,<script>{CALL}</script>",
    f"';{CALL}//",
    f'";{CALL}//',
    f"`${{{CALL}}}`",
    "__proto__",
    "constructor",
    "toString",
    "undefined",
    "null",
    "NaN",
    "[object Object]",
    "${7*7}",
    "{{7*7}}",
    "{{constructor.constructor('alert(1)')()}}",
    "<%= 7*7 %>",
    "#{7*7}",
    "\\u003cb\\u003e",
    "\\x3cb\\x3e",
    "%3Cb%3E",
]
SVG = [
    f"<svg><script>{CALL}</script></svg>",
    f"<svg/onload={CALL}>",
    f"<svg><animate onbegin={CALL} attributeName=x>",
    f"<svg><a xlink:href=javascript:{CALL}><text>x</text></a></svg>",
    "<svg><use href=http://127.0.0.1:9/x.svg#a></svg>",
    f"<svg><foreignObject><img src=x onerror={CALL}></foreignObject></svg>",
    "<text x=0 y=0>x</text>",
    "]]><svg/>",
    "url(http://127.0.0.1:9/x)",
    "expression(alert(1))",
]
MARKDOWN = [
    *("*a*", "**a**", "_a_", "__a__", "***a***", "~~a~~", "`a`", "``a``", "```a```", "# a", "## a"),
    *("- a", "+ a", "* a", "1. a", "12) a", "> a", ">> a", "---", "***", "===", "| a | b |", "    a"),
    *("[a](http://127.0.0.1:9/)", "![a](http://127.0.0.1:9/x.png)", "[a][b]", "[a]: http://127.0.0.1:9/"),
    *("<http://127.0.0.1:9/>", "http://127.0.0.1:9/a", "www.example.org", "a@example.org", "[ ] a", "[x] a"),
    *("[a](javascript:alert(1))", "a\\*b", "\\", "\\\\", "a  \nb", "[^1]", ":smile:", ":heart:", ":+1:"),
    *(":red[a]", ":blue-background[a]", ":material/home:", ":streamlit:", ":small[a]", ":green-badge[a]"),
    *("-> a", "<- a", "--", "---a", ">= a", "<= a", "~= a", ":rainbow[a]", "::a::", "(c)", "a\u00a0**b**"),
]  # fmt: skip
TEX = [
    *("$x^2$", "$$x$$", "\\(x\\)", "\\[x\\]", "$\\href{javascript:alert(1)}{x}$", "\\frac{1}{2}", "$", "$$"),
    *("5 $ and 6 $", "\\begin{x}", "$\\input{/etc/passwd}$", "\\u{41}", "^{2}", "_{i}", "\\$x\\$"),
]  # fmt: skip
FORMATS = [
    *("%s", "%d", "%n%n%n", "%{z}", "%{x:.2f}", "%{customdata[0]}", "{0}", "{}", "{x!r}", "{x.__class__}"),
    *("%(x)s", "$(id)", "`id`", "${PATH}", "%PATH%", "!!", "{{", "}}", "{", "}", "%", "%%", "d3-format"),
    *("<extra></extra>", "%{text}<extra></extra>", "\\n", "\\t", "\\0", "$title", "${data}", "$css"),
]  # fmt: skip
CONTROL = [
    *("<pad>", "<bos>", "<eos>", "<unk>", "<s>", "</s>", "<mask>", "<|endoftext|>", "[CLS]", "[SEP]"),
    *("a<eos>b", "<eos><eos>", "<BOS>", "< eos >", "&lt;eos&gt;", "▁", "▁▁", "a▁b", "▁a", "a▁", "##a", "@@ a"),
    *("⁇", "\ufffd", "␣", "‹U+200B›", "in₃", "a₁₂"),
]  # fmt: skip
BIDI = [
    *(f"a{chr(code)}b" for code in (0x202A, 0x202B, 0x202C, 0x202D, 0x202E, 0x200E, 0x200F, 0x061C)),
    *(f"a{chr(code)}b" for code in range(0x2066, 0x206A)),
    *("\u202eexe.txt", "שלום", "مرحبا بالعالم", "abc שלום def", "(שלום)", "12 ٣٤ ۵۶", "\u202e<b>x</b>"),
    *("\u2067<i>\u2069", "اَلْعَرَبِيَّةُ", "ﷺ", "﷽", "عربي 3 > 2"),
]  # fmt: skip
UNSEEN = [
    *(f"a{chr(code)}b" for code in (0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF, 0xAD, 0x34F, 0x180E)),
    *(f"a{chr(code)}b" for code in (0x115F, 0x3164, 0x2800, 0xFFA0, 0xFE0F, 0xE0101, 0xE0041)),
    *(f"a{chr(code)}b" for code in (0x00, 0x01, 0x07, 0x08, 0x1B, 0x7F, 0x80, 0x9B, 0x9D)),
    *(f"a{chr(code)}b" for code in (0x2028, 0x2029, 0x85, 0x0B, 0x0C, 0x1F, 0xA0, 0x3000, 0x2003)),
    *("\u200b", "\x1b[31mx\x1b[0m", "\x1b]0;x\x07", "\x00", "a\tb", "a\nb", "a\r\nb", "  a  b  "),
]  # fmt: skip
EMOJI = [
    *("😀", "👩‍👩‍👧‍👦", "👍🏿", "🏳️‍🌈", "🇩🇪", "1️⃣", "❤️", "❤︎", "🧑🏽‍🚀", "👨‍❤️‍💋‍👨", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "😀" * 30, "👩‍", "‍👩"),
    *("©️", "™", "☃", "🫠", "🇩", "🏿", "\u20e3", "㊙️"),
]  # fmt: skip
COMBINING = [
    "a\u0301", "ä", "a\u0308", "e\u0301\u0327", "a" + "\u0301" * 40, "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢", "\u0301a", "ｆｕｌｌ", "ﬁ", "Å", "Å",
    "한글", "ᄒ​ᅡᆫ", "नमस्ते", "ไทย", "日本語", "中文", "𝔘𝔫𝔦", "𐍈", "ſ", "ß", "ẞ", "İ", "ı", "ǆ", "І", "раураl", "Ⅷ", "½", "²",
]  # fmt: skip
SYSTEM = [
    *("'; DROP TABLE x;--", "1 OR 1=1", '" OR ""="', "x' UNION SELECT 1--", "/etc/passwd", "../../etc/passwd"),
    *("..\\..\\boot.ini", "C:\\Windows\\x", "file:///etc/passwd", "//127.0.0.1:9/x", "\\\\server\\x", "~/.ssh"),
    *("http://127.0.0.1:9/?a=b&c=d#e", "ftp://127.0.0.1:9/", "mailto:a@example.org", "tel:1", "CON", "a|b>c"),
    *("; rm -rf x", "$(reboot)", "=1+1", "=HYPERLINK(1)", "+1", "-1", "@SUM(1)", "a,b;c\td", '"a","b"', "\ufeffa"),
    *("a=1&b=2", "?source=x&model=y", "#/a", "%2e%2e%2f", "%00", "0x41", "1e999", "-0", "١٢٣", "1,000.00", "∞"),
]  # fmt: skip
LONG = [
    "x" * 120,
    "Donaudampfschifffahrtsgesellschaftskapitän" * 2,
    "a-" * 40,
    "<b>" * 12,
    "&" * 40,
    "\\" * 40,
    "ab." * 20,
    "*" * 40,
    "(" * 40,
    "W" * 90,
]

KINDS = {
    "html": HTML,
    "scripts": SCRIPTS,
    "svg": SVG,
    "markdown": MARKDOWN,
    "tex": TEX,
    "formats": FORMATS,
    "control": CONTROL,
    "bidi": BIDI,
    "unseen": UNSEEN,
    "emoji": EMOJI,
    "combining": COMBINING,
    "system": SYSTEM,
    "long": LONG,
}
TEXTS = list(dict.fromkeys(text for texts in KINDS.values() for text in texts))
SURROGATES = ["\ud800", "a\udfffb", "\ud83d", "\ude00\ud83d", "Ein \udc80 Hund"]
"""Lone surrogates: not valid text. Browsers never send them; programs can."""
