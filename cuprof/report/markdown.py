"""Findings as HTML: headings, lists, tables, emphasis; no HTML of the text's own, no images, no outside requests."""

from __future__ import annotations

FIRST_HEADING = 3
"""The page's own headings go to level 2."""


def to_html(text: str) -> str:
    """Return Markdown as HTML that is safe to put into a page."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    tokens = parser.parse(text)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + FIRST_HEADING - 1)}"
    html = str(parser.renderer.render(tokens, parser.options, {}))
    return html.replace("<table>", '<div class="scroll" tabindex="0"><table>').replace("</table>", "</table></div>")
