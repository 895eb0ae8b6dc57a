"""Which OpenCL drivers are loaded, which device comes first, and what a damaged cache of kernels does: nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from labkit import offload
from labkit.offload import cache, drivers

DEBIANS = Path("/etc/OpenCL/vendors/pocl.icd")

#: Compiles and runs a kernel, with a local size of its own so that it has a file of its own.
KERNEL = """
import numpy as np, pyopencl as cl, sys
from labkit.offload import Engine
engine = Engine()
program = engine.build("kernel void triple(global int *x) { x[get_global_id(0)] *= 3; }")
x = engine.upload(np.arange(10, dtype=np.int32))
engine.run(cl.Kernel(program, "triple"), (10,), x, local=(5,))
print("sum", engine.download(x, np.empty(10, np.int32)).sum())
"""


def python(code, *words, **environment):
    """Run code in a fresh process, none of whose settings come from this one."""
    env = {k: v for k, v in os.environ.items() if k not in ("POCL_CACHE_DIR", "OCL_ICD_VENDORS", cache.SOUND)}
    env.pop("LABKIT_OPENCL_GIVEN", None)
    command = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**env, **environment}, timeout=120)


def at_home(place):
    return (
        f"from labkit.offload import drivers; from pathlib import Path; drivers.home = lambda: Path({str(place)!r})\n"
    )


@pytest.fixture
def home(tmp_path):
    """Code that puts the lab's folder for OpenCL under `tmp_path`, to run before other code."""
    return at_home(tmp_path)


# -- the list ------------------------------------------------------------------------------


@pytest.mark.opencl
def test_the_list_is_the_same_in_every_process_and_pips_pocl_is_first():
    listed = "[(d.number, d.platform, d.name, d.kind, d.version, d.compute_units, d.owner) for d in devices()]"
    code = f"from labkit.offload import devices; print({listed})"
    first, second = python(code), python(code)
    here = eval(listed, {"devices": offload.devices})  # the same words in this process
    assert first.stdout == second.stdout == f"{here}\n"
    if drivers.bundled():
        assert offload.devices()[0].owner == "pip"
    assert [d.number for d in offload.devices()] == list(range(len(offload.devices())))


def test_pocl_is_preferred_by_name_and_owner_not_by_the_order_of_drivers():
    from labkit.offload.devices import _rank

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
        assert sorted(turned, key=_rank)[:3] == rows[:3]
        assert sorted(turned, key=_rank) == sorted(rows, key=_rank)


@pytest.mark.opencl
def test_a_device_is_chosen_by_part_of_a_name_or_by_kind():
    device = offload.devices()[0]
    assert offload.choose() == device
    assert offload.choose(device.name[2:6].upper()) == device
    assert offload.choose(device.platform) == device
    assert offload.choose(kind=device.kind) == device
    assert offload.choose(device.name, device.kind).opencl.name.strip() == device.name


@pytest.mark.opencl
def test_a_choice_that_nothing_fits_lists_what_there_is():
    with pytest.raises(ValueError, match=r"no OpenCL device with name 'Alveo'; there are: 0: .*cpu") as told:
        offload.choose("Alveo")
    assert "\n" not in str(told.value)
    with pytest.raises(ValueError, match="kind is 'fpga'; allowed: cpu, gpu, accelerator, custom"):
        offload.choose(kind="fpga")


def test_no_driver_at_all_is_one_sentence_with_a_remedy(home, tmp_path):
    (tmp_path / "pyopencl.py").write_text("raise ImportError('no pyopencl here')")
    done = python(home + "from labkit.offload import choose; choose()", PYTHONPATH=str(tmp_path))
    last = done.stderr.splitlines()[-1]
    assert re.search(r"NoDevice: pyopencl cannot be imported here \(no pyopencl here\); .*install", last), done.stderr


def test_the_names_on_offer_are_functions_whatever_was_imported_before():
    code = "import labkit.offload.devices, labkit.offload as o; assert callable(o.devices), o.devices"
    assert python(code).returncode == 0


# -- drivers beside TensorFlow ---------------------------------------------------------------


@pytest.mark.opencl
def test_tensorflow_and_opencl_live_in_one_process_in_either_order(home):
    """Debian's PoCL, where it is installed, would kill it."""
    last = "import tensorflow as tf; print(tf.reduce_sum(tf.ones(3)).numpy())\n"
    codes = [last + home + KERNEL, home + KERNEL + last]
    both = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for code in codes
    ]
    said = [one.communicate() for one in both]
    assert [out for out, _ in said] == ["3.0\nsum 135\n", "sum 135\n3.0\n"], said


