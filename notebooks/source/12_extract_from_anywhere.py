# %% [markdown]
# # Extract from anywhere
#
# **You will** store the same photos in five ways, read each of them with tf.data, and compare what reading costs. Then you will read from an object store over HTTP with one connection and with eight.
#
# **You will learn** which source needs how much processor time, what each source is good for, how to shuffle it, and why a remote source needs many requests at the same time.
#
# **You need** notebooks 03 and 04. No GPU, no network: the object store runs on your own machine. About 50 minutes. Special words are in the [glossary](../docs/glossary.md).

# %% tags=["bootstrap", "nbval-ignore-output"]
import csv
import sqlite3
import tempfile
from pathlib import Path

import numpy as np
import pyarrow
import tensorflow as tf
from pyarrow import parquet
from labcourse import check, idea, predictions, try_it
from labextras.extract import extraction, object_store, source_check
from labkit import accelerators, damage, photos, pixels, plain

# %% [markdown]
# ## The idea
#
# A pipeline can begin anywhere. Only its first step knows where the bytes come from.

# %%
idea("12")

# %% [markdown]
# ## Predict
#
# So far, every photo was a file, or a record in a TFRecord file. At work, the bytes are often somewhere else: in a database, in a table of a data warehouse, in an object store. In this notebook you store 160 photos in five ways, and read them without decoding them.
#
# Reading costs processor time. The system has to find each file, open it, and copy its bytes. How much processor time does a photo from an SQLite database cost, compared with a photo from a separate file? Answer 1 if you expect the same, 2 if you expect twice as much. Replace the three dots by your number.

# %% tags=["nbval-ignore-output"]
predictions.commit("12.database", ..., unit="times")

# %% [markdown]
# ## Build
#
# Here are the photos, and a folder for all that you write:

# %%
album = photos.load()
album = album.take(min(160, len(album)))
folder = tempfile.TemporaryDirectory()
place = Path(folder.name)
jpegs = [Path(path).read_bytes() for path in album.paths]
print(len(jpegs), "photos,", f"{sum(map(len, jpegs)) / 1e6:.1f} MB")

# %% [markdown]
# **1. Files that are listed in a CSV.** A CSV is a text with one row in each line. `CsvDataset` needs the type of each column. A row is only a name and a label, so `map` reads the file itself:

# %%
listing = place / "photos.csv"
with listing.open("w", newline="") as file:
    csv.writer(file).writerows([("path", "label"), *zip(album.paths, album.labels)])


def read(path, label):
    return tf.io.read_file(path), label


rows = tf.data.experimental.CsvDataset(str(listing), [tf.string, tf.int64], header=True)
from_csv = rows.map(read)
print(source_check.csv(listing, path=str, label=int), "rows")

# %% [markdown]
# **2. A database.** SQLite keeps a whole database in one file, and Python brings it along. A query chooses rows and columns. `SqlDataset` runs the query in C++, without Python:

# %%
database = place / "photos.sqlite"
link = sqlite3.connect(database)
link.execute("create table photos (id integer primary key, jpeg blob, label integer)")
link.executemany("insert into photos (jpeg, label) values (?, ?)", zip(jpegs, album.labels.tolist()))
link.commit()
link.close()

query = "select jpeg, label from photos order by id"
from_sqlite = tf.data.experimental.SqlDataset("sqlite", str(database), query, (tf.string, tf.int64))
print(source_check.sqlite(database, query), "rows")

# %% [markdown]
# **3. Records of a fixed length.** The data set CIFAR-10 comes in this form: one byte for the label, then all red values, all green values, all blue values. Every record has the same length, so the reader can jump to any record. It needs pixels of one size; here they are 48×48:

# %%
small = pixels.of(album, progress=False)
planes = small.images.transpose(0, 3, 1, 2).reshape(len(album), -1)  # colour, row, column
binary = place / "photos.bin"
np.hstack([small.labels[:, None].astype(np.uint8), planes]).tofile(binary)


