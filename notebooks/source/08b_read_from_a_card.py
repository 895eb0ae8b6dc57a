# %% [markdown]
# # Read from a card (optional)
#
# *This notebook is optional. No later notebook needs it.*
#
# A [SmartSSD](../docs/glossary.md#smartssd) is a drive with flash memory and an [FPGA](../docs/glossary.md#fpga) in one case. This lab calls it the *card*. The FPGA can decode and resize photos before the photos reach the *host*, which is the computer with its CPU. [OpenCL](../docs/glossary.md#opencl) kernels do this work in our stand-in for the card.
#
# **You will** measure what a job gains if its photos arrive decoded, read these photos through plain `tf.data` from a filesystem that computes, and ask a model what a real card would gain.
#
# **You will learn** how a filesystem becomes an accelerator, how to test a model, and when offload does not pay.
#
# **You need** notebook 08. You need no card. About 40 minutes.

# %% tags=["bootstrap", "nbval-ignore-output"]
import tempfile
from pathlib import Path
import tensorflow as tf
from labcourse import check, idea, predictions, try_it
from labextras import card, offload
from labkit import accelerators, discrepancy, photos, plain

# %% [markdown]
# ## The idea
#
# The photos take the upper way today. With a card they take the lower way:

# %%
idea("08.card")

# %% [markdown]
# ## Predict
#
# The job is that of notebook 08, before a modelled H100. Suppose somebody decodes and resizes all photos in advance and stores the pixels. The random augmentation stays in the job, because a stored augmentation would be the same in every epoch (notebook 05). How many times faster will the job train? Replace the three dots by your number.

# %% tags=["nbval-ignore-output"]
print(predictions.commit("08b.gain", ..., unit="times"))

# %% [markdown]
# ## Build: the pixels, prepared in advance
#
# The two halves of the job are those of notebook 08. The first half reads, decodes and resizes a photo:

# %%
def shrink(path):
    pixels = tf.io.decode_jpeg(tf.io.read_file(path), channels=3, dct_method="INTEGER_ACCURATE")
    return tf.image.resize(tf.image.convert_image_dtype(pixels, tf.float32), [224, 224])


def augment(image):
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_brightness(image, max_delta=32 / 255)
    image = tf.image.random_saturation(image, 0.5, 1.5)
    return tf.clip_by_value(image, 0, 1)

# %% [markdown]
# Now store the result of the first half, as one byte for each value, and write the function that reads it back:

# %%
album = photos.load().take(64)
room = tempfile.TemporaryDirectory()
stored = [f"{room.name}/{i}.raw" for i in range(len(album))]
for path, name in zip(album.paths, stored):
    tf.io.write_file(name, tf.cast(tf.round(shrink(path) * 255), tf.uint8).numpy().tobytes())


def unpack(path):
    pixels = tf.reshape(tf.io.decode_raw(tf.io.read_file(path), tf.uint8), [224, 224, 3])
    return tf.image.convert_image_dtype(pixels, tf.float32)

# %%
def job(paths, first_half):
    names = tf.data.Dataset.from_tensor_slices((list(paths), album.labels)).repeat()
    mapped = names.map(lambda path, label: (augment(first_half(path)), label), num_parallel_calls=labkit.cores())
    return plain(mapped.batch(32).prefetch(2))

# %% [markdown]
# ## Run
#
# Both jobs run before the same modelled H100:

# %% tags=["nbval-ignore-output"]
h100 = accelerators.modelled("H100")
jobs = {"all on the CPU": job(album.paths, shrink), "prepared": job(stored, unpack)}
measured = labkit.measure(jobs, h100, steps=6, warmup=2, repeats=5)
measured

# %% [markdown]
# The model for this prediction knows only the first job. It takes away the time for reading, decoding and resizing, and it knows how fast the H100 is:

# %% tags=["nbval-ignore-output"]
cpu = labkit.Timeline(measured.trace("all on the CPU"))
moved = sum(cpu.per_image_ms[kind] for kind in ("read", "decode", "resize")) / sum(cpu.per_image_ms.values())
most = h100.images_per_s(32)  # that the H100 trains
model = min(most, cpu.images_per_s / (1 - moved)) / cpu.images_per_s
predictions.review("08b.gain", model=model, measured=measured.speedup("prepared"))

