"""Fails when an include breaks the layer diagram, a folder lacks its README.md, two types have one name, a standard header is
missing, or wrapping has run comments into one.

usage: check_layers.py REPOSITORY_ROOT       the rules are in rules.py
"""
import fnmatch
import pathlib
import re
import sys

import rules

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')
NAMESPACE = re.compile(r"^(?:(namespace(?: [\w:]+)?) \{|\}  // (namespace(?: [\w:]+)?)$)")
TYPE = re.compile(r"^(?:struct|class|union)(?: alignas\(\w+\))? (\w+)(?: final)?(?: :[^:;]*)? \{")
COMMENT = re.compile(r"//.*")
MERGED_COMMENT = re.compile(r"^\s*//+\s+//")
SOURCES = {".h", ".hpp", ".cpp", ".c", ".cc", ".cuh", ".cu", ".inc"}
TREES = ["src", "bench", "tools", "tests", "include"]


def source_files(root):
    for tree in TREES:
        for path in sorted((root / tree).rglob("*")):
            if path.suffix in SOURCES and path.is_file():
                yield path


def includes_of(path):
    """(line number, included name) of each include in quotes."""
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1)


def resolve(root, path, name):
    """The file of the repository that `name` means in `path`, relative to the root; None for foreign headers."""
    for base in (path.parent, root / "src", root / "include", root / "tools", root / "bench"):
        candidate = (base / name).resolve()
        if candidate.is_file() and root in candidate.parents:
            return candidate.relative_to(root)
    return None


def longest_match(table, folder):
    """The value of the longest key that is `folder` or holds it."""
    keys = [key for key in table if folder == key or folder.startswith(key + "/")]
    return table[max(keys, key=len)] if keys else None


def layer_of(folder):
    """The layer that the folder, named below src/ or tests/, belongs to; None if to none."""
    return longest_match({layer: layer for layer in rules.LAYERS}, folder)


def grants(file):
    """What lets `file` include from layers besides its own, most special first: (table, key) pairs of rules.py."""
    tree, *rest = file.parts[:-1]
    folder, below = "/".join(file.parts[:-1]), "/".join(rest)
    if tree == "src":
        found = [("LAYERS", layer_of(below))]
    elif tree == "tests":
        found = [("TESTS", longest_match({key: key for key in rules.TESTS}, folder)), ("LAYERS", layer_of(below))]
    else:
        found = [("FACES", longest_match({key: key for key in rules.FACES}, folder))]
    return [(table, key) for table, key in found if key]


def allowed_layers(file):
    """Layers that `file` may include from, its own included."""
    own = layer_of("/".join(file.parts[1:-1])) if file.parts[0] in ("src", "tests") else None
    allowed = [own] if own else ["base"] if file.parts[0] == "tests" else []
    for table, key in grants(file):
        allowed += [layer for layer in getattr(rules, table)[key] if layer not in allowed]
    return allowed


def is_private(target, includer):
    """`target` (below src/) belongs to one part of a layer and `includer` is outside that layer."""
    parts = target.parts
    if len(parts) < 4 or parts[1] not in rules.PRIVATE_PARENTS:
        return False
    if includer.parts[1:2] == (parts[1],):  # the layer itself, and its tests
        return False
    if includer.parent.as_posix() in rules.PRIVATE_SEEN_BY:
        return False
    name = "/".join(parts[1:])
    return name not in rules.FRONTS and parts[-1] != parts[2] + "_transport.h"


def check_include(file, number, target, problems):
    where = f"{file}:{number}"
    if target.parts[0] == "include":
        return
    if target.parts[0] != "src":
        if file.parts[0] in ("src", "include"):
            problems.append(f"{where}: the library includes {target}, which is no part of it")
        return
    if file.parts[0] == "include":
        problems.append(f"{where}: a public header includes {target}")
        return
    if (file.as_posix(), "/".join(target.parts[1:])) in rules.EXCEPTIONS:
        return
    layer = layer_of("/".join(target.parts[1:-1]))
    allowed = allowed_layers(file)
    if layer not in allowed:
        problems.append(f"{where}: includes {target}; this folder may include only: {', '.join(allowed) or 'nothing'}")
    elif is_private(target, file):
        problems.append(f"{where}: includes {target}, which is private to src/{layer}")


def check_locale(file, text, problems):
    """No number or word that is read or written depends on the locale of the calling program."""
    if file.parts[0] not in rules.LOCALE_FREE:
        return
    patterns = [(rules.READS_BY_LOCALE, "reads a number as the locale has it: use base/number.h"),
                (rules.COMPARES_BY_LOCALE, "compares letters as the locale has them: use base/word.h")]
    if file.parts[0] != rules.PRINTS_FOR_PEOPLE:
        patterns.append((rules.WRITES_BY_LOCALE, "writes a number as the locale has it: use formatString()"))
    for pattern, problem in patterns:
        for match in re.finditer(pattern, text):
            problems.append(f"{file}:{text.count(chr(10), 0, match.start()) + 1}: {problem}")


def check_standard_headers(path, file, text, problems):
    own = path.with_suffix(".h")
    included = text + (own.read_text(errors="replace") if path.suffix == ".cpp" and own.is_file() else "")
    code = COMMENT.sub("", text)
    for header, functions in rules.STANDARD_FUNCTIONS.items():
        used = re.search(rf"\bstd::(?:ranges::)?(?:{functions})\s*\(", code)
        if used and f"#include <{header}>" not in included:
            problems.append(f"{file}: uses {used.group(0)}) and does not include <{header}>")