def split(record):
    values = tf.io.decode_raw(record, tf.uint8)
    image = tf.transpose(tf.reshape(values[1:], [3, 48, 48]), [1, 2, 0])  # row, column, colour
    return image, tf.cast(values[0], tf.int64)

# %%
length = 1 + 3 * 48 * 48
from_binary = tf.data.FixedLengthRecordDataset(str(binary), length).map(split)
image, label = next(iter(from_binary))
print(source_check.fixed_length(binary, length), "records; first as written:", np.array_equal(image, small.images[0]))

# %% [markdown]
# **4. Parquet, batch by batch.** Parquet stores a table column by column, in groups of rows. Data warehouses such as BigQuery deliver the same kind of batches (*Arrow record batches*). TensorFlow cannot read them, but Python can. Each step of a generator has a price, so our generator hands over 32 rows at a time:

# %%
columnar = place / "photos.parquet"
table = pyarrow.table({"jpeg": jpegs, "label": album.labels})
parquet.write_table(table, columnar, compression="none", row_group_size=32)


def batches():
    for batch in parquet.ParquetFile(columnar).iter_batches(32):
        yield batch["jpeg"].to_numpy(zero_copy_only=False), batch["label"].to_numpy()


signature = tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.int64)
from_parquet = tf.data.Dataset.from_generator(batches, output_signature=signature).unbatch()
print(parquet.ParquetFile(columnar).metadata.num_row_groups, "groups of rows")

# %% [markdown]
# **5. An object store.** A cloud keeps files as *objects*, which are read over HTTP by their names. Our server runs on this machine. It really sends the bytes, and it waits 30 ms before each answer; this delay is modelled. (The median of small requests to S3 is some tens of milliseconds, say AWS' best practices.)
#
# Each thread keeps a connection of its own. The name `"network"` tells labkit that this Python function waits for a network:

# %%
names = [f"photo-{number:03}.jpg" for number in range(len(album))]
bucket = object_store.ObjectStore(dict(zip(names, album.paths)), delay_ms=30)
import http.client
import threading

own = threading.local()


def get(name):
    if not hasattr(own, "link"):
        own.link = http.client.HTTPConnection(bucket.address, timeout=5)
    own.link.request("GET", f"/{name.decode()}")
    return own.link.getresponse().read()

# %%
def fetch(name, label):
    return tf.ensure_shape(tf.numpy_function(get, [name], tf.string, name="network"), []), label


objects = tf.data.Dataset.from_tensor_slices((names, album.labels))
from_http = objects.map(fetch, num_parallel_calls=8)
print(len(bucket.names), "objects, the first one is", bucket.names[0])

# %% [markdown]
# ## Run
#
# All five deliver the same photos. `extraction.compare` reads them in turn and adds up the processor time of all threads. The server is a process of its own, so its work is not counted:

# %% tags=["nbval-ignore-output"]
sources = {
    "files listed in a CSV": from_csv, "SQLite": from_sqlite, "fixed-length binary": from_binary,
    "Parquet, 32 rows at a time": from_parquet, "object store, 8 connections": from_http,
}
files = dict(zip(sources, ([listing, *album.paths], database, binary, columnar, album.paths)))
with bucket:
    cost = extraction.compare({name: plain(source, threads=8) for name, source in sources.items()}, files)
cost

# %% tags=["nbval-ignore-output"]
predictions.review("12.database", measured=cost.times("SQLite", "files listed in a CSV"))

