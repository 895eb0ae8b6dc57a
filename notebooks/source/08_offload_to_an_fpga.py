# %% [markdown]
# # Offload to an FPGA
#
# An [FPGA](../docs/glossary.md#fpga) (field-programmable gate array) is a chip whose circuit you configure. A CPU has a fixed circuit and runs your program on it. On an FPGA you decide which arithmetic units exist and how they are connected, so your program *becomes* the circuit.
#
# **You will** see which operations the processor spends its time on, write small programs for another device, and prove that these programs compute the same bytes as TensorFlow.
#
# **You will learn** how a circuit works on many values at once, why JPEG decoding is hard to speed up, and what "the same pixels" means between libraries.
#
# **You need** notebooks 01 and 04. You need no FPGA and no GPU. About 75 minutes.

# %% tags=["bootstrap", "nbval-ignore-output"]
import numpy as np
import tensorflow as tf
from labcourse import check, idea, predictions, try_it
from labextras import offload
from labextras.offload import twins as reference
from labkit import accelerators, charts, discrepancy, photos, plain
from labextras.offload import twins

# %% [markdown]
# [OpenCL](../docs/glossary.md#opencl) is a language for programs that run on many kinds of devices: CPUs, GPUs and FPGAs. A *kernel* is a function that is written in this language and runs on one of these devices. To *offload* work is to move the work from the CPU to another device.
#
# The kernels below run on the first OpenCL device of your machine. Usually this device is PoCL, which runs the kernels on your processor. PoCL proves that a kernel computes the right bytes. PoCL says *nothing* about the speed of an FPGA.

# %% tags=["nbval-ignore-output"]
device = offload.devices()[0] if twins.has_device() else None
kernels = offload if device else twins  # without a device, NumPy computes the same bytes, more slowly
print(device or "There is no OpenCL device: NumPy computes what the kernels would compute.")
album = photos.load().take(64)
files = [tf.io.read_file(path).numpy() for path in album.paths[:8]]

# %% [markdown]
# ## The idea
#
# In the upper part of the drawing, the *host* does all the work. The host is the computer with its CPU. In the lower part, a second device inside the computer, a *card*, reads and decodes the photos, so the CPU has less work. The second drawing shows the way of a photo, today and with a card.

# %%
display(idea("08"))
idea("08.card")

# %% [markdown]
# ## Predict
#
# This notebook follows slides whose authors profiled the same kind of job. About half of the processor's time went into three operations: `DecodeJpeg`, `ResizeBilinear` and `AdjustSaturation`. What share of the time, from 0 to 1, do these three operations take on your machine? Replace the three dots by your number.

# %% tags=["nbval-ignore-output"]
print(predictions.commit("08.share", ..., unit="share"))

# %% [markdown]
# ## The timeline
#
# First look at the whole job on the CPU, before a modelled H100:

# %%
def load(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3, dct_method="INTEGER_ACCURATE")
    return tf.image.resize(tf.image.convert_image_dtype(image, tf.float32), [224, 224]), label


def augment(image, label):
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_brightness(image, max_delta=32 / 255)
    image = tf.image.random_saturation(image, 0.5, 1.5)
    return tf.clip_by_value(image, 0, 1), label

# %% tags=["nbval-ignore-output"]
def both(path, label):
    return augment(*load(path, label))


job = plain(album.files().repeat().map(both, num_parallel_calls=labkit.cores()).batch(32).prefetch(2))
on_cpu = labkit.record(job, accelerators.modelled("H100"), steps=6, warmup=2, name="all on the CPU")
labkit.show(on_cpu, steps=3)

# %% [markdown]
# Which operations do these threads run? The bars show the time of each operation per photo, all threads together:

# %% tags=["nbval-ignore-output"]
ops = labkit.Timeline(on_cpu).ops_ms
largest = dict(list(ops.items())[:8])
charts.bars(largest, unit="ms of CPU per photo", title="Where the CPU time goes")

