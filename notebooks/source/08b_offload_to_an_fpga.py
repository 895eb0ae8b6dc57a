# %% [markdown]
# # Offload to an FPGA
#
# To *offload* work is to move it from the CPU to another device: here to a *card*, a drive with an [FPGA](../docs/glossary.md#fpga) in the same case. The *host* is the computer with its CPU.

# %% tags=["bootstrap", "nbval-ignore-output"]
import tempfile

import numpy as np
import tensorflow as tf
from labcourse import check, idea, predictions, try_it
from labcourse.exercise_pictures import images
from labcourse.exercises.notebook_08b import offloaded_jobs
from labextras import card, offload
from labextras.offload import tokens, twins
from labkit import accelerators, charts, discrepancy, photos, plain, records

# %%
idea("08b")

# %% [markdown]
# **You will** find out what a job spends its time on, prove that kernels compute the pixels of TensorFlow, and run the job through a stand-in for a card.
#
# **You will learn** what limits a card, and when offload pays.
#
# **You need** notebooks 01, 04 and 08. You need no FPGA. About 50 minutes; 08b.2 is optional.
#
# ## Predict
#
# The slides that this notebook follows profiled such a job: 20 % of the time went into the SSD, and 80 % into preparing. What share of the time of your pipeline's threads is reading, from 0 to 1? Replace the three dots by your number.

# %% tags=["nbval-ignore-output"]
print(predictions.commit("08b.storage", ..., unit="share"))

# %% [markdown]
# ## Profile first
#
# The photos lie in eight record files (notebook 07). The work on a photo has two halves, and only the second half is random:

# %%
def shrink(jpeg):
    pixels = tf.io.decode_jpeg(jpeg, channels=3, dct_method="INTEGER_ACCURATE")
    return tf.image.resize(tf.image.convert_image_dtype(pixels, tf.float32), [224, 224])


def augment(image):
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_brightness(image, max_delta=32 / 255)
    image = tf.image.random_saturation(image, 0.5, 1.5)
    return tf.clip_by_value(image, 0, 1)

# %%
def job(paths, first_half):
    def load(record):
        photo, label = records.parse(record)
        return augment(first_half(photo)), label

    files = tf.data.Dataset.from_tensor_slices(list(paths)).repeat()
    read = files.interleave(tf.data.TFRecordDataset, cycle_length=2, num_parallel_calls=2)
    return plain(read.map(load, num_parallel_calls=labkit.cores()).batch(32).prefetch(2))

# %% tags=["nbval-ignore-output"]
album = photos.load().take(64)
room = tempfile.TemporaryDirectory()
shards = records.write(album, room.name, shards=8, progress=False).paths
h100 = accelerators.modelled("H100")
on_host = labkit.record(job(shards, shrink), h100, steps=6, warmup=2)
ops = labkit.Timeline(on_host).ops_ms
charts.bars(dict(list(ops.items())[:8]), unit="ms of a thread per photo", title="What the threads do")

# %% tags=["nbval-ignore-output"]
parts = labkit.Timeline(on_host).per_image_ms
predictions.review("08b.storage", model=0.2, measured=parts["read"] / sum(parts.values()))

# %% [markdown]
# Here, "the model" is the 20 % of the slides. Their photos lay on a disk; yours lie in the page cache, where a read is short. The slides offload four operations: decode, resize, brightness, and normalise with clip. The picture says which of them takes the time.
#
# ## Build: kernels, compared with TensorFlow
#
# A *kernel* is a function in [OpenCL](../docs/glossary.md#opencl), a language for CPUs, GPUs and FPGAs. The device runs it many times at once, and each run is a *work-item* with a number. Here work-item `i` turns byte `i` into a share of full brightness:

# %%
scale = """
__kernel void scale(__global const uchar *in, __global float *out)
{
    const int i = get_global_id(0);
    out[i] = in[i] / 255.0f;
}
"""
levels = np.arange(256, dtype=np.uint8)

# %% tags=["nbval-ignore-output"]
device = offload.devices()[0] if twins.has_device() else None
kernels = offload if device else twins  # without a device, NumPy computes the same bytes, more slowly
print(device or "There is no OpenCL device: NumPy computes what the kernels would compute.")

tried = kernels.try_kernel(scale, "scale", [levels, np.zeros(256, np.float32)], 256)
print("equal to NumPy:", np.array_equal(tried.outputs.get("out"), levels / np.float32(255)))

# %% [markdown]
# The device is usually PoCL, which runs kernels on your processor. It proves that a kernel computes the right bytes, and says *nothing* about the speed of an FPGA. TensorFlow decides what is right:

