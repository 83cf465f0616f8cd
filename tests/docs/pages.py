"""Pages of documentation: their fenced blocks, what the comment above a block says of it, links, headings."""

import pathlib
import re
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Guides, the reference and ARCHITECTURE.md keep to this width; tables, links and what stands in fences may be wider.
WIDTH = 120
README_LINES_MAX = 150

FENCE = re.compile(r"^(\s*)(`{3,})\s*(\S*)\s*$")
COMMENT = re.compile(r"^\s*<!--\s*(not run|file):?\s*(.*?)\s*-->\s*$")
# A path of the repository in prose: `crates/store/src/key.rs`.
SOURCE = re.compile(r"`((?:crates|tests|examples|docs|fuzz|benchmarks)/[\w./-]*)`")
LINK = re.compile(r"(?<!!)\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")


class Block:
    """What stands between two fences.

    `not_run` is the reason why an example is not run, `file` the name under which a block is written before the next
    example runs. `output` is the block of text behind an example: what the example prints.
    """

    def __init__(self, page, language, first, lines):
        self.page, self.language, self.first, self.lines = page, language, first, lines
        self.not_run = self.file = self.output = None

    @property
    def text(self):
        return "".join(line + "\n" for line in self.lines)

    @property
    def place(self):
        return f"{self.page.name}:{self.first}"


class Page:
    """A Markdown file. Its name is its path from the root of the repository."""

    def __init__(self, path):
        self.path = path
        self.name = str(path.relative_to(ROOT))
        self.lines = path.read_text(encoding="utf-8").splitlines()
        self.blocks, self.prose, self.problems = [], [], []
        self.read()

    def problem(self, number, text):
        self.problems.append(f"{self.name}:{number}: {text}")

    def read(self):
        """Takes the blocks out; what is left is prose, as pairs of line number and text."""
        opened, said, behind = None, {}, None
        for number, line in enumerate(self.lines, 1):
            fence = FENCE.match(line)
            if opened:
                if fence and fence[2] == opened[0] and not fence[3]:
                    block = Block(self, opened[1], opened[2] + 1, self.lines[opened[2]:number - 1])
                    block.not_run, block.file = said.get("not run"), said.get("file")
                    if block.language == "text" and behind:
                        behind.output = block
                    behind = block if block.language in ("sql", "sh") else None
                    self.blocks.append(block)
                    opened, said = None, {}
            elif fence:
                opened = (fence[2], fence[3], number)
                if not fence[3] and is_guide(self):
                    self.problem(number, "a fence names no language")
            elif comment := COMMENT.match(line):
                said[comment[1]] = comment[2]
                if not comment[2]:
                    self.problem(number, f"'{comment[1]}' says no more")
                behind = None
            elif line.strip():
                behind, said = None, {}
                self.prose.append((number, line))
        if opened:
            self.problem(opened[2], "the fence is not closed")

    @property
    def anchors(self):
        """Names by which headings are linked to, as GitHub makes them."""
        found = set()
        for _, line in self.prose:
            if heading := re.match(r"#+\s+(.*?)\s*#*$", line):
                plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).replace("`", "")
                slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
                name, copy = slug, 0
                while name in found:
                    copy += 1
                    name = f"{slug}-{copy}"
                found.add(name)
        return found

    def links(self):
        """Line number and target of each link."""
        text = "\n".join(re.sub(r"`[^`]*`", lambda m: "x" * len(m[0]), line) for _, line in self.prose)
        numbers = [number for number, _ in self.prose]
        for found in LINK.finditer(text):
            yield numbers[text.count("\n", 0, found.start())], found[1]


def pages():
    """All pages that are looked at."""
    top = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
    own = [path for folder in ("docs", "examples", "benchmarks", "tests") for path in sorted((ROOT / folder).rglob("*.md"))]
    return [Page(path) for path in top + own]


def looked_at(all_pages):
    """Dead links, pages that no other page leads to, lines that are too long, a README of more than one screen."""
    problems, known = [], {page.path: page for page in all_pages}
    reached = {ROOT / "README.md"}
    for page in all_pages:
        problems += page.problems
        for number, target in page.links():
            if re.match(r"[a-z]+:", target):
                continue
            file, _, anchor = urllib.parse.unquote(target).partition("#")
            path = (page.path.parent / file).resolve() if file else page.path
            if not path.is_relative_to(ROOT) or not path.exists():
                problems.append(f"{page.name}:{number}: '{target}' leads nowhere")
                continue
            reached.add(path)
            if anchor and (path not in known or anchor not in known[path].anchors):
                problems.append(f"{page.name}:{number}: '{target}': the page has no such heading")
    for page in all_pages:
        if page.name.startswith("docs/") and page.path not in reached:
            problems.append(f"{page.name}: no page links to it")
        if is_guide(page) or page.name == "ARCHITECTURE.md" or page.name.startswith("docs/reference/"):
            for number, line in page.prose:
                if len(line) > WIDTH and not line.startswith("|") and "](" not in line:
                    problems.append(f"{page.name}:{number}: {len(line)} characters, at most {WIDTH} are wanted")
        if is_guide(page) or page.name == "ARCHITECTURE.md":
            for number, line in page.prose:
                for source in SOURCE.findall(line):
                    if not (ROOT / source).exists():
                        problems.append(f"{page.name}:{number}: there is no {source}")
    readme = known[ROOT / "README.md"]
    if len(readme.lines) > README_LINES_MAX:
        problems.append(f"README.md has {len(readme.lines)} lines, at most {README_LINES_MAX} are wanted")
    return problems


def is_guide(page):
    """Whether the page's examples are run."""
    written = not page.name.startswith("docs/reference/") or page.name.startswith("docs/reference/statements/")
    guides = page.name.startswith("docs/") and written
    return guides or page.name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")
