"""Fails when a function or type of the C headers has no comment above it.

usage: check_documented.py HEADER...

What follows another declaration without an empty line shares its comment.
"""
import re
import sys
from pathlib import Path

DECLARED = re.compile(r"HORING_API [^(]*?(\w+)\(|typedef .*?(\w+);$|\} (\w+);$", re.M)


def undocumented(text):
    """Names that a header declares in paragraphs that do not begin with a comment."""
    text = re.sub(r"(?s)(typedef (?:struct|enum)[^;{]*\{.*?\n\})", lambda body: re.sub(r"\n{2,}", "\n", body.group()), text)  # a body is one paragraph
    names = []
    for paragraph in re.split(r"\n{2,}", text):
        lines = [line for line in paragraph.splitlines() if not line.startswith("#")]
        declared = [next(filter(None, found)) for found in DECLARED.findall("\n".join(lines))]
        if declared and not lines[0].startswith("/*"):
            names += declared
    return names, len(DECLARED.findall(text))


def main():
    failed = False
    for header in sys.argv[1:]:
        names, count = undocumented(Path(header).read_text())
        print(f"{header}: {count} functions and types, {len(names)} without a comment{': ' if names else ''}{', '.join(names)}")
        failed = failed or bool(names) or count == 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