# %% tags=["nbval-ignore-output"]
three = sum(ops.get(name, 0) for name in ("DecodeJpeg", "ResizeBilinear", "AdjustSaturation"))
predictions.review("08.share", measured=three / sum(ops.values()))

# %% [markdown]
# (The slides counted everything that the processor did. We count only the operations of the pipeline.)
#
# Resizing and changing the saturation do the same simple thing to every pixel. Such work is easy to spread over many arithmetic units. Decoding has two parts. A JPEG file stores blocks of 8×8 pixels, and a *Huffman code* for each number in a block: frequent numbers get short bit patterns, rare numbers get long bit patterns. One code, together with the bits that belong to it, is a *token*. The first part, *entropy decoding*, reads the tokens. The second part turns the numbers of each block into pixels.
#
# Entropy decoding cannot work on several tokens of a photo in parallel. The tokens have different lengths, so the place where a token begins is known only after the token before it has been read. The second part is easy: blocks do not depend on each other.
#
# The slides move four operations to an FPGA that sits beside the drive: decode, resize, brightness, and normalise with clip. (To *normalise* is to turn grey levels from 0 to 255 into numbers from 0 to 1.)
#
# ## Build: a kernel
#
# A device runs an OpenCL kernel many times at once. Each of these runs is a *work-item* and has a number. Here work-item `i` turns byte `i` into a share of full brightness:

# %%
scale = """
__kernel void scale(__global const uchar *in, __global float *out)
{
    const int i = get_global_id(0);
    out[i] = in[i] / 255.0f;
}
"""

# %% tags=["nbval-ignore-output"]
levels = np.arange(256, dtype=np.uint8)


def attempt(source, limit_s=20):
    return kernels.try_kernel(source, "scale", [levels, np.zeros(256, np.float32)], 256, limit_s=limit_s)


tried = attempt(scale)
print(tried)
print("equal to NumPy:", np.array_equal(tried.outputs.get("out"), levels / np.float32(255)))

# %% [markdown]
# Nothing can interrupt a kernel, and a kernel on a CPU can write anywhere in memory. For this reason `try_kernel` runs your kernel in a process of its own. If that process crashes, this notebook goes on. Here are three broken kernels: an endless loop, a missing semicolon, and a write far outside of the array.

# %% tags=["nbval-ignore-output"]
print(attempt(scale.replace("out[i] =", "while (1) out[i] ="), limit_s=3))
print(attempt(scale.replace("255.0f;", "255.0f")))
print(attempt(scale.replace("out[i]", "out[i + 100000000]")))

# %% [markdown]
# On an FPGA the usual form of a kernel is a *task*: a kernel with a single work-item that contains a loop. The compiler turns the loop into a *hardware pipeline*. This circuit has one stage for each operation of the loop, for example load, multiply and store. All stages work at the same time, each on another value. The [initiation interval](../docs/glossary.md#initiation-interval) is the number of clock cycles from the start of one value to the start of the next. With an interval of 1, a value enters in every clock cycle. With an interval of 4, a value enters in every fourth cycle only, so many values take about four times as long.

# %%
idea("08.interval")

# %% [markdown]
# The folder `kernels` of the lab holds each kernel in both forms: for many work-items, and as a task. Entropy decoding suits a task: a circuit with an interval of 1 reads one token in each clock cycle. Several of these circuits, side by side, decode several photos.
#
# ## Run: the four kernels
#
# For each kernel, `reference` has a function in NumPy that computes the same numbers and is easier to read. Are these numbers right? TensorFlow decides. It gets the same random numbers:

# %%
def by_tensorflow(data, flip, delta, factor):
    image = tf.io.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE")
    image = tf.image.resize(tf.image.convert_image_dtype(image, tf.float32), [224, 224])
    image = tf.image.flip_left_right(image) if flip else image
    image = tf.image.adjust_saturation(tf.image.adjust_brightness(image, delta), factor)
    return tf.clip_by_value(image, 0, 1)

