"""Runs the commands of the README and of the guide, page by page, and follows their links. Fails with the page and the block.

usage: guide_test.py commands SOURCE_FOLDER BIN_FOLDER PREFIX     every block marked sh, but for those that need what is not here
       guide_test.py measured SOURCE_FOLDER BIN_FOLDER PREFIX     the same of the pages that show what was measured, which another test
                                                                  would disturb
       guide_test.py links SOURCE_FOLDER                          every relative link of every page of the repository, and every
                                                                  error that a heading quotes, in the sources

A block is run by bash, in a folder of its page, which is its home, too, with the programs on the path and the build as build/quick.
Behind `sh` it says what else it needs, or that it fails. A block marked `text` behind it is what it prints: each line, where ... stands
for anything. Where a block draws a picture of the name of one in docs/pictures, the two must be equal.
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

LIMIT_S = 120
MEASURED = {"check.md"}
NEEDS = {"minutes", "nodes", "root", "cluster", "RDMA", "GPU", "PyTorch"}
SHOWN = {"c", "cpp", "cmake", "python", "diff", "yaml"}  # code and files, not commands
INDENTED = re.compile(r"(?<=\n\n)(?: {4}[^\n]+\n)+")
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block:
    """Commands of a page: what they need, if anything; whether they fail; lines that they print."""

    def __init__(self, words, commands):
        self.commands, self.fails, self.lines = commands, "fails" in words, []
        self.needs = next((word.removeprefix("needs=") for word in words if word.startswith("needs=")), None)
        unknown = [word for word in words if word != "fails" and not word.startswith("needs=")]
        self.wrong = f"no test can tell what this is: {unknown}\n{commands}" if unknown or self.needs not in NEEDS | {None} else None

    def run(self, before, folder, environment):
        """The error, or None. All processes of the commands have ended then."""
        process = subprocess.Popen(["bash", "-euo", "pipefail", "-c", before + self.commands], cwd=folder, env=environment, text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
                                   start_new_session=True)
        try:
            said, _ = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return f"more than {LIMIT_S} s:\n{self.commands}"
        if (process.returncode != 0) != self.fails:
            return f"ended with {process.returncode}:\n{self.commands}\n{said[-2000:]}"
        missing = [line for line in self.lines if not re.search(".*".join(map(re.escape, line.split("..."))), said)]
        return f"does not print {missing}:\n{self.commands}\n{said[-2000:]}" if missing else None


def blocks(text):
    found = []
    for words, content in BLOCK.findall(text):
        language, *rest = words.split() or [""]
        if language == "sh":
            found.append(Block(rest, content))
        elif language == "text":
            found[-1].lines = content.splitlines()
        elif language not in SHOWN:
            found.append(Block([f"```{words}"], content))
    found += [Block(["commands that are only indented"], lines) for lines in INDENTED.findall(BLOCK.sub("", text))]
    return found


def try_page(page, source, programs, environment, have):
    """For each block: None if it ran, its unmet needs, or its error."""
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "examples").symlink_to(source / "examples")
        (folder / "build").mkdir()
        (folder / "build" / "quick").symlink_to(Path(programs).parent)
        exported = ""  # the state of a reader's shell
        for block in blocks(text):
            if block.wrong or block.needs not in have:
                yield block.wrong or block.needs
                continue
            yield block.run(exported, folder, environment | {"HOME": name})
            exported += "".join(line + "\n" for line in block.commands.splitlines() if line.startswith("export "))
        for drawn in folder.glob("*.svg"):
            kept = source / "docs" / "pictures" / drawn.name
            if kept.exists() and kept.read_bytes() != drawn.read_bytes():
                yield f"docs/pictures/{drawn.name} is not what the page's command draws"


def commands(pages, least, source, programs, prefix):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HORING_")}
    environment |= {"PATH": f"{programs}:{os.environ['PATH']}", "HORING_CACHE_DIR": "off", "PREFIX": prefix}
    check = subprocess.run([f"{programs}/horing-run", "--check-nodes"], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    have = {None} | ({"nodes"} if check.returncode == 0 else set())
    ran, left_out, wrong = 0, {}, []
    for page in pages:
        for outcome in try_page(page, source, programs, environment, have):
            if outcome is None:
                ran += 1
            elif outcome in NEEDS:
                left_out[outcome] = left_out.get(outcome, 0) + 1
            else:
                wrong.append(f"{page.relative_to(source)}: {outcome}")
    print(f"{ran} blocks ran; left out: " + ", ".join(f"{count} that need {what}" for what, count in sorted(left_out.items())))
    if ran + left_out.get("nodes", 0) < least:
        wrong.append("hardly any block was found")
    return wrong


def anchor(heading):
    """As GitHub makes it of a heading."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def links(source):
    listed = subprocess.run(["find", ".", "-name", "*.md", "-not", "-path", "./build/*", "-not", "-path", "./.git/*"], cwd=source,
                            capture_output=True, text=True, check=True).stdout.split()
    wrong, followed = [], 0
    for name in listed:
        page = source / name
        prose = re.sub(r"`[^`\n]*`", "", BLOCK.sub("", page.read_text(encoding="utf-8")))
        for target in re.findall(r"\]\(([^)\s]+)\)", prose):
            if re.match(r"[a-z]+:", target):
                continue
            followed += 1
            path, _, fragment = target.partition("#")
            there = page.parent / path if path else page
            if not there.exists():
                wrong.append(f"{name}: no such file: {target}")
            elif fragment and there.suffix == ".md":
                headings = re.findall(r"^#+ (.*)$", there.read_text(encoding="utf-8"), re.MULTILINE)
                if fragment not in map(anchor, headings):
                    wrong.append(f"{name}: no such heading: {target}")
    print(f"{followed} links in {len(listed)} pages")
    if followed < 50:
        wrong.append("hardly any link was found")
    return wrong


def errors(source):
    """Errors quoted in headings of the guide are in the compiled sources; "..." matches any text."""
    literals = ""
    for path in sorted((source / "src").rglob("*")):
        if path.suffix in (".cpp", ".h"):
            literals += re.sub(r'"\s*\n\s*"', "", path.read_text(encoding="utf-8"))
    wrong, found = [], 0
    for page in sorted((source / "docs").glob("*.md")):
        for quoted in re.findall(r'^#+ .*"([^"\n]+)"', page.read_text(encoding="utf-8"), re.MULTILINE):
            found += 1
            wrong += [f"{page.name}: no error says: {part}" for part in quoted.split("...") if part.strip() not in literals]
    print(f"{found} errors that the guide explains")
    return wrong if found >= 5 else [*wrong, "hardly any error was found"]


def main():
    what, source, *rest = sys.argv[1:]
    source = Path(source).resolve()
    if what == "links":
        wrong = links(source) + errors(source)
    else:
        pages = [page for page in (source / "README.md", *sorted((source / "docs").glob("*.md"))) if (page.name in MEASURED) == (what == "measured")]
        wrong = commands(pages, {"commands": 10, "measured": 4}[what], source, *rest)
    sys.exit("\n".join(wrong) if wrong else 0)


if __name__ == "__main__":
    main()
