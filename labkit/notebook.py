"""What a notebook does first: it quietens TensorFlow and says which machine it runs on."""

from __future__ import annotations

import os
import platform
import sys
import warnings
from pathlib import Path

from labkit.common import shipped
from labkit.common.environment import cores, importing, prepare
from labkit.common.other_programs import BUSY, Meter, sentence
from labkit.common.quiet import muted


def setup() -> None:
    """Quieten TensorFlow and print one line about this machine, and one more if other programs keep it busy.

    Call it before ``import tensorflow``. A variable that the reader has set is left alone.

    Raises
    ------
    ImportError
        If TensorFlow is not installed, the sentence says how to get it; or if it is, and cannot be imported.
    """
    prepare()
    # With every dataset that `fit` gets, Keras warns of an argument that the reader has not given.
    warnings.filterwarnings("ignore", "`shuffle=True` was passed", UserWarning)
    watch, colab = Meter(), "google.colab" in sys.modules
    try:
        with importing(), muted():  # without a GPU, TensorFlow reports errors of CUDA as it looks for one
            import tensorflow as tf

            gpus = tf.config.list_physical_devices("GPU")
            if colab:  # XLA logs its first compilation in a process, in red in Colab: let it log now, unseen
                tf.function(tf.negative, jit_compile=True)(1.0)
    except ImportError as error:
        if error.name != "tensorflow" or not isinstance(error, ModuleNotFoundError):
            raise ImportError(f"TensorFlow is installed here, but cannot be imported: {error}") from error
        remedy = "pip install tensorflow (Colab has it already)"
        raise ImportError(f"the lab needs TensorFlow, which is not installed here: {remedy}") from error
    from labkit.sources import photos

    where = "Colab" if colab else f"{platform.system()} {platform.machine()}"
    names = [tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name) for gpu in gpus]
    from labkit import __version__ as version

    versions = f"labkit {version} · Python {platform.python_version()} · TensorFlow {tf.__version__}"
    machine = f"{where}, {cores()} cores · {', '.join(names) if names else 'no GPU'}"
    print(f"{versions} · {machine}\ndata in {_short(photos.home())}")
    if (share := watch.share()) >= BUSY:
        print(f"note: {sentence(share, cores())}")


def _short(path: Path) -> str:
    """Return `path` as seen from the checkout or from the reader's home, where it lies inside one of them.

    In a container a user may have no home: then ``~`` stays as it is.
    """
    for base, sign in ((shipped.checkout(), ""), (Path(os.path.expanduser("~")), "~/")):
        if base and path.is_relative_to(base):
            return f"{sign}{path.relative_to(base)}"
    return str(path)
