# %% [markdown]
# # Extract text and tables
#
# This notebook is **optional**: no later notebook needs it.
#
# **You will** read lines of text, JSON lines and a table with holes, and turn them into numbers that a network can learn from.
#
# **You will learn** what clean, encode and embed mean, where a lookup layer belongs, and how much data a language model wants.
#
# **You need** notebook 12. No GPU, no network. About 40 minutes. Special words are in the [glossary](../docs/glossary.md).

# %% tags=["bootstrap", "nbval-ignore-output"]
import json
import tempfile
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from labcourse import check, idea, predictions, try_it
from labextras.extract import source_check
from labkit import damage, photos, plain

# %% [markdown]
# ## The idea
#
# A network computes with numbers. Text has to become numbers first, in three steps.

# %%
idea("12b")

# %% [markdown]
# *Clean*: make lines alike, so that "Circle!" and "circle" are the same word. *Encode*: look each word up in a list, the *vocabulary*, and take its number. *Embed*: replace each number by a vector that the network learns. The last step is always a part of the model.
#
# ## Predict
#
# A ResNet-50 on an A100 takes 920 photos of 115 kB in a second (the figures of the benchmark DLIO): 105 MB. No core decodes so many photos. Now the same accelerator trains a language model of 340 million weights, the size of BERT-large. How many times as many words as this model wants does *one* core of this machine read, clean and encode? Replace the three dots by your number: 0.1 if you think that ten cores are needed, 10 if one core could serve ten models.

# %% tags=["nbval-ignore-output"]
predictions.commit("12b.words", ..., unit="times")

# %% [markdown]
# ## Lines of text
#
# We have no library of books here, so we make sentences about the lab's photos. There are 2,000 lines, with mistakes that real texts have:

# %%
album = photos.load()
album = album.take(min(160, len(album)))
words = [album.classes[label] for label in album.labels]
lines = [f"Photo {n}: a  {'LARGE' if n % 3 else 'small'} {words[n % len(words)]}!" for n in range(2000)]
folder = tempfile.TemporaryDirectory()
captions = Path(folder.name) / "captions.txt"
captions.write_text("\n".join(lines))
print(lines[0], lines[1], sep="\n")

# %% [markdown]
# `TextLineDataset` reads a file line by line. Clean the lines with functions of `tf.strings`; they work on a whole batch, so batch first (notebook 06):

# %%
def clean(text):
    text = tf.strings.lower(text)
    text = tf.strings.regex_replace(text, r"[^a-z ]", "")
    return tf.strings.strip(tf.strings.regex_replace(text, " +", " "))


text = tf.data.TextLineDataset(str(captions)).batch(64)
cleaned = text.map(clean)
print(*next(cleaned.unbatch().batch(2).as_numpy_iterator()), sep="\n")

# %% [markdown]
# **Encode.** `StringLookup` learns the vocabulary from the data with `adapt`. Number 1 stands for words that are not in the vocabulary, and number 0 fills up sentences that are shorter than others of their batch:

# %%
def split(text):
    return tf.strings.split(text).to_tensor("")


lookup = keras.layers.StringLookup(mask_token="")
lookup.adapt(cleaned.map(split))
known = lookup.get_vocabulary()
print(len(known), "entries; the first:", [str(word) for word in known[:5]])
print(lookup(split(tf.constant(["photo a large circle", "photo a purple"]))).numpy())

# %% [markdown]
# ## Inside or outside of the pipeline
#
# The lookup can stand in the pipeline (`map`), or as the first layer in the model. Both give the same vectors:

# %%
embed = keras.layers.Embedding(len(known), 8)
numbered = cleaned.map(split).map(lookup)
strings = cleaned.map(split)

outside = embed(next(iter(numbered)))
inside = embed(lookup(next(iter(strings))))
print("equal vectors:", np.array_equal(outside, inside), outside.shape)