# %% [markdown]
# SQLite opens one file once; separate files are opened one by one. The Python sources pay for each step into Python and for copies. The binary file takes more time than its size suggests: its function takes each record apart and turns planes of colours into pixels. It is the smallest one, because it holds small pixels and no photos: this work was done before, and nobody can get the photos back. The other four store the same JPEG bytes, so their sizes differ by about 1 %. A container does not make photos smaller.
#
# | source | good for | a part for each worker | shuffle |
# |---|---|---|---|
# | CSV of files | lists that people edit | `.shard(n, i)` before `map` | the list, before `map` |
# | SQLite | choosing by a query | `where id % n = i` | `order by random()`, or a list of ids |
# | fixed length | small images | one file for each worker | files, then a buffer |
# | Parquet | tables, few columns of many | groups of rows | groups, then a buffer |
# | object store | sets that fit on no disk | the list of names | the list of names |
#
# `order by random()` sorts the whole table at the start of each epoch. Without `order by`, a database promises no order at all.
#
# **What is gone.** TensorFlow itself opens local files and `gs://`. Other sources came with tensorflow-io: S3, BigQuery, Kafka, HDF5, Parquet. Its last release is of 2024, and it is no longer maintained (tensorflow/io issue 2160). Today you use the Python client of the source in a generator, in batches, as in 4, or you fetch files, as in 5.
#
# ## The timeline
#
# Now only the object store, with 32 photos. A quick accelerator takes 2 ms for eight photos. How many times faster are eight connections than one? Replace the dots first.

# %% tags=["nbval-ignore-output"]
predictions.commit("12.connections", ..., unit="times")

# %%
few = objects.take(32)


def part(number):
    return few.shard(8, number).map(fetch)


remote = {
    "one connection": few.map(fetch),
    "map, 8 connections": few.map(fetch, num_parallel_calls=8),
    "interleave, 8 connections": tf.data.Dataset.range(8).interleave(part, cycle_length=8, num_parallel_calls=8),
}
jobs = {name: plain(dataset.batch(8).repeat(), threads=8) for name, dataset in remote.items()}

# %% tags=["nbval-ignore-output"]
with bucket:
    speeds = labkit.measure(jobs, accelerators.modelled(step_ms=2), warmup=4, steps=4, repeats=5)
speeds

# %% tags=["nbval-ignore-output"]
one, eight = speeds.trace("one connection"), speeds.trace("map, 8 connections")
labkit.compare(one, eight, labels=("one connection", "map, 8 connections"), steps=4)

# %% tags=["nbval-ignore-output"]
predictions.review("12.connections", model=8, measured=speeds.speedup("map, 8 connections"))

# %% [markdown]
# ## Explain
#
# A thread that waits for an answer is hollow. In the first job one thread waits, and one request follows the other. In the second job eight threads wait at the same time: their band is high above the dashed line of the cores, because waiting needs no core. No request became quicker.
#
# The model says eight times, since eight waits become one. The measured number is smaller: the photos of a batch must be put together, and Python's part of each request needs a core. More connections help until the processor, the network or the server is full. Then they only make each request slower.
#
# `map` and `interleave` do the same here. `interleave` is for objects with many records, one stream from each (notebook 03). Both need threads that may wait: `plain(..., threads=8)` sets the size of the pool.
#
# ## When a source is damaged
#
# A source fails in its own way. Of a CSV with a bad row, TensorFlow's error (the first line below) names neither the file nor the line, and it comes in the middle of an epoch. `source_check` reads a source once, before the training starts, and names file, line and value. It also refuses a file that ends inside a record:

# %%
bad, half = place / "bad.csv", place / "half.bin"
bad.write_text("path,label\na.jpg,3\nb.jpg,cat\nc.jpg,5\n")
half.write_bytes(binary.read_bytes()[: 10 * length + 1000])  # a writer that was interrupted
read_bad = tf.data.experimental.CsvDataset(str(bad), [tf.string, tf.int64], header=True)
csv_types = dict(path=str, label=int)
for look in (lambda: list(read_bad), lambda: source_check.csv(bad, **csv_types), lambda: source_check.fixed_length(half, length)):
    try:
        look()
    except (tf.errors.OpError, ValueError) as error:
        print(damage.error_text(error))

# %% [markdown]
# An SQLite file can be locked while another program writes to it; then nobody can read it. Here a second connection plays that program. When the lock is gone, every row is still there:

