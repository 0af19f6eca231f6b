"""The guide and every README as a site with search, by Sphinx: `./tools/dev docs`."""
import ctypes
import re
import sys
from pathlib import Path
from unittest import mock

from sphinx.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
GUIDE = [f"docs/{page}" for page in (
    "getting-started", "nccl", "from-gloo-or-mpi", "pytorch", "launchers", "networks", "check", "speed", "algorithms", "hangs",
    "metrics", "troubleshooting", "semantics", "paro", "paro-pytorch", "internals")]
REFERENCE = [f"docs/site/{header}" for header in ("horing", "paro", "cpp", "nccl", "python")]

project = "horing"
extensions = ["myst_parser", "breathe", "sphinx.ext.autodoc"]
root_doc = "docs/README"
include_patterns = ["*.md", "**/*.md", "docs/site/*.rst"]
exclude_patterns = ["build", ".git", "**/.*"]
myst_heading_anchors = 4  # as GitHub names them
breathe_projects = {"horing": str(ROOT / "build/reference/xml")}  # tools/reference.py puts it there
breathe_default_project = "horing"
breathe_domain_by_extension = {"h": "c", "hpp": "cpp"}
autodoc_mock_imports = ["torch", "horing.torch.uncompiled"]  # the latter walks what is imported, and mocks have no end
autodoc_member_order = "groupwise"
autodoc_typehints = "signature"
smartquotes = False
html_theme = "furo"
html_title = "horing"
html_show_copyright = html_show_sphinx = html_copy_source = False


class NoLibrary:
    """In place of libhoring, which the site does not need: when it is imported, the package asks it for its version alone."""

    def __getattr__(self, name):
        def function(*arguments):
            if name == "horingGetVersion":
                major, minor = re.search(r'"(\d+)\.(\d+)', (ROOT / "python/src/horing/_version.py").read_text()).groups()
                arguments[0].value = 10000 * int(major) + 100 * int(minor)
            return 0

        return function


sys.path.insert(0, str(ROOT / "python/src"))
with mock.patch.object(ctypes, "CDLL", lambda name: NoLibrary()):
    import horing
if missing := [name for name in horing.__all__ if f"horing.{name}\n" not in (ROOT / "docs/site/python.rst").read_text()]:
    raise ConfigError(f"docs/site/python.rst lacks {missing} of the package")


def contents(caption, pages):
    return f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "".join(f"/{page}\n" for page in pages) + "```\n"


def show_needs(app, name, text):
    """What stands behind `sh` (docs/README.md), which is not shown otherwise."""
    text[0] = re.sub(r"^```sh needs=(\w+)", r"*Needs: \1*\n\n\g<0>", text[0], flags=re.M)
    text[0] = re.sub(r"^```sh fails", r"*Ends with an error:*\n\n\g<0>", text[0], flags=re.M)


def add_contents(app, name, text):
    """The sidebar, which Sphinx wants in a page. A page that the list lacks is an error, since nothing leads to it."""
    if name == root_doc:
        others = sorted(app.env.found_docs - {root_doc, *GUIDE, *REFERENCE})
        text[0] += contents("Guide", GUIDE) + contents("Reference", REFERENCE) + contents("The code", others)


def add_front(app, failure):
    """A site begins at its index.html."""
    if not failure:
        front = f"{root_doc}.html"
        Path(app.outdir, "index.html").write_text(f'<meta http-equiv="refresh" content="0; url={front}"><a href="{front}">horing</a>\n')


def setup(app):
    app.connect("source-read", add_contents)
    app.connect("source-read", show_needs)
    app.connect("build-finished", add_front)
    return {"parallel_read_safe": True}