# %% [markdown]
# The price of this gain is disk space: the stored pixels take 151 kB a photo (notebook 07 compares formats). A card that decodes would give the gain, and you would keep the JPEGs.
#
# ## A filesystem that computes
#
# TensorFlow reads every file through a *filesystem*, which it chooses by the beginning of the name: `gs://`, `s3://`, `hdfs://`. If you register your own beginning, your code runs on every read. The lab registers `smartssd://`. Behind this name is a small C++ plugin. The plugin asks another process on your machine, the stand-in for the card, and this process runs the kernels of notebook 08.
#
# The pipeline stays plain `tf.data`. The name says what you want, and `unpack` is the function from above:

# %%
def through_the_card():
    with card.Card(Path(album.paths[0]).parent.parent, name="lesson") as served:
        names = [served.uri(path, size=224, dtype="uint8") for path in album.paths[:8]]
        print(names[0].rpartition("/")[2])
        read = tf.data.Dataset.from_tensor_slices(names).map(unpack, num_parallel_calls=4)
        return next(iter(read.batch(8)))

# %% tags=["nbval-ignore-output"]
try:
    card.register()
    from_card = through_the_card()
    from_disk = tf.stack([unpack(name) for name in stored[:8]])
    print(f"largest difference in grey levels: {discrepancy.between(from_card, from_disk).largest:.0f}")
except (RuntimeError, OSError, tf.errors.OpError) as error:
    print(f"There is no card on this machine ({error}). Nothing below needs it.")

# %% [markdown]
# The difference is at most one grey level, because the kernels round differently where a value lies between two levels. A filesystem is a class with many methods. This plugin needs only those that read:

# %%
served = [method for method in card.METHODS if method.works]
for method in served:
    print(f"{method.name:<38}{method.what}")
print(f"{len(card.METHODS) - len(served)} other methods would write. The card refuses them.")

# %% [markdown]
# ## A model of a real card
#
# How fast would a real SmartSSD be? Nothing here can measure that, so this part is *modelled* from published figures. A photo passes three parts of the card and then the host:
#
# - the link from the flash memory to the FPGA. Data go there directly and not through the memory of the host. This is called *peer-to-peer* (P2P);
# - a decoder circuit. It reads one *token* (a Huffman code with its bits, notebook 08) in each clock cycle, and some more cycles are lost;
# - the output to the host: 224×224 pixels as uint8;
# - the cores of the host, which augment the pixels.
#
# All four work at the same time, so the slowest one sets the speed. First count the tokens in your photos:

# %% tags=["nbval-ignore-output"]
from labextras.offload import calibration, tokens, twins

files = [tf.io.read_file(path).numpy() for path in album.paths]
counted = tokens.count(files) if twins.has_device() else tokens.count_on_host(files[:8])
counted

# %% [markdown]
# The speed of the job without a card is that of the middle round in the table above, here and in all that follows. This speed says how long a core needs for a photo. The recording of the prepared job says which part of this work stays with the host:

# %% tags=["nbval-ignore-output"]
left = labkit.Timeline(measured.trace("prepared"))
cpu_ms = 1000 * labkit.cores() / cpu.images_per_s
host_ms = cpu_ms * sum(left.per_image_ms.values()) / sum(cpu.per_image_ms.values())
host = {"cpu_ms": cpu_ms, "host_ms": host_ms, "cores": labkit.cores(), "accelerator": most}
ssd = offload.SmartSSD()
ssd.answer(counted, **host)

# %% [markdown]
# The size of a read matters. A photo is a small read, and small reads use only a part of the link:

# %% tags=["nbval-ignore-output"]
ssd.p2p_picture(float(counted.bytes.mean()))

# %% [markdown]
# How good is this model? The vendor has published the speed of its decoder for three pictures. The page can be read in two ways: the lost cycles belong to each *call* (each photo), or to each *block* of 8×8 pixels. Each reading has one unknown number, and each of the three pictures can fix this number. This gives six decoders. Every decoder is tested on the two pictures that did not fix it:

# %% tags=["nbval-ignore-output"]
calibration.check()

# %% [markdown]
# Each decoder is right for the picture that fixed it: with one picture, every model with a free number looks right. The readings *per call* are at most 9 % off for the other pictures, and the readings *per block* up to 81 %. The model uses a reading per call, but it does not hide the others: every answer above gives a *band* in brackets, from the slowest to the fastest of the six decoders. All three published speeds lie inside their bands.
#
# ## The timeline
#
# The upper half is the middle round of the job without a card. The lower half is the modelled card. It is a prediction:

# %% tags=["nbval-ignore-output"]
with_card = ssd.trace(counted, h100, cores=host["cores"], host_ms=host_ms)
labkit.show(measured.trace("all on the CPU"), with_card, labels=("all on the CPU", "SmartSSD, modelled"), steps=2)

# %% [markdown]
# ## Explain
#
# In the lower half the decoder is the busiest lane: it decodes one photo after the other. An option of `map` cannot change this. More decoders on the card can, until another part is the slowest.
#
# What would the card gain if the work that moves to it were cheaper or more expensive? The accelerator takes everything in this chart. The vertical lines are the bands:

# %% tags=["nbval-ignore-output"]
cards = {
    "1 decoder": ssd,
    "8 decoders": ssd.changed(decoders=8),
    "8 decoders, reads of 4 KB": ssd.changed(decoders=8, read_bytes=4096),
}
costs = [0.1, 0.2, 0.5, 1, 2, 5]
offload.gain_picture(cards, counted, moved_ms=costs, host_ms=host_ms, cores=labkit.cores())

# %% tags=["nbval-ignore-output"]
eight = cards["8 decoders"]
cases = {
    "1 decoder": (ssd, {}),
    "8 decoders": (eight, {}),
    "a slow accelerator": (eight, {"accelerator": 50}),
    "64 cores": (eight, {"cores": 64}),
    "small photos": (eight, {"cpu_ms": host_ms + 0.1}),
    "small reads": (cards["8 decoders, reads of 4 KB"], {}),
}
for name, (one, changes) in cases.items():
    print(f"{name:<20}{one.answer(counted, **(host | changes)).verdict}")

# %% [markdown]
# The lab says *pays* only if the slowest decoder of the band gains 10 % or more, and *does not pay* only if the fastest one gains less. Between the two it cannot be told.
#
# Offload gains little in four cases: the accelerator is fed already, you have enough cores, little work moves, or small reads make the link the slowest part. The type of the output matters, too: float32 pixels are four times as many bytes as uint8 pixels. Let the card return uint8, and divide by 255 on the accelerator.
#
# ## Exercises
#
# **08.3** Write `decoders(photo_bytes, gb_s, cycles, clock_mhz)`. The link carries `gb_s` · 10⁹ bytes per second. One decoder needs `cycles` clock cycles for a photo of `photo_bytes` bytes. Return how many decoders are needed to use the whole link. Two lines.

# %% tags=["stub"]
def decoders(photo_bytes, gb_s, cycles, clock_mhz):
    ...  # your code

# %% tags=["solution"]
def decoders(photo_bytes, gb_s, cycles, clock_mhz):
    import math

    return math.ceil((gb_s * 1e9 / photo_bytes) / (clock_mhz * 1e6 / cycles))

# %%
try_it("08.3", decoders)
check("08.3", decoders)

# %% [markdown]
# ## Recap
#
# You measured what a job gains if decoding moves elsewhere. You read preprocessed photos through a filesystem. You modelled a card, tested the model on pictures that it was not fitted to, and saw when offload pays, when it does not, and when nobody can tell.
#
# ## In practice
#
# - Measure what stays with the CPU before you buy a device for the rest.
# - Label what is modelled. Test a model on a point that was not used to fix it, and state the band of all readings.
# - Return uint8, and keep random augmentation where it can change in each epoch.
#
# **Next:** [09 Put it all together](09_put_it_all_together.ipynb): every technique on one scoreboard, and a real model.