# %% [markdown]
# In the *pipeline* the CPU looks words up while the accelerator trains, and whole numbers travel to it. Strings cannot travel to a GPU at all. In the *model*, whoever uses the trained model later can pass plain text, and nobody can take the wrong vocabulary. The usual answer is both: look up in the pipeline for the training, and put the lookup in front of the trained model when you export it.
#
# ## Run: how fast is text?
#
# How many words does one second of processor time read, clean and encode? We count in five rounds, without an accelerator:

# %% tags=["nbval-ignore-output"]
job = plain(numbered)
rates = []
for _ in range(5):
    began = time.process_time()
    seen = sum(int(tf.math.count_nonzero(batch)) for batch in job)
    rates.append(seen / (time.process_time() - began))
per_word = captions.stat().st_size / seen
print(f"{seen:,} words, {np.median(rates):,.0f} words per second of one core, {per_word:.1f} bytes a word")

# %% [markdown]
# And how many does the model want? Training needs about six floating-point operations for each weight and token (Kaplan and others, 2020); we take a word for a token. An A100 does at most 312·10¹² operations in a second (its data sheet, bfloat16), and we assume that it reaches 40 % of that. This part is an estimate:

# %% tags=["nbval-ignore-output"]
wanted = 0.4 * 312e12 / (6 * 340e6)  # words per second
print(f"the model wants {wanted:,.0f} words per second, {wanted * per_word / 1e6:.2f} MB (estimated)")
predictions.review("12b.words", measured=[rate / wanted for rate in rates])

# %% [markdown]
# ## Explain
#
# A word is a few bytes and costs two billion operations on the accelerator. A photo is 115,000 bytes and costs about eleven times as much (3.8·10⁹ multiplications forward, says the paper of ResNet; each with an addition, and three times that for training). So the language model wants far fewer bytes per second: 0.42 MB here against 105 MB, and one or two cores deliver them. A study of data stalls measured the same: BERT-large and GNMT had none (DS-Analyzer, VLDB 2021, section 4.3.5).
#
# Many jobs even encode the whole text once and store only the numbers. Language models do stall on some things: a slow first read from an object store, padding that wastes the accelerator, and one Python function for each line.
#
# ## JSON lines
#
# In a file of JSON lines, each line is one JSON object. TensorFlow has no op for free JSON, so Python reads it: in a generator that hands over batches, as with Parquet in notebook 12.

# %%
records = Path(folder.name) / "photos.jsonl"
objects = [{"caption": line, "number": number} for number, line in enumerate(lines)]
records.write_text("\n".join(map(json.dumps, objects)))


def batches(size=64):
    with records.open() as file:
        parsed = [json.loads(line) for line in file]
    for first in range(0, len(parsed), size):
        part = parsed[first : first + size]
        yield [one["caption"] for one in part], [one["number"] for one in part]


print(source_check.json_lines(records, caption=str, number=int), "lines, each a whole object")

# %%
signature = tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.int64)
from_json = tf.data.Dataset.from_generator(batches, output_signature=signature)
print(sum(len(caption) for caption, _ in from_json.as_numpy_iterator()), "objects")

# %% [markdown]
# A bad line stops this generator, and its error (the first one below) names no file; its `line 1` counts within the object. In the file, it is line 19. Bytes that are no UTF-8 stop nobody: `TextLineDataset` hands them on, and one word gets two numbers. `source_check` reads a file once, before the training starts:

# %%
place = Path(folder.name)
typo, half, latin = place / "typo.jsonl", place / "half.jsonl", place / "latin.txt"
typo.write_text('{"caption": "a boat", "number": 1}\n{"caption": "a dog", "number": "two"}\n')
half.write_bytes(records.read_bytes()[:1000])  # a writer that was interrupted
latin.write_bytes("a boat\nein grünes Boot\n".encode("latin-1"))
for look in (
    lambda: [json.loads(line) for line in half.read_text().splitlines()],
    lambda: source_check.json_lines(half, caption=str, number=int),
    lambda: source_check.json_lines(typo, caption=str, number=int),
    lambda: source_check.text_lines(latin),
):
    try:
        look()
    except ValueError as error:
        print(damage.error_text(error))

