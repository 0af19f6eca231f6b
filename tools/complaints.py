"""Names each failed test of a suite, with the end of what it complained of: for the end of a check's long output.

usage: complaints.py TESTS.XML     as ctest or pytest wrote it for JUnit
"""

import re
import sys
import xml.etree.ElementTree as ET

MOST_TESTS, MOST_LINES, MOST_COLUMNS = 20, 16, 240
# What GoogleTest and sanitizers write, to the next line of GoogleTest's progress, at most so many lines.
COMPLAINT, LINES_OF_ONE = re.compile(r": Failure$|^\[  FAILED  \] .*\(\d+ ms\)|Sanitizer|terminate called"), 7


def complaints(output: list[str]) -> list[str]:
    """Each different one once, since a loop repeats them; of a program without any, the last lines."""
    found: dict[tuple[str, ...], None] = {}
    for at, line in enumerate(output):
        if COMPLAINT.search(line):
            following = output[at + 1:at + LINES_OF_ONE]
            end = next((i for i, each in enumerate(following) if each.startswith("[") or COMPLAINT.search(each)), len(following))
            found[line, *following[:end]] = None
    return [line for each in found for line in each][:MOST_LINES] or output[-MOST_LINES:]


def lines_of(texts: list[str]) -> list[str]:
    return [line[:MOST_COLUMNS].rstrip() for line in "\n".join(texts).splitlines() if line.strip()]


def report(suites: ET.Element) -> list[str]:
    said = []
    failed = [test for test in suites.iter("testcase") if test.find("failure") is not None or test.find("error") is not None]
    for test in failed[:MOST_TESTS]:
        name, group = test.get("name", ""), test.get("classname", "")
        said.append(f"{name if group in (name, '') else f'{group}.{name}'} failed:")  # ctest gives the name as both
        failures = [each for kind in ("failure", "error") for each in test.iter(kind)]
        texts = [each.text or "" for each in [*failures, *test.iter("system-out")]]
        said += [f"    {line}" for line in lines_of([each.get("message") or "" for each in failures])[:MOST_LINES] + complaints(lines_of(texts))]
    if len(failed) > MOST_TESTS:
        said.append("failed, too: " + " ".join(test.get("name", "") for test in failed[MOST_TESTS:]))
    return said


def main() -> None:
    try:
        print("\n".join(report(ET.parse(sys.argv[1]).getroot())))
    except (OSError, ET.ParseError) as error:
        print(f"{sys.argv[1]} says no more: {error}")


if __name__ == "__main__":
    main()
