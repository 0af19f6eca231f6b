"""Reads the public headers with doxygen, for the reference of `./tools/dev docs`, and fails where a symbol has no comment.

usage: reference.py [FOLDER]     leaves doxygen's XML in FOLDER/xml

The comments of the headers are plain text. Here they become doxygen's: one in front of several declarations that no empty line parts is
the comment of each, `---- Title ----` begins a section, and what is indented further is an example. What nccl.h says nothing of is as in
horing's headers. Fields, enumerators and members of a class may do with the comment of their type. Ends with 77 where there is no doxygen.
"""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

INCLUDE = Path(__file__).resolve().parents[1] / "include"
HEADERS = tuple(str(path.relative_to(INCLUDE)) for path in sorted(INCLUDE.glob("*/*.h*")))
SETTINGS = """
INPUT = {folder}/include
STRIP_FROM_PATH = {folder}/include
OUTPUT_DIRECTORY = {folder}
RECURSIVE = YES
EXTENSION_MAPPING = h=C
GENERATE_HTML = NO
GENERATE_LATEX = NO
GENERATE_XML = YES
XML_PROGRAMLISTING = NO
MARKDOWN_SUPPORT = NO
AUTOLINK_SUPPORT = NO
TYPEDEF_HIDES_STRUCT = YES
SORT_MEMBER_DOCS = NO
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
SEARCH_INCLUDES = NO
PREDEFINED = HORING_API= NCCL_EXPORT= "NCCL_TWINS(result,name,...)=result nccl##name(__VA_ARGS__)"
QUIET = YES
"""
TOKEN = re.compile(r"""
    (?P<c>/\*.*?\*/) | (?P<cpp>(?:(?<=\n)|(?<=\n\s\s)|(?<=\n\s{4}))//[^\n]*(?:\n[ ]*//[^\n]*)*|//[^\n]*)
  | (?P<directive>(?<=\n)[#](?:[^\\\n]|\\.)*) | (?P<empty>\n[ ]*(?=\n)) | (?P<open>\{) | (?P<close>\}) | (?P<end>;)
  | (?P<label>(?:public|private|protected):) | (?P<code>"(?:[^"\\]|\\.)*"|\w+|[^\s]) | (?P<space>\s)
""", re.X | re.S)
TITLE = re.compile(r"---- (.*?) ?----\n?(.*)", re.S)
MEMBER = re.compile(r"Member .* of (class|struct|union|enum) |\(enumvalue\)")
DECLARED = re.compile(r"""
    \#define\ (\w+) | HORING_API\ [^;(]*?(\w+)\( | NCCL_TWINS\([^,]*,\ (\w+),
  | typedef\ (?:enum|struct)[^;{]*\{[^}]*\}\ (\w+); | typedef\ [^;(]*?(\w+);
""", re.X)
FOR_TOOLS = re.compile(r"clang-format|NOLINT|internal$")


def plain(comment):
    """The text of a comment, without what makes it one."""
    if comment.startswith("/*"):
        comment = comment[2:-2]
    text = re.sub(r"^ *(//|\*(?!\*))?", "", comment, flags=re.M)
    return re.sub(r"^ ", "", text, flags=re.M).strip()


def marked(text, symbols):
    """Plain text as doxygen's."""
    lines, example = [], False
    for line in text.splitlines():
        indented = line.startswith("  ")
        if line and indented != example:
            lines.append("@verbatim" if indented else "@endverbatim")
            example = indented
        if not example:
            line = re.sub(r'[@\\<>&#%"]|::', r"\\\g<0>", line)
            line = re.sub(r"`([^`]*)`", r"<tt>\1</tt>", line)
            line = re.sub(r"\b(?:horing|HORING)\w+", lambda word: f'@ref {word[0]} "{word[0]}"' if word[0] in symbols else word[0], line)
        lines.append(line)
    return "\n".join(lines + ["@endverbatim"] * example)


class Scope:
    """The contents of braces: declarations or code; the statement that is being read; the comment of the paragraph."""

    def __init__(self, declares, ends):
        self.declares, self.ends, self.statement, self.comment, self.told = declares, ends, "", None, False
        self.section = ""  # what closes it