# %%
files = [tf.io.read_file(path).numpy() for path in album.paths[:8]]
ours = kernels.decode(files)
photo = next(i for i, status in enumerate(ours.status) if status.code == "fine")
decoded = ours.images[photo]
exact = tf.io.decode_jpeg(files[photo], channels=3, dct_method="INTEGER_ACCURATE").numpy()
print("decode: largest difference", int(discrepancy.between(decoded, exact).largest))

# %% tags=["nbval-ignore-output"]
plane, colours = decoded[:, :, 0], decoded[None] / np.float32(255)
delta = twins.draws(1, 8, 0, 32 / 255, (0.5, 1.5)).delta[0]  # the random number that the kernel draws
shares = tf.image.convert_image_dtype(plane, tf.float32)
steps = {
    "resize": (plane / 255, kernels.resize_bilinear(plane, 224, 224) / 255,
               tf.image.resize(plane[..., None], [224, 224])[..., 0].numpy() / 255),
    "brightness": (colours[0], kernels.random_brightness(colours, 8, 0, 32 / 255)[0],
                   tf.image.adjust_brightness(colours, delta)[0].numpy()),
    "normalise, clip": (shares.numpy(), kernels.normalize_clip(plane, 0.2), tf.clip_by_value(shares + 0.2, 0, 1).numpy()),
}  # fmt: skip
images(steps, "Three kernels (yours) and TensorFlow (right)")

# %% [markdown]
# Decoding agrees in every bit: it uses whole numbers only. The other kernels use floating-point numbers, whose last digits may differ.
#
# <details><summary>A mistake of the slides</summary>
#
# They draw another random brightness for every pixel, which is noise. `tf.image.random_brightness` draws **one** number for the whole image. The lab has a kernel with this mistake: `kernels.random_brightness_per_pixel`.
# </details>
#
# ## Run: the whole job through a card
#
# TensorFlow chooses a *filesystem* by the beginning of a name, such as `gs://`. The lab registers `smartssd://`. Behind it, a small C++ plugin asks another process of your machine, the stand-in for the card, which owns the OpenCL device.

# %% tags=["nbval-ignore-output"]
try:
    card.register()
    ssd = card.Card(room.name, name="lesson").start()
    print(ssd.status())
except (RuntimeError, OSError) as error:
    ssd = None
    print(f"No card can run here ({error}). Below, only the host's own job is measured.")

# %% [markdown]
# Names of files, taken apart as TensorFlow does:

# %% tags=["nbval-ignore-output"]
card.schemes()

# %% [markdown]
# Only the names of the files change: `?size=224` asks for pixels where a record held a JPEG. So the first half of the work becomes short:

# %%
def unpack(photo):
    pixels = tf.reshape(tf.io.decode_raw(photo, tf.uint8), [224, 224, 3])
    return tf.image.convert_image_dtype(pixels, tf.float32)


jobs = {"on the host": job(shards, shrink)}
if ssd:
    on_card = [ssd.uri(path, size=224) for path in shards]
    jobs["through the card"] = job(on_card, unpack)

# %% tags=["nbval-ignore-output"]
def first_photos(paths, first_half, count=8):
    read = tf.data.TFRecordDataset(paths).take(count)
    return tf.stack([first_half(records.parse(record)[0]) for record in read])


if ssd:
    apart = discrepancy.between(first_photos(on_card, unpack), first_photos(shards, shrink))
    print(f"largest difference in grey levels: {apart.largest:.1f}")
    before = ssd.status()
measured = labkit.measure(jobs, h100, steps=8, warmup=3, repeats=5, limit=7)
measured

# %% [markdown]
# The card rounds each value to one byte, so up to half a grey level may be missing.
#
# ## The timeline
#
# The card has a lane for each of its three *engines*: *copy in* reads photos from the drive, *kernel* decodes and resizes them, *copy out* sends the pixels to the host. For the host, waiting for the card looks like reading a file: its threads are hollow. A gap that waits for the *kernel* says *prepare*. Five steps are shown; the table counts all.

# %% tags=["nbval-ignore-output"]
shown = [measured.trace(name) for name in jobs]
if ssd:
    after = ssd.status()
    shown[1] = ssd.with_lanes(shown[1])
labkit.show(*shown, labels=("on the host", "through the card"), steps=5)

# %% [markdown]
# What has left this process? Processor time tells, because it does not depend on who waits for whom:

# %% tags=["nbval-ignore-output"]
own = {name: card.cpu_ms(measured.trace(name)) for name in jobs}
for name, ms in own.items():
    print(f"{name:<18}{ms:5.2f} ms of a core per photo, in this process")
if ssd:
    spent = 1000 * (after.cpu_s - before.cpu_s) / (after.images - before.images)
    print(f"{'in the card':<18}{spent:5.2f} ms of a core per photo, in the process that stands in for it")