def test_a_driver_that_links_llvm_is_known_by_what_it_links(tmp_path):
    if not DEBIANS.is_file():
        (tmp_path / "gone.icd").write_text("/no/such/libpocl.so")
        assert drivers.clashes(tmp_path / "gone.icd"), "what cannot be looked into is not loaded"
        return
    assert drivers.clashes(DEBIANS)
    (tmp_path / "fine.icd").write_text(sys.executable)
    assert not drivers.clashes(tmp_path / "fine.icd")


@pytest.mark.opencl
def test_a_process_without_tensorflow_may_load_every_driver_also_below_one_that_may_not(home):
    code = home + "import sys; drivers.prepare(alone=sys.argv[1] == 'alone')\n"
    code += "from labkit.offload import devices; print(sorted({d.owner for d in devices()}))\n"
    shared, alone = python(code, "shared"), python(code, "alone")
    below = home + "import subprocess, sys; drivers.prepare()\n"
    below += f"sys.exit(subprocess.run([sys.executable, '-c', {code!r}, 'alone']).returncode)"
    assert python(below).stdout == alone.stdout
    if DEBIANS.is_file() and drivers.bundled():
        assert (shared.stdout, alone.stdout) == ("['pip']\n", "['pip', 'system']\n"), alone.stderr


def test_a_list_of_drivers_that_the_reader_set_is_respected(home, tmp_path):
    vendors = tmp_path / "mine"
    vendors.mkdir()
    (vendors / "own.icd").write_text(sys.executable)  # links no LLVM
    code = home + "drivers.prepare()\nimport os\nprint(*sorted(os.listdir(os.environ['OCL_ICD_VENDORS'])))"
    done = python(code, OCL_ICD_VENDORS=str(vendors))
    assert done.stdout.split() == ["own.icd"], done.stderr
    done = python(code, OCL_ICD_VENDORS=str(vendors / "own.icd"))
    assert done.stdout.split() == ["own.icd"], done.stderr


def test_conda_s_drivers_are_found_too_and_pips_pocl_by_a_loader_that_is_not_pips(home, tmp_path):
    """conda's loader knows the folder of its environment only, and nothing of a library beside pyopencl."""
    vendors = tmp_path / "etc" / "OpenCL" / "vendors"
    vendors.mkdir(parents=True)
    (vendors / "conda.icd").write_text(sys.executable)  # links no LLVM
    (tmp_path / "pyopencl" / ".libs").mkdir(parents=True)
    (tmp_path / "pyopencl" / "__init__.py").write_text("")
    (tmp_path / "pyopencl" / ".libs" / "libpocl-0.so").write_text("")
    code = home + f"import os, sys; sys.prefix = {str(tmp_path)!r}\n"
    code += "for path in drivers._vendors(alone=False).iterdir(): print(path.name, path.read_text())"
    done = python(code, PYTHONPATH=str(tmp_path))
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines() if line)
    assert said["conda.icd"] == sys.executable, done.stderr
    assert said["labkit-pocl.icd"].endswith("pyopencl/.libs/libpocl-0.so")
    (tmp_path / "pyopencl" / ".libs" / "libOpenCL-0.so").write_text("")
    assert "labkit-pocl.icd" not in python(code, PYTHONPATH=str(tmp_path)).stdout, "pip's own loader knows it"


# -- a processor that pip's PoCL does not know ------------------------------------------------


def test_a_processor_gets_the_best_name_whose_instructions_it_has():
    """The names are tried from the best; each needs at least what the next one needs."""
    for (_, better), (_, worse) in zip(drivers.MODELS, drivers.MODELS[1:], strict=False):
        assert worse < better
    assert drivers.MODELS[-1] == ("x86-64", set())


@pytest.mark.opencl
def test_the_name_that_pocl_compiles_for_is_one_this_processor_can_run():
    name = drivers.name_processor()
    needs = dict(drivers.MODELS)
    if name in needs and sys.platform == "linux":
        assert needs[name] <= drivers._flags()
    if drivers.bundled() and sys.platform == "linux":
        assert name != "generic"
        assert name in offload.choose(kind="cpu").version