def find_cycle(graph):
    """Nodes of one cycle of `graph` (node -> set of nodes), or None."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return path[path.index(node):] + [node]
        if node in done:
            return None
        path.append(node)
        for other in sorted(graph.get(node, ())):
            cycle = visit(other)
            if cycle:
                return cycle
        path.pop()
        done.add(node)
        return None

    for start in sorted(graph):
        cycle = visit(start)
        if cycle:
            return cycle
    return None


def unused_grants(edges):
    """Rights of rules.py that no include of the repository needs, one line each. `edges`: pairs of files."""
    unused = {(table, key, layer) for table in ("LAYERS", "FACES", "TESTS")
              for key, layers in getattr(rules, table).items() for layer in layers}
    for file, target in edges:
        if target.parts[0] != "src":
            continue
        layer = layer_of("/".join(target.parts[1:-1]))
        for table, key in grants(file):
            if layer in getattr(rules, table)[key]:
                # What its layer grants a test anyway says nothing about that layer's own right.
                if not (file.parts[0] == "tests" and table == "LAYERS"):
                    unused.discard((table, key, layer))
    return [f"tests/layers/rules.py: {table}[{key!r}] grants {layer!r}, which nothing there includes" for table, key, layer in sorted(unused)]


def check_cycles(edges, problems):
    """`edges`: pairs of files. No cycle between files, nor between folders of src/."""
    files, folders = {}, {}
    for source, target in edges:
        files.setdefault(str(source), set()).add(str(target))
        if source.parts[0] == target.parts[0] == "src" and source.parent != target.parent:
            folders.setdefault(str(source.parent), set()).add(str(target.parent))
    for kind, graph in (("files", files), ("folders", folders)):
        cycle = find_cycle(graph)
        if cycle:
            problems.append(f"cycle of {kind}: {' -> '.join(cycle)}")


def check_folders(root, problems):
    for folder in sorted({path.parent.relative_to(root) for path in source_files(root) if "include" != path.parts[0]}):
        name = folder.as_posix()
        if name.startswith("include") or any(fnmatch.fnmatch(name, pattern) and name.count("/") == pattern.count("/")
                                             for pattern in rules.NO_README):
            continue
        readme = root / folder / "README.md"
        if not readme.is_file():
            problems.append(f"{name}: no README.md (purpose, what it may include, how to add one more)")
        elif len(readme.read_text().splitlines()) > rules.MAX_README_LINES:
            problems.append(f"{name}/README.md: more than a page ({rules.MAX_README_LINES} lines)")
    for name in ("src", "bench", "tools", "tests"):
        if (root / name).is_dir() and not (root / name / "README.md").is_file():
            problems.append(f"{name}: no README.md")


def types_of(lines):
    """(line number, name with its namespaces) of each type that the linker may merge with another of that name."""
    spaces = []
    for number, line in enumerate(lines, 1):
        if match := NAMESPACE.match(line):
            if match.group(1):
                spaces.append(match.group(1))
            elif spaces:
                spaces.pop()
        elif (match := TYPE.match(line)) and "namespace" not in spaces:
            yield number, "::".join([space.split()[1] for space in spaces] + [match.group(1)])


def check_types(root, problems):
    """A library has one type of a name: of two, the linker would keep the functions of one."""
    first = {}
    for path in source_files(root):
        file = path.relative_to(root)
        if file.parts[0] != "src" or file.parts[1] == "nccl":  # a library of its own
            continue
        for number, name in types_of(path.read_text(errors="replace").splitlines()):
            other = first.setdefault(name, f"{file}:{number}")
            if other != f"{file}:{number}":
                problems.append(f"{file}:{number}: {name} is also a type of {other}: rename one")


def check_names(root, problems):
    for folder in sorted((root / "src").iterdir()):
        if folder.is_dir() and not layer_of(folder.name):
            problems.append(f"src/{folder.name}: not in the layer diagram (tests/layers/rules.py, src/README.md)")


def check(root, grants_are_needed=False):
    """All violations, one line each; with `grants_are_needed` also unused permissions in rules.py."""
    root = pathlib.Path(root).resolve()
    problems, edges = [], []
    check_names(root, problems)
    for path in source_files(root):
        file = path.relative_to(root)
        text = path.read_text(errors="replace")
        lines = text.splitlines()
        check_locale(file, text, problems)
        check_standard_headers(path, file, text, problems)
        most = rules.MAX_SOURCE_LINES if file.parts[0] == "src" else rules.MAX_OTHER_LINES
        if len(lines) > most:
            problems.append(f"{file}: more than {most} lines: it carries more than one idea")
        problems += [f"{file}:{number}: a comment inside a comment" for number, line in enumerate(lines, 1)
                     if MERGED_COMMENT.match(line)]
        for number, name in includes_of(path):
            target = resolve(root, path, name)
            if target is None:
                continue
            edges.append((file, target))
            check_include(file, number, target, problems)
    check_cycles(edges, problems)
    check_folders(root, problems)
    check_types(root, problems)
    if grants_are_needed:
        problems += unused_grants(edges)
    return problems


def main():
    problems = check(sys.argv[1], grants_are_needed=True)
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problem(s)")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
