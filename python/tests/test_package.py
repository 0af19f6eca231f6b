"""The package as a whole: versions, types, programs, signatures."""

import re
import sys
from importlib import metadata
from pathlib import Path

import pytest

import horing
from horing import _capi, _library, _programs


def installed():
    try:
        return metadata.distribution("horing")
    except metadata.PackageNotFoundError:
        pytest.skip("the package is not installed")


def test_versions_agree(project):
    header = (project / "include/horing/version.h").read_text()
    numbers = [re.search(f"#define HORING_{part} (\\d+)", header).group(1) for part in ("MAJOR", "MINOR", "PATCH")]
    assert ".".join(numbers) == horing.__version__ == horing.library_version()


def test_the_installed_version_is_the_package_s():
    assert installed().version == horing.__version__


def test_the_library_is_named_by_what_may_change():
    """Before 1.0 a minor version may change what programs see, later only a major one."""
    major, minor, _ = horing.__version__.split(".")
    assert _library.SONAME == "libhoring.so." + (f"0.{minor}" if major == "0" else major)


def test_a_library_of_another_version_is_refused(tmp_path):
    import subprocess

    (tmp_path / "other.c").write_text("int horingGetVersion(int *version) { *version = 200; return 0; }\n"
                                      "const char *horingGetErrorString(int code) { return 0; }\n"
                                      "const char *horingGetLastError(void *comm) { return 0; }\n")
    other = tmp_path / "libother.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", other, tmp_path / "other.c"], check=True)
    run = subprocess.run([sys.executable, "-c", "import horing"], capture_output=True, text=True,
                         env={"HORING_LIBRARY": str(other), "PYTHONPATH": str(Path(horing.__file__).parents[1])})
    assert f"horing 0.2; this package needs {_library.INTERFACE}" in run.stderr and "ImportError" in run.stderr


def header_text(project):
    """What horing.h consists of."""
    names = re.findall(r'#include "(horing/\w+\.h)"', (project / "include/horing/horing.h").read_text())
    return "\n".join((project / "include" / name).read_text() for name in names)


def test_every_function_of_the_header_is_declared(project):
    """With as many parameters; a new one must be added to _capi."""
    header = re.sub(r"/\*.*?\*/", "", header_text(project), flags=re.S)
    declared = _capi._SIGNATURES
    functions = re.findall(r"HORING_API\s+horingResult_t\s+(horing\w+)\(([^)]*)\)", header)
    assert len(functions) > 45
    for name, parameters in functions:
        count = 0 if parameters.strip() == "void" else parameters.count(",") + 1
        assert name in declared, f"{name} is not declared"
        assert len(declared[name]) == count, f"{name} has {count} parameters"


def test_numbers_are_the_header_s(project):
    header = header_text(project)

    def value(name):
        return int(re.search(rf"\b{name} = (\w+)", header).group(1), 0)

    names = {"float8_e4m3": "Float8e4m3", "float8_e5m2": "Float8e5m2"}
    for each in horing.DType:
        assert value("horing" + names.get(each.name, each.name.capitalize())) == each
    ops = {"BAND": "BitAnd", "BOR": "BitOr", "BXOR": "BitXor"}
    for each in horing.Op:
        assert value("horing" + ops.get(each.name, each.name.capitalize())) == each
    for kind, name in ((horing.CudaError, "UnhandledCudaError"), (horing.SystemCallError, "SystemError"),
                       (horing.InternalError, "InternalError"), (horing.InvalidArgumentError, "InvalidArgument"),
                       (horing.InvalidUsageError, "InvalidUsage"), (horing.RemoteError, "RemoteError"),
                       (horing.TimeoutError, "Timeout")):
        assert value("horing" + name) == kind.code


def test_neither_numpy_nor_torch_is_imported():
    import subprocess

    text = "import sys, horing; print(sorted({'numpy', 'torch'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", text], capture_output=True, text=True).stdout.strip() == "[]"


def test_every_public_name_has_a_docstring():
    for name in horing.__all__:
        assert getattr(horing, name).__doc__, name
    for kind in (horing.Communicator, horing.Stream, horing.Memory):
        for name in dir(kind):
            if not name.startswith("_") and callable(getattr(kind, name)) and name in vars(kind):
                assert getattr(kind, name).__doc__ or name == "close", f"{kind.__name__}.{name}"


def test_a_library_that_is_not_there():
    import subprocess

    run = subprocess.run([sys.executable, "-c", "import horing"], capture_output=True, text=True,
                         env={"HORING_LIBRARY": "/nowhere/libhoring.so", "PYTHONPATH": str(Path(horing.__file__).parents[1])})
    assert "HORING_LIBRARY names it" in run.stderr and "ImportError" in run.stderr


def test_the_wheel_has_the_library_and_every_program_as_a_command():
    distribution = installed()
    files = [str(each) for each in distribution.files or []]
    if f"horing/lib/{_library.SONAME}" not in files:
        pytest.skip("the package is not installed from a wheel")
    assert "horing/py.typed" in files
    programs = {Path(each).name for each in files if each.startswith("horing/bin/")}
    commands = {each.name for each in distribution.entry_points if each.group == "console_scripts"}
    assert programs == commands
    for name in programs:
        assert _programs.find(name)