def test_only_a_processor_called_generic_is_renamed_and_only_in_memory():
    if drivers.bundled() is None:
        assert drivers.name_processor() is None
        return
    before = drivers.bundled().stat()
    code = """
from labkit.offload import drivers
import ctypes
ask = ctypes.CDLL(str(drivers.bundled())).pocl_get_llvm_cpu_name
ask.restype = ctypes.c_char_p
said = ask().decode()
drivers._flags = lambda: {"sse4_2", "ssse3", "popcnt", "cx16", "avx2"}
now = drivers.name_processor()
assert now == ("nehalem" if said == "generic" else said), (said, now)
drivers._answer(ask, "generic")
drivers._flags = set
assert drivers.name_processor() == "x86-64"
drivers._flags = lambda: {"avx512f"}
assert drivers.name_processor() == "x86-64", "a name that was given stays"
"""
    done = python(code)
    assert done.returncode == 0, done.stderr
    after = drivers.bundled().stat()
    assert (after.st_mtime_ns, after.st_size) == (before.st_mtime_ns, before.st_size)


# -- compiled kernels --------------------------------------------------------------------------

DAMAGE = {
    "cut": lambda data: data[: len(data) // 2],
    "cut by one": lambda data: data[:-1],
    "empty": lambda data: b"",
    "zeroed": lambda data: bytes(len(data)),
    "zeroed in the middle": lambda data: data[: len(data) // 4] + bytes(len(data) // 2) + data[3 * len(data) // 4 :],
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A folder with compiled kernels and their checksums, as one process leaves it."""
    place = tmp_path_factory.mktemp("filled")
    code = (
        f"from labkit.offload import drivers; from pathlib import Path; drivers.home = lambda: Path({str(place)!r})\n"
    )
    done = python(code + KERNEL)
    assert done.stdout == "sum 135\n", done.stderr
    return place


@pytest.mark.opencl
@pytest.mark.parametrize(
    ("suffix", "how"),
    [(".so", "cut"), (".so", "empty"), (".so", "zeroed in the middle"), (".bc", "cut by one"), (".bc", "zeroed")],
)
def test_a_damaged_kernel_is_compiled_again(filled, home, tmp_path, suffix, how):
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    for path in (tmp_path / "kernels").rglob(f"*{suffix}"):
        path.write_bytes(DAMAGE[how](path.read_bytes()))
    done = python(home + KERNEL)
    assert (done.returncode, done.stdout) == (0, "sum 135\n"), done.stderr
    assert "damaged" in done.stderr
    if how == "cut":
        again = python(home + KERNEL)
        assert (again.stdout, again.stderr) == ("sum 135\n", ""), "wiped once, sound afterwards"


@pytest.mark.opencl
def test_without_the_check_a_damaged_kernel_kills(filled, home, tmp_path):
    """The reason for all this; where it stops being true, the check may go."""
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    for path in (tmp_path / "kernels").rglob("*.so"):
        path.write_bytes(path.read_bytes()[:4096])
    folder = str(tmp_path / "kernels")
    assert python(home + KERNEL, POCL_CACHE_DIR=folder, **{cache.SOUND: folder}).returncode != 0


@pytest.mark.opencl
def test_kernels_of_a_process_that_was_killed_are_tried_by_a_child_and_kept(filled, home, tmp_path):
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    (tmp_path / "kernels.sha256").unlink()
    times = {p: p.stat().st_mtime_ns for p in (tmp_path / "kernels").rglob("*.so")}
    done = python(home + KERNEL)
    assert (done.stdout, done.stderr) == ("sum 135\n", "")
    assert times.items() <= {p: p.stat().st_mtime_ns for p in (tmp_path / "kernels").rglob("*.so")}.items()
    assert (tmp_path / "kernels.sha256").is_file()


@pytest.mark.opencl
def test_a_file_that_no_checksum_covers_and_that_crashes_its_reader_is_found_by_the_child(filled, home, tmp_path):
    """Headers are whole, the content is not: only loading shows it."""
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    (path, *_) = (tmp_path / "kernels").rglob("triple.so")
    data = bytearray(path.read_bytes())
    data[64:1024] = bytes(range(256)) * 3 + bytes(192)
    path.write_bytes(data)
    (tmp_path / "kernels.sha256").unlink()
    done = python(home + KERNEL)
    assert (done.returncode, done.stdout) == (0, "sum 135\n"), done.stderr
    assert "damaged" in done.stderr


@pytest.mark.opencl
def test_two_processes_may_begin_with_one_empty_folder(home):
    code = home + KERNEL
    both = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert [one.communicate()[0] for one in both] == ["sum 135\n"] * 3


@pytest.mark.opencl
def test_a_folder_that_nobody_can_write_to_is_replaced_by_a_temporary_one_with_a_warning(home, tmp_path):
    (tmp_path / "kernels").write_text("a file, no folder")
    done = python(home + KERNEL + "import os; print(os.environ['POCL_CACHE_DIR'])")
    said, place = done.stdout.splitlines()
    assert said == "sum 135"
    assert "cannot be written to" in done.stderr
    assert not Path(place).exists(), "it goes with the process"


@pytest.mark.opencl
def test_a_machine_where_nothing_can_be_written_works_from_temporary_folders(tmp_path):
    (tmp_path / "file").write_text("")
    code = "from labkit.common import shipped; shipped.checkout = lambda: None\n" + KERNEL
    code += "from labkit.offload import try_kernel\nprint(try_kernel('kernel void f() {}', 'f', [], 1))\n"
    code += "import os; print(os.environ['POCL_CACHE_DIR'])"
    done = python(code, XDG_CACHE_HOME=str(tmp_path / "file"))
    said, tried, place = done.stdout.splitlines()
    assert (said, tried) == ("sum 135", "f ran: nothing to write to"), done.stderr
    assert done.stderr.count("cannot be written to") == 1
    assert not Path(place).parent.exists()


@pytest.mark.opencl
def test_a_folder_of_the_readers_is_used_and_never_emptied(home, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "mine.bc").write_bytes(b"no bitcode")
    done = python(home + KERNEL, POCL_CACHE_DIR=str(own))
    assert done.stdout == "sum 135\n", done.stderr
    assert (own / "mine.bc").read_bytes() == b"no bitcode"
    assert any(own.rglob("triple.so"))


@pytest.mark.opencl
def test_a_driver_that_crashes_everywhere_is_a_sentence_and_empties_nothing(filled, home, tmp_path):
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    (tmp_path / "pyopencl.py").write_text("import os; os.kill(os.getpid(), 11)")
    before = sorted(tmp_path.rglob("*.so"))
    done = python(home + "drivers.prepare()", PYTHONPATH=str(tmp_path))
    last = done.stderr.splitlines()[-1]
    assert re.search("RuntimeError: OpenCL cannot be used here: a child that tried it was killed by signal 11;", last)
    assert sorted(tmp_path.rglob("*.so")) == before


@pytest.mark.opencl
def test_length_of_bitcode_and_libraries_is_read_from_their_headers(filled):
    for path in [*filled.rglob("*.so"), *filled.rglob("*.bc")]:
        assert cache.whole(path)
        data = path.read_bytes()
        for length in {0, 3, 4, 63, len(data) // 2 // 4 * 4, len(data) - 4}:
            path.with_name("cut" + path.suffix).write_bytes(data[:length])
            assert not cache.whole(path.with_name("cut" + path.suffix)), (path.name, length)
        path.with_name("cut" + path.suffix).unlink()


# -- forks -------------------------------------------------------------------------------------


@pytest.mark.opencl
def test_a_forked_child_gets_a_sentence_instead_of_a_hang(home):
    code = (
        home
        + KERNEL
        + """
import json, os, signal
from labkit.offload import Pool, devices
pool = Pool(1)
tries = {
    "use": lambda: engine.upload(np.zeros(1)), "new": Engine, "list": devices, "finish": engine.finish,
    "trace": engine.trace, "kernel": lambda: engine.kernel("normalize_clip"),
    "pool": lambda: pool.engine().__enter__(),
}
read, write = os.pipe()
if os.fork() == 0:
    signal.alarm(30)
    said = {}
    for name, call in tries.items():
        try:
            call()
        except RuntimeError as error:
            said[name] = str(error)
    os.write(write, json.dumps(said).encode())
    os._exit(0)
os.close(write)
print(os.read(read, 100000).decode())
print(engine.download(x, np.empty(10, np.int32)).sum())
"""
    )
    done = python(code)
    _, told, total = done.stdout.splitlines()
    told = json.loads(told)
    assert set(told) == {"use", "new", "list", "finish", "trace", "kernel", "pool"}, done.stderr
    assert all("was forked" in sentence and "spawn" in sentence for sentence in told.values())
    assert total == "135", "the parent works on"
