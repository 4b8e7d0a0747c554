"""The project's Markdown, as tests look at it: headings, links, tables and code blocks."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

__all__ = ["DOCS", "PAGES", "REFERENCE", "ROOT", "Block", "anchors", "blocks", "links", "rows", "section"]

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"
REFERENCE: Final = DOCS / "reference"

PAGES: Final = sorted(
    {
        ROOT / "README.md",
        *(page for folder in ("docs", "plugins", "examples", "benchmarks") for page in (ROOT / folder).rglob("*.md")),
    }
)
"""Every Markdown file that people read; what tools leave in build folders is not among them."""

_FENCE: Final = re.compile(
    r"^(?P<indent> *)(?P<fence>`{3,})(?P<language>[\w-]*)[^`\n]*\n(?P<text>.*?)^ *(?P=fence) *$",
    re.MULTILINE | re.DOTALL,
)
_COMMENT: Final = re.compile(r"<!--\s*(?P<text>(?:(?!-->).)*?)\s*-->\s*\Z", re.DOTALL)
_HEADING: Final = re.compile(r"^(?P<level>#{1,6}) +(?P<text>.+?) *$", re.MULTILINE)
_LINK: Final = re.compile(r"!?\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(\s*<?(?P<target>[^)\s>]+)>?[^)]*\)")
_CODE_SPAN: Final = re.compile(r"(`+)(?:.|\n)+?\1")
_CELL_BORDER: Final = re.compile(r"(?<!\\)\|")


@attrs.frozen(kw_only=True)
class Block:
    """A fenced code block; ``comment`` is the HTML comment directly before it, such as ``skip: needs a network``."""

    language: str
    text: str
    line: int
    comment: str | None


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced code blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        comment = _COMMENT.search(text, 0, found.start())
        indent = found["indent"]
        lines = [line.removeprefix(indent) for line in found["text"].splitlines(keepends=True)]
        yield Block(
            language=found["language"],
            text="".join(lines),
            line=text.count("\n", 0, found.start("text")) + 1,
            comment=comment["text"] if comment else None,
        )


def anchors(page: Path) -> set[str]:
    """Return the fragments that a page's headings can be linked by, as GitHub makes them."""
    found: set[str] = set()
    for heading in _HEADING.finditer(_without_fences(page)):
        slug = _slug(heading["text"])
        number, base = 0, slug
        while slug in found:
            number += 1
            slug = f"{base}-{number}"
        found.add(slug)
    return found


def links(page: Path) -> Iterator[str]:
    """Yield the targets of a page's links and images; what stands in code is no link."""
    for found in _LINK.finditer(_CODE_SPAN.sub("code", _without_fences(page))):
        yield found["target"]


def section(page: Path, heading: str) -> str:
    """
    Return what stands under *heading*, up to the next heading of its level or above.

    Raises:
        LookupError: The page has no such heading.
    """
    text = page.read_text(encoding="utf-8")
    bare = _without_fences(page)
    found = [match for match in _HEADING.finditer(bare) if match["text"].strip("`") == heading]
    if not found:
        problem = f"{page.relative_to(ROOT)} has no heading {heading!r}"
        raise LookupError(problem)
    start = found[0]
    following = (m for m in _HEADING.finditer(bare, start.end()) if len(m["level"]) <= len(start["level"]))
    end = next(following, None)
    return text[start.end() : end.start() if end else None]


def rows(text: str) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the tables in *text*, cells without their spaces; headings and rules are not among them."""
    previous_was_row = False
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if not line.lstrip().startswith("|"):
            previous_was_row = False
            continue
        cells = tuple(cell.strip().replace(r"\|", "|") for cell in _CELL_BORDER.split(line.strip().strip("|")))
        following = lines[number + 1] if number + 1 < len(lines) else ""
        is_head = not previous_was_row and set(following) <= set("|-: ") and "-" in following
        previous_was_row = True
        if not is_head and not all(cell and set(cell) <= set("-:") for cell in cells):
            yield cells


def _without_fences(page: Path) -> str:
    """Return a page's text with code blocks blanked out, so that positions stay."""
    text = page.read_text(encoding="utf-8")
    return _FENCE.sub(lambda block: re.sub(r"[^\n]", " ", block[0]), text)


def _slug(heading: str) -> str:
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
