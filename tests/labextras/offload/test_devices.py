"""Which OpenCL drivers are loaded, which device comes first, and where compiled kernels are kept."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from labextras import offload
from labextras.offload.opencl import drivers
from labextras.offload.opencl.devices import rank

DEBIANS = Path("/etc/OpenCL/vendors/pocl.icd")

#: Compiles and runs a kernel, with a local size of its own so that it has a file of its own.
KERNEL = """
import numpy as np, pyopencl as cl, sys
from labextras.offload import Engine
engine = Engine()
program = engine.build("kernel void triple(global int *x) { x[get_global_id(0)] *= 3; }")
x = engine.upload(np.arange(10, dtype=np.int32))
engine.run(cl.Kernel(program, "triple"), (10,), x, local=(5,))
print("sum", engine.download(x, np.empty(10, np.int32)).sum())
"""


def python(code, *words, **environment):
    """Run code in a fresh process, none of whose settings come from this one."""
    ours = ("POCL_CACHE_DIR", "OCL_ICD_VENDORS", "LABKIT_OPENCL_GIVEN", "LABKIT_OPENCL_HOME")
    env = {k: v for k, v in os.environ.items() if k not in ours}
    command = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**env, **environment}, timeout=120)


def at_home(place):
    return (
        f"import os; os.environ['LABKIT_OPENCL_HOME'] = {str(place)!r}; from labextras.offload.opencl import drivers\n"
    )


@pytest.fixture
def home(tmp_path):
    """Code that puts the lab's folder for OpenCL under `tmp_path`, to run before other code."""
    return at_home(tmp_path)


# -- the list ------------------------------------------------------------------------------


def test_pocl_is_preferred_by_name_and_owner_not_by_the_order_of_drivers():
    pocl = "Portable Computing Language"
    rows = [
        (pocl, "cpu of pip", "cpu", "pip", None),
        (pocl, "cpu of conda", "cpu", "conda", None),
        (pocl, "cpu of Debian", "cpu", "system", None),
        ("Intel(R) OpenCL", "Xeon", "cpu", "system", None),
        ("NVIDIA CUDA", "H100", "gpu", "system", None),
        ("Intel(R) FPGA Emulation Platform", "emulator", "accelerator", "pip", None),
    ]
    for turned in (rows, rows[::-1], rows[3:] + rows[:3]):
        assert sorted(turned, key=rank)[:3] == rows[:3]
        assert sorted(turned, key=rank) == sorted(rows, key=rank)


@pytest.mark.opencl
def test_a_device_is_chosen_by_part_of_a_name():
    device = offload.devices()[0]
    assert offload.choose() == device
    assert offload.choose(device.name[2:6].upper()) == device
    assert offload.choose(device.platform) == device
    assert offload.choose(device.name).opencl.name.strip() == device.name


@pytest.mark.opencl
def test_a_choice_that_nothing_fits_lists_what_there_is():
    with pytest.raises(ValueError, match=r"no OpenCL device with name 'Alveo'; there are: 0: .*cpu") as caught:
        offload.choose("Alveo")
    assert "\n" not in str(caught.value)


@pytest.mark.opencl
def test_the_environment_chooses_where_the_caller_does_not(monkeypatch):
    device = offload.devices()[0]
    monkeypatch.setenv("LABKIT_OPENCL_DEVICE", "Alveo")
    with pytest.raises(ValueError, match="Alveo"):
        offload.choose()
    assert offload.choose(device.name) == device
    monkeypatch.setenv("LABKIT_OPENCL_DEVICE", device.platform)
    assert offload.choose() == device


def test_no_driver_at_all_is_one_sentence_with_a_remedy(home, tmp_path):
    (tmp_path / "pyopencl.py").write_text("raise ImportError('no pyopencl here')")
    done = python(home + "from labextras.offload import choose; choose()", PYTHONPATH=str(tmp_path))
    last = done.stderr.splitlines()[-1]
    assert re.search(r"NoDevice: pyopencl cannot be imported here \(no pyopencl here\); .*install", last), done.stderr


# -- drivers beside TensorFlow ---------------------------------------------------------------


@pytest.mark.long
@pytest.mark.opencl
def test_tensorflow_and_opencl_live_in_one_process_in_either_order(home):
    """Debian's PoCL, where it is installed, would kill it."""
    last = "import tensorflow as tf; print(tf.reduce_sum(tf.ones(3)).numpy())\n"
    codes = [last + home + KERNEL, home + KERNEL + last]
    both = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for code in codes
    ]
    outputs = [one.communicate() for one in both]
    assert [out for out, _ in outputs] == ["3.0\nsum 135\n", "sum 135\n3.0\n"], outputs