class Converter:
    """Rewrites the comments of one header."""

    def __init__(self, text, symbols):
        self.text = re.sub(r"\n#ifdef __cplusplus\n.*?\n#endif", "", text, flags=re.S)
        self.symbols, self.scopes, self.out = symbols, [Scope(True, False)], []

    def converted(self):
        for token in TOKEN.finditer(self.text):
            getattr(self, f"take_{token.lastgroup}", self.take)(token[0], token.start())
        return "".join(self.out) + self.scopes[0].section

    def begin(self, at):
        """A statement begins, or continues."""
        scope = self.scopes[-1]
        if scope.declares and not scope.statement.strip():
            if scope.told or not scope.comment:
                self.out.append(self.namesake(at) or scope.comment or "")
            scope.told = True

    def namesake(self, at):
        """The comment of a symbol of nccl.h that horing.h has as well."""
        name = declared(DECLARED.match(self.text, at)) or ""
        twin = re.sub(r"^(nccl|(?=[A-Z][a-z]))", "horing", name).replace("NCCL", "HORING")
        return f'/** As @ref {twin} "{twin}". */\n' if twin != name and twin in self.symbols else None

    def take(self, word, _):
        self.out.append(word)
        self.scopes[-1].statement += word

    def take_code(self, word, at):
        self.begin(at)
        self.take(word, at)

    def take_label(self, word, _):
        self.out.append(word)

    def take_empty(self, word, _):
        self.out.append(word)
        if not self.scopes[-1].statement.strip():
            self.scopes[-1].comment = None

    def take_directive(self, line, at):
        if line.startswith("#define"):
            self.begin(at)
        self.out.append(line)

    def take_open(self, brace, _):
        statement = self.scopes[-1].statement
        kind = re.search(r"\b(class|struct|enum|union|namespace|extern)\b", statement) if self.scopes[-1].declares else None
        if kind and re.search(r"\w\s*\(.*\)[^>]*$", re.sub(r"requires\s*\(.*\)\)\s*(?=struct)", "", statement, flags=re.S), re.S):
            kind = None
        self.scopes.append(Scope(bool(kind), not kind or kind[0] in ("namespace", "extern")))
        self.out.append(brace)

    def take_close(self, brace, _):
        inner = self.scopes.pop()
        self.out.append(inner.section + brace)
        self.scopes[-1].statement = "" if inner.ends else self.scopes[-1].statement + brace

    def take_end(self, mark, _):
        self.out.append(mark)
        self.scopes[-1].statement = ""

    def take_c(self, comment, at):
        scope, text = self.scopes[-1], plain(comment)
        if not scope.declares or FOR_TOOLS.search(text):
            self.out.append(comment)
        elif self.text[self.text.rfind("\n", 0, at) + 1:at].strip():
            self.out.append(f"/**< {marked(text, self.symbols)} */")
        elif at == 0:
            self.out.append(f"/** @file\n{marked(text, self.symbols)} */")
        elif title := TITLE.match(text):
            self.out.append(f"{scope.section}/** @name {title[1].rstrip('.')}\n{marked(title[2], self.symbols)} */\n/**@{{*/")
            scope.section = "/**@}*/\n"
            scope.comment, scope.told = f"/** {marked(title[2], self.symbols)} */\n" if title[2] else None, True
        elif not scope.statement.strip():
            scope.comment, scope.told = f"/** {marked(text, self.symbols)} */\n", False
            self.out.append(scope.comment)
        else:
            self.out.append(comment)

    take_cpp = take_c


def declared(found):
    return found and next(filter(None, found.groups()), None)


def headers():
    return {name: (INCLUDE / name).read_text(encoding="utf-8") for name in HEADERS}


def warnings(texts, folder):
    """What doxygen says of {name: text} of headers; its XML is in folder/xml then."""
    known = {declared(found) for text in texts.values() for found in DECLARED.finditer(text)}
    known = {name for name in known if name.startswith(("horing", "HORING"))}
    for name, text in texts.items():
        place = folder / "include" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(Converter(text, known).converted(), encoding="utf-8")
    done = subprocess.run(["doxygen", "-"], input=SETTINGS.format(folder=folder), capture_output=True, text=True, check=False)
    return [line.replace(f"{folder}/include/", "") for line in done.stderr.splitlines() if not MEMBER.search(line)]


def main():
    if not shutil.which("doxygen"):
        print("Left out: doxygen is not installed")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else temporary).resolve()
        wrong = warnings(headers(), folder)
        count = sum(path.read_text(encoding="utf-8").count("<memberdef ") for path in (folder / "xml").glob("*.xml"))
    print(f"{count} symbols of {len(HEADERS)} headers")
    sys.exit("\n".join(wrong) if wrong or count < 100 else 0)


if __name__ == "__main__":
    main()