# %%
writer = sqlite3.connect(database, isolation_level=None)
writer.execute("begin exclusive")
try:
    source_check.sqlite(database, query, timeout_s=0.1)
except OSError as error:
    print(error)
writer.close()
print(source_check.sqlite(database, query), "rows")

# %% [markdown]
# A server fails in more ways: it may refuse a request because it is busy (503), or never answer. The short `get` above would hand on an error page as if it were a photo. `object_store.Reader` waits for a limited time, asks again after a pause that doubles, and then stops the job with one sentence. It leaves no photo out:

# %%
faults = {names[3]: "busy", names[5]: "hang"}
with object_store.ObjectStore(dict(zip(names, album.paths)), delay_ms=0, faults=faults) as faulty:
    reader = object_store.Reader(faulty.address, timeout_s=0.2, retries=2)
    for name in (names[3], names[5]):
        try:
            print(name, "is complete:", reader.read(name) == jpegs[names.index(name)])
        except object_store.ObjectError as error:
            print(error)

# %% [markdown]
# ## Exercises
#
# **12.1** The data set CIFAR-100 has *two* label bytes in front of each image: first a coarse class, then a fine class. The image is 32×32, with its values in the same order as above. Write `cifar100(path)`. It returns a dataset of (image, fine class): uint8 of shape (32, 32, 3), and int64. Five lines.

# %% tags=["stub"]
def cifar100(path):
    ...  # your code

# %% tags=["solution"]
def cifar100(path):
    def split(record):
        values = tf.io.decode_raw(record, tf.uint8)
        image = tf.transpose(tf.reshape(values[2:], [3, 32, 32]), [1, 2, 0])
        return image, tf.cast(values[1], tf.int64)

    return tf.data.FixedLengthRecordDataset(path, 2 + 3 * 32 * 32).map(split)

# %%
try_it("12.1", cifar100)
check("12.1", cifar100)

# %% [markdown]
# **12.2** Several workers share one database with the table `photos` of this notebook. Write `part_of(path, workers, worker)`. It returns a dataset of the labels (int64) of the rows whose `id % workers` is `worker`, in the order of their ids. The *database* chooses the rows, so that no worker reads the rows of the others. Two lines.

# %% tags=["stub"]
def part_of(path, workers, worker):
    ...  # your code

# %% tags=["solution"]
def part_of(path, workers, worker):
    query = f"select label from photos where id % {workers} = {worker} order by id"
    return tf.data.experimental.SqlDataset("sqlite", path, query, (tf.int64,)).map(lambda label: label)

# %%
try_it("12.2", part_of)
check("12.2", part_of)

# %% [markdown]
# **12.3** Write `connections(photos_per_s, request_ms)`. It returns how many connections an object store needs at least, so that `photos_per_s` photos arrive in each second. Each request takes `request_ms`, and a connection has one request at a time. One line. (Hint: `math.ceil`.)

# %% tags=["stub"]
def connections(photos_per_s, request_ms):
    ...  # your code

# %% tags=["solution"]
def connections(photos_per_s, request_ms):
    return -(-photos_per_s * request_ms // 1000)

# %%
try_it("12.3", connections)
check("12.3", connections)

# %% [markdown]
# ## Recap
#
# You read the same photos from five sources and compared processor time, size, and the time to the first photo. You read an object store with one connection and with eight, and saw the requests wait at the same time. You checked sources before a job reads them.
#
# ## In practice
#
# - Extract once, train many times: copy what you need from a slow source into TFRecords (notebook 07).
# - Hand batches from Python to TensorFlow, not single rows.
# - Do not write to an SQLite file in the process that reads it. The lock of the writer does not stop TensorFlow there.
# - Begin with as many connections as exercise 12.3 says, and measure.
# - Write a file beside its place and rename it when it is complete, and count what arrives.
#
# **Next:** optional, [12b Extract text and tables](12b_extract_text_and_tables.ipynb): clean, encode, embed, and how much data a language model wants. Or on to [13 Compare loaders](13_compare_loaders.ipynb).