def test_a_driver_that_links_llvm_is_known_by_what_it_links(tmp_path):
    if not DEBIANS.is_file():
        (tmp_path / "gone.icd").write_text("/no/such/libpocl.so")
        assert drivers.clashes(tmp_path / "gone.icd"), "what cannot be looked into is not loaded"
        return
    assert drivers.clashes(DEBIANS)
    (tmp_path / "fine.icd").write_text(sys.executable)
    assert not drivers.clashes(tmp_path / "fine.icd")


@pytest.mark.long
@pytest.mark.opencl
def test_a_process_without_tensorflow_may_load_every_driver_also_below_one_that_may_not(home):
    code = home + "import sys; drivers.prepare(alone=sys.argv[1] == 'alone')\n"
    code += "from labextras.offload import devices; print(sorted({d.owner for d in devices()}))\n"
    shared, alone = python(code, "shared"), python(code, "alone")
    below = home + "import subprocess, sys; drivers.prepare()\n"
    below += f"sys.exit(subprocess.run([sys.executable, '-c', {code!r}, 'alone']).returncode)"
    assert python(below).stdout == alone.stdout
    if DEBIANS.is_file() and drivers.pocl():
        assert (shared.stdout, alone.stdout) == ("['pip']\n", "['pip', 'system']\n"), alone.stderr


def listed(place, path, prefix="", **environment):
    """Return what a process at home in `place` lists as drivers, with modules of `path` first: name to library."""
    code = at_home(place) + f"from pathlib import Path; import sys; sys.prefix = {str(prefix)!r} or sys.prefix\n"
    code += "drivers.prepare()\n"
    code += "for path in Path(os.environ['OCL_ICD_VENDORS']).iterdir(): print(path.name, path.read_text())"
    done = python(code, PYTHONPATH=os.pathsep.join([str(path), os.environ.get("PYTHONPATH", "")]), **environment)
    assert done.returncode == 0, done.stderr
    return dict(line.split(" ", 1) for line in done.stdout.splitlines() if line)


def test_a_list_of_drivers_that_the_reader_set_is_respected(tmp_path):
    vendors = tmp_path / "mine"
    vendors.mkdir()
    (vendors / "own.icd").write_text(sys.executable)  # links no LLVM
    for given in (vendors, vendors / "own.icd"):
        assert [*listed(tmp_path, tmp_path, OCL_ICD_VENDORS=str(given))] == ["own.icd"]


def test_conda_s_drivers_are_found_too_and_pips_pocl_by_a_loader_that_is_not_pips(tmp_path):
    """conda's loader knows the folder of its environment only, and nothing of a library beside pyopencl."""
    vendors = tmp_path / "etc" / "OpenCL" / "vendors"
    vendors.mkdir(parents=True)
    (vendors / "conda.icd").write_text(sys.executable)  # links no LLVM
    (tmp_path / "pyopencl" / ".libs").mkdir(parents=True)
    (tmp_path / "pyopencl" / "__init__.py").write_text("")
    (tmp_path / "pyopencl" / ".libs" / "libpocl-0.so").write_text("")
    libraries = listed(tmp_path, tmp_path, tmp_path)
    assert libraries["conda.icd"] == sys.executable
    assert libraries["labkit-pocl.icd"].endswith("pyopencl/.libs/libpocl-0.so")
    (tmp_path / "pyopencl" / ".libs" / "libOpenCL-0.so").write_text("")
    assert "labkit-pocl.icd" not in listed(tmp_path, tmp_path, tmp_path), "pip's own loader knows it"


# -- a processor that pip's PoCL does not know ------------------------------------------------

YOUNG = "OpenCL 3.0 PoCL HSTR: pthread-x86_64-unknown-linux-gnu-generic"


def test_pips_pocl_is_not_used_on_a_processor_that_it_cannot_compile_for():
    assert not drivers.can_compile("pip", YOUNG)
    assert drivers.can_compile("pip", YOUNG.replace("generic", "znver3"))
    assert drivers.can_compile("conda", YOUNG), "a newer PoCL compiles for every processor"