# %% tags=["nbval-ignore-output"]
ours = kernels.decode(files)
ours

# %% [markdown]
# A *progressive* JPEG stores the photo several times, each time with more detail. A *baseline* JPEG stores it once. The kernels decode baseline JPEGs, and the host decodes the others.

# %%
photo = next(i for i, status in enumerate(ours.status) if status.code == "fine")
decoded = ours.images[photo]
exact = tf.io.decode_jpeg(files[photo], channels=3, dct_method="INTEGER_ACCURATE").numpy()
made = kernels.preprocess(files, dtype="float32", augment=True, seed=8)
drawn, differences = made.draws, []
for i in [i for i, status in enumerate(made.status) if status.ok]:
    expected = by_tensorflow(files[i], drawn.flip[i], drawn.delta[i], drawn.factor[i])
    differences.append(np.abs(expected - made.images[i]).max())
print("decode: largest difference", int(discrepancy.between(decoded, exact).largest))
print("all steps in one kernel, within 0.00001:", max(differences) < 1e-5)

# %% [markdown]
# `preprocess` runs all steps in one kernel, so that each photo is written to memory only once. To look at the result of each step, run the kernels one by one:

# %%
plane, colours = decoded[:, :, 0], decoded[None, :64, :64] / np.float32(255)
resized = kernels.resize_bilinear(plane, 224, 224)
brighter = kernels.random_brightness(colours, 8, 0, 32 / 255)
clipped = kernels.normalize_clip(plane, 0.2)

# %% tags=["nbval-ignore-output"]
delta = reference.draws(1, 8, 0, 32 / 255, (0.5, 1.5)).delta[0]  # the random number that the kernel drew
shares = tf.image.convert_image_dtype(plane, tf.float32)
one_by_one = {
    "decode": (decoded, exact),
    "bilinear resize": (resized / 255, tf.image.resize(plane[..., None], [224, 224])[..., 0] / 255),
    "brightness": (brighter, tf.image.adjust_brightness(colours, delta)),
    "normalise and clip": (clipped, tf.clip_by_value(shares + 0.2, 0, 1)),
}
print(discrepancy.table(one_by_one))

# %% [markdown]
# Decoding agrees in every bit, because it uses whole numbers only. The other three kernels use floating-point numbers, so the last digits can differ.
#
# Now compare with TensorFlow's *own* second way to decode. Without `dct_method`, `decode_jpeg` uses a faster and less exact formula for the second part of decoding:

# %% tags=["nbval-ignore-output"]
default = tf.io.decode_jpeg(files[photo], channels=3).numpy()
corner = np.s_[100:164, 100:164]
pairs = {
    "our kernels - TensorFlow, INTEGER_ACCURATE": (decoded[corner], exact[corner]),
    "TensorFlow, default - INTEGER_ACCURATE": (default[corner], exact[corner]),
}
discrepancy.differences(pairs, title="The same JPEG, decoded")

# %% [markdown]
# ## The same name, other pixels
#
# "Decode and resize to 224×224, bilinear" is one line in any library. Compare the libraries with TensorFlow, in grey levels:

# %% tags=["nbval-ignore-output"]
from PIL import Image

four = np.round(tf.image.resize(exact, [224, 224])).astype(np.uint8)
smooth = np.round(tf.image.resize(exact, [224, 224], antialias=True)).astype(np.uint8)
pillow = np.asarray(Image.fromarray(exact).resize((224, 224), Image.Resampling.BILINEAR))
opencv, who = discrepancy.opencv_linear(exact, 224, 224)
against = {"decode, default": (default, exact), "resize, Pillow": (pillow, four)}
against |= {"Pillow, antialias": (pillow, smooth), f"resize, {who}": (opencv, four)}
print(discrepancy.table(against))