# %% [markdown]
# ## A table with holes
#
# Measurements miss values, and their columns have very different sizes. Clean: fill a hole with the mean. Normalise: subtract the mean and divide by the standard deviation. Encode a class as one column for each class. Mean and deviation come from the *training* rows only, and they belong to the model: whoever uses it needs the same numbers.

# %%
table = Path(folder.name) / "table.csv"
table.write_text("size,class\n100,cat\n,dog\n300,cat\n200,bird\n")
rows = tf.data.experimental.CsvDataset(str(table), [tf.constant([np.nan]), tf.string], header=True).batch(2)
sizes = np.concatenate([size for size, _ in rows.as_numpy_iterator()])
mean, deviation = np.nanmean(sizes), np.nanstd(sizes)
classes = keras.layers.StringLookup(vocabulary=["bird", "cat", "dog"], num_oov_indices=0, output_mode="one_hot")


def numbers(size, name):
    size = tf.where(tf.math.is_nan(size), mean, size)
    return tf.concat([(size[:, None] - mean) / deviation, tf.cast(classes(name), tf.float32)], axis=1)

# %%
for row in rows.map(numbers).unbatch().as_numpy_iterator():
    print(row.round(2))

# %% [markdown]
# ## Exercises
#
# **12.4** Which vector does a word get that nobody has seen before? Write `vectors(line, vocabulary, table, length)`. `line` is a clean line, and `vocabulary` is the list of all known words. `table` is an array with a vector in each row, as an embedding has it:
#
# - row 0 fills up a line that is too short,
# - row 1 is for every word that is not known,
# - row 2 is for the first word of the vocabulary, row 3 for the second, and so on.
#
# The result has `length` rows: the vectors of the words, then row 0 as often as needed. Of a longer line the first `length` words stay. For example, with the vocabulary `["the", "a"]` and the length 3, the line `"a zebra"` becomes rows 3, 1 and 0 of the table. Three lines.

# %% tags=["stub"]
def vectors(line, vocabulary, table, length):
    ...  # your code

# %% tags=["solution"]
def vectors(line, vocabulary, table, length):
    known = {word: number for number, word in enumerate(vocabulary, 2)}
    numbers = [known.get(word, 1) for word in line.split()][:length]
    return table[numbers + [0] * (length - len(numbers))]

# %%
try_it("12.4", vectors)
check("12.4", vectors)

# %% [markdown]
# **12.5** One call for each line is slow. Write `encoded(lines, clean, lookup, size)`. `lines` is a dataset of texts, as `TextLineDataset` gives it. `clean` takes a batch of texts and returns clean texts. `lookup` takes a batch of words, as `split` makes it above, and returns whole numbers. The result is a dataset of batches of whole numbers:
#
# - each batch has `size` lines; the last one may be smaller,
# - each line is filled up to the longest line of its own batch,
# - `clean` and `lookup` are called once for each batch.
#
# For example, with the vocabulary `["", "[UNK]", "the", "a"]` and the size 2, the lines `"A zebra!"` and `"The"` become one batch, `[[3, 1], [2, 0]]`. Two lines.

# %% tags=["stub"]
def encoded(lines, clean, lookup, size):
    ...  # your code

# %% tags=["solution"]
def encoded(lines, clean, lookup, size):
    words = lines.batch(size).map(lambda text: tf.strings.split(clean(text)))
    return words.map(lambda split: lookup(split.to_tensor("")))

# %%
try_it("12.5", encoded)
check("12.5", encoded)

# %% [markdown]
# ## Recap
#
# You cleaned lines of text, encoded words as numbers, and embedded them. You saw the same vectors with the lookup in the pipeline and in the model. You compared what a language model wants with what one core delivers. You filled the holes of a table and normalised it. You checked lines of text and of JSON before a job reads them.
#
# ## In practice
#
# - Batch first, then clean and encode whole batches.
# - Save the vocabulary, the means and the deviations with the model.
# - Encode a large text once, and store the numbers.
#
# **Next:** [13 Compare loaders](13_compare_loaders.ipynb), or your own data. The notebooks of the course are listed on the start page.