def test_pips_pocl_is_not_used_where_its_kernels_cannot_be_linked(tmp_path):
    """In a slim container: without ld its first kernel would end the process of the notebook."""
    code = """
from labextras import offload
from labextras.offload.opencl import drivers
assert drivers.pocl() is not None
print([device.owner for device in offload.devices()], drivers.remedy())"""
    env = {**os.environ, "PATH": str(tmp_path), "OCL_ICD_VENDORS": str(tmp_path)}
    told = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout
    assert told.startswith("[] "), "no device"
    assert "ld, which is not on PATH: apt install binutils" in told


def test_intels_runtime_is_found_where_pip_put_it_unless_the_reader_chose_the_drivers(tmp_path):
    info = tmp_path / "site" / "intel_opencl_rt-1.0.dist-info"
    info.mkdir(parents=True)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libintelocl.so").write_text("")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: intel-opencl-rt\nVersion: 1.0\n")
    (info / "RECORD").write_text("../lib/libintelocl.so,,\n")
    assert str(tmp_path / "lib" / "libintelocl.so") in listed(tmp_path, tmp_path / "site").values()
    (tmp_path / "mine").mkdir()
    assert not listed(tmp_path, tmp_path / "site", OCL_ICD_VENDORS=str(tmp_path / "mine"))


def test_the_remedy_names_a_package_that_this_project_offers(root):
    named = re.search(r"pip install ((?:[\w-]+ )+)brings", drivers.remedy())
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    assert "conda" in drivers.remedy() if named is None else all(f'"{one}>=' in text for one in named[1].split())


# -- compiled kernels --------------------------------------------------------------------------


def kept_by_pocl():
    return "Portable" in offload.choose().platform


@pytest.mark.long
@pytest.mark.opencl
def test_kernels_are_kept_for_the_next_process_in_a_folder_of_their_driver_until_they_are_deleted(home, tmp_path):
    for _ in range(2):
        assert python(home + KERNEL).stdout == "sum 135\n"
    if not kept_by_pocl():
        pytest.skip("only PoCL keeps compiled kernels here")
    place = tmp_path / "kernels"
    made = {path: path.stat().st_mtime_ns for path in place.rglob("triple.so")}
    assert made
    assert python(home + KERNEL).stdout == "sum 135\n"
    assert made == {path: path.stat().st_mtime_ns for path in place.rglob("triple.so")}, "compiled once"
    done = python(home + "print(drivers.empty_kernel_cache() > 0, drivers.empty_kernel_cache())")
    assert done.stdout == "True 0\n", done.stderr
    assert not place.exists()
    assert python(home + KERNEL).stdout == "sum 135\n"


@pytest.mark.long
@pytest.mark.opencl
def test_a_damaged_kernel_is_gone_when_the_cache_is_emptied(home, tmp_path):
    """PoCL trusts what it finds: a file that was cut may kill its reader, and the doctor is the cure."""
    assert python(home + KERNEL).stdout == "sum 135\n"
    for path in (tmp_path / "kernels").rglob("*.so"):
        path.write_bytes(path.read_bytes()[:4096])
    command = [sys.executable, "-m", "labkit.cli", "empty-kernel-cache"]
    env = {**os.environ, "LABKIT_OPENCL_HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"compiled kernels .*deleted", done.stdout)
    assert python(home + KERNEL).stdout == "sum 135\n"


# -- forks -------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.opencl
def test_a_forked_child_gets_a_sentence_instead_of_a_hang(home):
    code = (
        home
        + KERNEL
        + """
import json, os, signal
from labextras.offload import Decoder, Preprocessor, devices
decoder, preprocessor = Decoder(engine), Preprocessor(engine, size=8)
preprocessor.turn.acquire()  # as where another thread is at work during the fork
tries = {
    "decode": lambda: decoder.decode([]), "preprocess": lambda: preprocessor([]), "new": Engine, "list": devices,
    "use": lambda: engine.upload(np.zeros(1)), "finish": engine.finish, "spans": engine.spans,
}
read, write = os.pipe()
if os.fork() == 0:
    signal.alarm(30)
    answers = {}
    for name, call in tries.items():
        try:
            call()
        except RuntimeError as error:
            answers[name] = str(error)
    os.write(write, json.dumps(answers).encode())
    os._exit(0)
os.close(write)
print(os.read(read, 100000).decode())
print(engine.download(x, np.empty(10, np.int32)).sum())
"""
    )
    done = python(code)
    _, refusals, total = done.stdout.splitlines()
    refusals = json.loads(refusals)
    assert set(refusals) == {"decode", "preprocess", "use", "new", "list", "finish", "spans"}, done.stderr
    assert all("was forked" in sentence and "spawn" in sentence for sentence in refusals.values())
    assert total == "135", "the parent works on"