# %% [markdown]
# Pillow's "bilinear" takes the average of all pixels that become one pixel. TensorFlow and OpenCV mix four pixels and skip the others. With `antialias=True`, TensorFlow does what Pillow does. If you train a network with one library and use the network with another library, it sees different pixels, and no error tells you. Choose one library, write your choice down, and compare the pixels with a table like the table above.
#
# ## A mistake in the source
#
# The slides explain random brightness with a matrix: another random number for every pixel. But `tf.image.random_brightness` draws **one** number for the whole image. With a number for each pixel, the picture becomes grainy, and its brightness as a whole stays near that of the original. Compare the means:

# %% tags=["nbval-ignore-output"]
small = reference.resize_bilinear(exact, 64, 64)[None] / np.float32(255)
shown = {
    "original": small[0],
    "one number (TensorFlow)": reference.random_brightness(small, 8, 0, 0.5)[0],
    "a number for each pixel (slides)": reference.random_brightness_per_pixel(small, 8, 0, 0.5)[0],
}
discrepancy.gallery(shown, title="Random brightness, exaggerated")

# %% [markdown]
# Two sums on the same slide are wrong as well. The slide prints 0.721 and 0.026:

# %%
print(f"0.832 + 0.111 = {0.832 + 0.111:.3f}")
print(f"0.473 + 0.014 = {0.473 + 0.014:.3f}")

# %% [markdown]
# ## Explain
#
# A kernel is useful only if it computes the same pixels as the program that it replaces. "The same" needs a tolerance. Operations on whole numbers can agree in every bit. Floating-point operations agree up to rounding. Another formula or another filter gives other pixels, even under the same name.
#
# An FPGA is fast for two reasons. The stages of its pipeline all work at the same time, and you can place the same circuit on the chip several times. Entropy decoding gains from both: one circuit reads a token in each clock cycle, and several circuits decode several photos.
#
# ## Exercises
#
# **08.1** Write the kernel `clip_values(in, out, low, high)`. Its arguments are `__global const float *in`, `__global float *out`, and two floats. Each work-item handles one value. The result is at least `low` and at most `high`. The body needs one or two lines.

# %% tags=["stub"]
clip_source = None  # your code: OpenCL C as a text

# %% tags=["solution"]
clip_source = """
__kernel void clip_values(__global const float *in, __global float *out, const float low, const float high)
{
    const int i = get_global_id(0);
    out[i] = clamp(in[i], low, high);
}
"""

# %%
try_it("08.1", clip_source)
check("08.1", clip_source)

# %% [markdown]
# **08.2** Write the kernel `resize(in, out, in_height, in_width, out_height, out_width)` in about ten lines:
#
# - `in` and `out` point to planes of floats, row by row. The other four arguments are ints.
# - There is one work-item for each output pixel. `get_global_id(0)` is its column, `get_global_id(1)` its row.
# - Output column $x$ lies at $(x + \tfrac12)\,\frac{in}{out} - \tfrac12$ in the input, and rows follow the same rule. A place below 0 counts as 0. A place beyond the last pixel counts as the last pixel.
# - Mix the four input pixels around that place, each by its distance.

# %% tags=["stub"]
resize_source = None  # your code: OpenCL C as a text

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
try_it("08.2", resize_source)
check("08.2", resize_source)

# %% [markdown]
# ## Recap
#
# You saw that three operations take most of the processor's time. You ran these operations as kernels that agree with TensorFlow, and decoding agrees in every bit. You saw that a default setting, a filter or a random matrix gives other pixels.
#
# ## In practice
#
# - Check the pixels before you look at the speed, and state the tolerance.
# - Name `dct_method` and the resize filter. Use the same ones in training and in use.
# - Measure the share of each operation first. Offload what is large.
#
# **Optional:** [08b Read from a card](08b_read_from_a_card.ipynb): a drive with an FPGA decodes the photos, and a model says when this drive pays.
#
# **Next:** [09 Put it all together](09_put_it_all_together.ipynb): every technique on one scoreboard, and a real model.