# %% [markdown]
# The stand-in does the work elsewhere on the same processor, so it cannot make the job faster. On a real card, a circuit does it.
#
# ## Explain: three engines
#
# From here on, the card is *modelled* from published figures: eight decoders, beside a training step of 1 ms, so that only the card limits. In sequence, each batch passes all three engines before the next one begins. With two buffers between two engines (*double buffers*), one is filled while the other is emptied:

# %% tags=["nbval-ignore-output"]
everything = [tf.io.read_file(path).numpy() for path in album.paths]
counted = tokens.count(everything) if device else tokens.count_on_host(files)
eight, quick = offload.SmartSSD(decoders=8), accelerators.modelled(step_ms=1)
halves = [eight.trace(counted, quick, steps=6, overlap=overlap) for overlap in (False, True)]
labkit.show(*halves, labels=("in sequence", "overlapped"))

# %% [markdown]
# In sequence the times of the three engines add up. Overlapped, the slowest engine sets the pace, as in notebook 02.
#
# A real card reads *peer to peer* (P2P): from the flash to the FPGA, past the host. How fast depends on the size of a read, and a photo alone is a small one:

# %% tags=["nbval-ignore-output"]
eight.p2p_picture(float(counted.bytes.mean()))

# %% [markdown]
# ## More decoders, until the chip is full
#
# The decoder is the JPEG reader of notebook 08, grown up. It needs 1.039 cycles for a [token](../docs/smartssd.md), a code with its bits (simulated), at 62.7 MHz (placed on an ECP5, the chip of notebook 08). The chip of the card is a KU15P. Nothing was placed on it; what fits is computed from its size, and the model refuses more:
#
# <details><summary>Its tables lie in block memories. Why not two cycles?</summary>
#
# The reader of notebook 08 has two registers in its loop: the memory's, and the one that keeps the shifted bits. This decoder gives the shifted bits to the memory in the same cycle, so one register is left, and a turn takes one cycle. The rest are long codes, and waits for the next stage, which turns numbers into pixels.
# </details>

# %%
one = offload.SmartSSD()
print(one.room)
try:
    one.changed(decoders=one.most + 1)
except ValueError as error:
    print(error)

# %% tags=["nbval-ignore-output"]
moves = sum(parts[kind] for kind in ("read", "decode", "resize")) / sum(parts.values())
stays = own.get("through the card", own["on the host"] * (1 - moves))
one.replicas_picture(counted, cores=labkit.cores(), host_ms=stays)

# %% [markdown]
# Where the line is flat, the link is full. Long before, the card delivers more than your host can augment.
#
# ## When it pays
#
# Two measured numbers decide: the processor time that a photo takes on the host, and what of it stays there. As images per second (an estimate: all cores divided by this time):

# %% tags=["nbval-ignore-output"]
host = {"cpu_ms": own["on the host"], "host_ms": stays, "cores": labkit.cores(), "others": measured.others}
fed = h100.images_per_s(32)  # what an H100 trains
answer = eight.answer(counted, accelerator=fed, **host)
answer

# %% tags=["nbval-ignore-output"]
low, high = answer.vendor_band
print(f"One of our decoders: {answer.rates['decode'] / 8:,.0f} images/s. One of the vendor's: {low:,.0f} to {high:,.0f}.\n")
cases = {
    "1 decoder": (one, {}),
    "8 decoders": (eight, {}),
    "a slow accelerator": (eight, {"accelerator": 50}),
    "64 cores": (eight, {"cores": 64}),
    "little work moves": (eight, {"cpu_ms": stays + 0.1}),  # 0.1 ms of a photo, as with small photos
    "small reads": (eight.changed(read_bytes=4096), {}),
}
for name, (model, changes) in cases.items():
    print(f"{name:<20}{model.answer(counted, **({'accelerator': fed} | host | changes)).verdict}")

# %% [markdown]
# Offload gains nothing where one decoder is all, the accelerator is fed already, there are enough cores, little work moves, or reads are small. A gain of less than a tenth counts as none. The vendor's decoder differs from picture to picture, hence a band: [where each figure comes from](../docs/smartssd.md). On a busy machine there is no verdict.
#
# <details><summary>Which of these numbers was measured?</summary>
#
# | number | where it comes from |
# |---|---|
# | processor time of a photo, and what of it stays | *measured* here |
# | images/s of the host | *estimated*: all cores, divided by this time |
# | speed of the job through the stand-in | *measured*, and says nothing about a card |
# | cycles of the decoder | *simulated* from its circuit |
# | clock of the decoder | *estimated* by place and route, for another chip |
# | how many decoders fit, and what the card delivers | *modelled* from the rows above and published rates |
# | rates of flash, link and accelerator | *published*, none measured here |
# </details>
#
# ## Exercises
#
# **08b.1** Two offloaded jobs, A above and B below. Each has another limit:

# %% tags=["nbval-ignore-output"]
labkit.show(*offloaded_jobs(), labels=("A", "B"))

# %% [markdown]
# Which part sets the speed, and which would set it if this part were twice as fast? Compare the lengths of the blocks. Choose from `"copy in"`, `"kernel"`, `"copy out"`, `"host"` (the threads), and `"accelerator"`.

# %% tags=["stub"]
def limit(job, doubled):
    parts = {"A": (..., ...), "B": (..., ...)}  # the limit, and the limit if it were twice as fast
    return parts[job][doubled]

# %% tags=["solution"]
def limit(job, doubled):
    parts = {"A": ("copy out", "accelerator"), "B": ("host", "kernel")}
    return parts[job][doubled]

# %%
try_it("08b.1", limit)
check("08b.1", limit)

# %% [markdown]
# **08b.2** (optional) Write the kernel `resize`, bilinear, one work-item for each output pixel.
#
# <details><summary>The rule, and what helps</summary>
#
# A column $x$ lies at $(x + \tfrac12)\,\frac{in}{out} - \tfrac12$ in the input, and a row by the same rule. A place below 0 counts as 0, and a place beyond the last pixel as the last pixel. Mix the four pixels around the place, each by its distance. `clamp(v, low, high)`, `min(a, b)` and `mix(a, b, share)`, which is `a + (b - a) * share`, help.
# </details>

# %% tags=["stub"]
resize_source = """
__kernel void resize(__global const float *in, __global float *out, const int in_height, const int in_width,
                     const int out_height, const int out_width)
{
    const int x = get_global_id(0), y = get_global_id(1);  // column and row of the output
    // your code: planes are stored row by row, so the last line is
    // out[y * out_width + x] = ...;
}
"""
resize_source = None  # take this line away to try yours

# %% tags=["solution"]
resize_source = """
float place(int x, int in, int out) { return clamp((x + 0.5f) * in / out - 0.5f, 0.0f, in - 1.0f); }

__kernel void resize(__global const float *in, __global float *out, const int in_height, const int in_width,
                     const int out_height, const int out_width)
{
    const int x = get_global_id(0), y = get_global_id(1);
    const float px = place(x, in_width, out_width), py = place(y, in_height, out_height);
    const int left = (int)px, top = (int)py;
    const int right = min(left + 1, in_width - 1), bottom = min(top + 1, in_height - 1);
    const float above = mix(in[top * in_width + left], in[top * in_width + right], px - left);
    const float below = mix(in[bottom * in_width + left], in[bottom * in_width + right], px - left);
    out[y * out_width + x] = mix(above, below, py - top);
}
"""

# %%
try_it("08b.2", resize_source)
check("08b.2", resize_source)

# %% [markdown]
# **08b.3** Write `decoders(photo_bytes, gb_s, cycles, clock_mhz, multipliers, chip)`. The link carries `gb_s` · 10⁹ bytes per second. One decoder needs `cycles` clock cycles for a photo of `photo_bytes` bytes, and `multipliers` of the `chip` multipliers. Return how many decoders use the whole link, or how many fit if that is less. Two or three lines.

# %% tags=["stub"]
def decoders(photo_bytes, gb_s, cycles, clock_mhz, multipliers, chip):
    ...  # your code

# %% tags=["solution"]
def decoders(photo_bytes, gb_s, cycles, clock_mhz, multipliers, chip):
    import math

    fill = math.ceil((gb_s * 1e9 / photo_bytes) / (clock_mhz * 1e6 / cycles))
    return min(fill, chip // multipliers)

# %%
try_it("08b.3", decoders)
check("08b.3", decoders)

# %% [markdown]
# ## Recap
#
# A profile says what is worth offloading, a comparison whether the pixels stay, CPU time what has left the process. A card is as fast as its slowest engine, and pays where the CPU was the limit.
#
# ## In practice
#
# <details><summary>A filesystem plugin, without labkit</summary>
#
# ```python
# tf.experimental.register_filesystem_plugin("libcard.so")
# names = tf.data.Dataset.list_files("smartssd://card/*.tfrecord?size=224").repeat()
# read = names.interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=4)  # four requests on their way
# batches = read.map(parse, num_parallel_calls=tf.data.AUTOTUNE).batch(32).prefetch(2)
# ```
# </details>
#
# - Measure what stays with the CPU before you buy a device for the rest.
# - Check the pixels before the speed, and state the tolerance.
# - Return uint8, and keep random augmentation where it can change in each epoch.
#
# **Next:** [09 Put it all together](09_put_it_all_together.ipynb): every technique on one scoreboard.
