"""What docs/cluster.md tells to start on real machines starts here, and its files hold together."""

from __future__ import annotations

import configparser
import json
import os
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from waiting import until

import labextras.cluster
import labkit
from labextras.cluster import cluster_network

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "cluster.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)


def blocks(language, *words):
    """The blocks of the page that hold all of these words."""
    return [text for kind, text in BLOCKS if kind == language and all(word in text for word in words)]


@pytest.fixture
def theirs(tmp_path):
    """Addresses of a dispatcher and two workers, made of the two programs of the page; and what starts one again."""
    (dispatcher,), (worker,) = blocks("python", "DispatchServer"), blocks("python", "WorkerServer")
    ports = cluster_network.free_ports(3)
    (tmp_path / "journal").mkdir()
    assert "/var/lib/tfdata" in dispatcher
    dispatcher = dispatcher.replace("/var/lib/tfdata", str(tmp_path / "journal")).replace("5050", str(ports[0]))
    (tmp_path / "dispatcher.py").write_text(dispatcher)
    (tmp_path / "worker.py").write_text(worker)
    addresses = [f"localhost:{port}" for port in ports]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2"}
    with ExitStack() as stack:

        def start(number):
            words = ["worker.py", addresses[0], addresses[number]] if number else ["dispatcher.py"]
            child = subprocess.Popen([sys.executable, *words], cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL)
            stack.callback(child.wait)
            stack.callback(child.kill)
            return child

        children = [start(number) for number in range(3)]
        until(lambda: all(map(cluster_network.listens, addresses)), "the servers of the page to listen")
        yield addresses, children, start


@pytest.mark.long
def test_the_two_programs_serve_and_a_worker_may_be_started_again(theirs):
    import tensorflow as tf

    addresses, children, start = theirs
    no_more = tf.data.Options()
    no_more.experimental_optimization.inject_prefetch = False  # where nothing is compressed, it would hold ten
    with labextras.cluster.data_service(addresses) as c:
        for restarted in (False, True):
            data = tf.data.Dataset.range(300).map(lambda number: labkit.storage.delayed(number, 4))
            data = data.with_options(no_more)
            seen = []
            for number in c.elements(data.apply(c.distribute("dynamic", compression=None)), silence_s=60):
                seen.append(int(number))
                if restarted and len(seen) == 90:
                    children[1].kill()
                    children[1].wait()
                    start(1)
            assert len(seen) == len(set(seen))
            assert len(seen) >= 300 - 3 * restarted, "what was in hand is lost"


def test_the_unit_and_the_manifest_name_the_same_programs_and_ports():
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    (text,) = blocks("ini", "ExecStart")
    unit.read_string(text)
    assert unit["Service"]["Restart"] == "always"
    assert unit["Service"]["ExecStart"].endswith("worker.py dispatcher.example:5050 %H:5051")
    service, workers = yaml.safe_load_all(blocks("yaml", "StatefulSet")[0])
    spec = workers["spec"]
    assert service["metadata"]["name"] == spec["serviceName"]
    assert service["spec"]["clusterIP"] == "None", "each pod has a name of its own"
    assert service["spec"]["selector"] == spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    (container,) = spec["template"]["spec"]["containers"]
    ports = {one["port"] for one in service["spec"]["ports"]}, {one["containerPort"] for one in container["ports"]}
    assert ports == ({5051}, {5051})
    assert container["command"][2].endswith(f"$POD.{spec['serviceName']}:5051")


def test_the_variable_of_a_training_is_what_labkit_sets():
    (text,) = blocks("sh", "TF_CONFIG")
    config = json.loads(re.search(r"TF_CONFIG='(.*)'", text)[1])
    assert config["task"] == {"type": "worker", "index": 1}
    assert len(config["cluster"]["worker"]) == 2


def test_the_version_in_the_container_is_one_that_the_lab_supports():
    (text,) = blocks("dockerfile", "tensorflow-cpu")
    (found,) = re.findall(r"tensorflow-cpu==([\d.]+)", text)
    assert f"tensorflow-cpu=={found}" in (Path(__file__).resolve().parents[3] / "constraints.txt").read_text()
