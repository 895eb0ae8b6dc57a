# %% [markdown]
# # Offload to an FPGA
#
# **You will** see which operations the processor spends its time on, write kernels that do them elsewhere, prove that they compute the same bytes, read preprocessed photos from a "card" through plain `tf.data`, and ask a model what a real card would gain.
#
# **You will learn** what "the same pixels" means between libraries, how a filesystem becomes an accelerator, and when offload does not pay.
#
# **You need** notebooks 01 and 04. No FPGA, no GPU. About 50 minutes.

# %% tags=["bootstrap", "nbval-ignore-output"]
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf
from labkit import accelerators, card, charts, discrepancy, offload, photos, plain, predictions, reference
from labkit.offload import calibration, tokens, twins
from PIL import Image

# %% [markdown]
# Kernels are written in OpenCL and run on the first device of this machine. Usually that is PoCL: OpenCL on the processor itself. It proves that a kernel computes the right bytes. It says *nothing* about the speed of an FPGA.

# %% tags=["nbval-ignore-output"]
device = offload.devices()[0] if twins.has_device() else None
kernels = offload if device else twins
print(device or "No OpenCL device: NumPy twins stand in for the kernels below, slower, with the same bytes.")
album = photos.load().take(64)
few = album.take(8)
files = [Path(path).read_bytes() for path in few.paths]
h100 = accelerators.modelled("H100")

# %% [markdown]
# ## Predict
#
# The slides that this notebook follows profiled this job: about half of the processor's time went into three operations, `DecodeJpeg`, `ResizeBilinear` and `AdjustSaturation`. What share, 0 to 1, will it be here?

# %% tags=["nbval-ignore-output"]
print(predictions.commit("08.share", 0.5, unit="share"))

# %%
def load(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3, dct_method="INTEGER_ACCURATE")
    return tf.image.resize(tf.image.convert_image_dtype(image, tf.float32), [224, 224]), label


def augment(image, label):
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_brightness(image, max_delta=32 / 255)
    image = tf.image.random_saturation(image, 0.5, 1.5)
    return tf.clip_by_value(image, 0, 1), label

# %%
def job(elements, function):
    return plain(elements.repeat().map(lambda *e: augment(*function(*e)), num_parallel_calls=4).batch(32).prefetch(2))

# %% tags=["nbval-ignore-output"]
on_cpu = labkit.record(job(album.files(), load), h100, steps=6, warmup=2, name="all on the CPU")
work = {}
for (category, name), ns in labkit.Timeline(on_cpu).work_ns_by_name.items():
    if category != "iterator":  # waiting and bookkeeping of tf.data
        operation = name.rpartition(":")[2]
        work[operation] = work.get(operation, 0) + ns / 1e6 / on_cpu.run.images
cpu_ms = sum(work.values())
largest = dict(sorted(work.items(), key=lambda item: -item[1])[:8])
charts.bars(largest, unit="ms of CPU per photo", title="Where the CPU time goes", note=f"Together {cpu_ms:.2f} ms.")

# %% tags=["nbval-ignore-output"]
share = sum(work.get(name, 0) for name in ("DecodeJpeg", "ResizeBilinear", "AdjustSaturation")) / cpu_ms
predictions.review("08.share", measured=share)

# %% [markdown]
# (Their share was of all that the processor did, this one is of the pipeline's operations.) Three operations, most of the work, and each does the same simple thing to every pixel. That is what hardware is good at. The slides therefore move four kernels to an FPGA beside the SSD: decode, resize, brightness, and normalise with clip.
#
# ## Build: a kernel
#
# An OpenCL kernel is a function that runs once per *work-item*. Here work-item `i` turns one byte into a share of full brightness:

# %%
scale = """
__kernel void scale(__global const uchar *in, __global float *out)
{
    const int i = get_global_id(0);
    out[i] = in[i] / 255.0f;
}
"""
levels = np.arange(256, dtype=np.uint8)


def attempt(source, limit_s=20):
    if device is None:
        return "no OpenCL device: nothing was run"
    tried = offload.try_kernel(source, "scale", [levels, np.zeros(256, np.float32)], 256, limit_s=limit_s)
    if not tried.ok:
        return tried.text
    return f"equal to its twin: {np.array_equal(tried.outputs['out'], reference.normalize_clip(levels, 0))}"

# %% [markdown]
# Nothing can interrupt a kernel, and on a CPU it may write anywhere. So `try_kernel` runs it in a child process. Whatever happens there, this notebook lives. The kernel as it is, then with an endless loop, without a semicolon, and writing far outside of its array:

# %% tags=["nbval-ignore-output"]
print(attempt(scale))
print(attempt(scale.replace("out[i] =", "while (1) out[i] ="), limit_s=3))
print(attempt(scale.replace("255.0f;", "255.0f")))
print(attempt(scale.replace("out[i]", "out[i + 100000000]")))

# %% [markdown]
# The exercises below ask for two kernels of your own: clip, then resize. The lab's are in the folder `kernels`, each twice: for many work-items, and as a *task*, one work-item with loops that an FPGA's compiler turns into a pipeline. An ideal pipeline takes one value in each clock cycle; the distance in cycles is its *initiation interval*.

# %% [markdown]
# ## Run: the four kernels
#
# Each has a twin in NumPy, `labkit.reference`, to read and to test against. The judge is TensorFlow, given the same random numbers.

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

# %%
photo = next(i for i, status in enumerate(ours.status) if status.code == "fine")
decoded = ours.images[photo]
exact = tf.io.decode_jpeg(files[photo], channels=3, dct_method="INTEGER_ACCURATE").numpy()
made = kernels.preprocess(files, dtype="float32", augment=True, seed=8)
good = [i for i, status in enumerate(made.status) if status.ok]
expected = {i: by_tensorflow(files[i], made.draws.flip[i], made.draws.delta[i], made.draws.factor[i]) for i in good}
apart = max(float(tf.reduce_max(abs(expected[i] - made.images[i]))) for i in good)
print("decode: largest difference", int(discrepancy.between(decoded, exact).largest))
print("all of them, fused into one, within 0.00001:", apart < 1e-5)

# %% [markdown]
# Fused, a photo is written once. One by one, each kernel is copied to, launched and copied from, and its result can be looked at:

# %%
def launch(name, size, given, *scalars, shape):
    engine = offload.Engine()
    out = engine.empty(4 * int(np.prod(shape)))
    engine.run(engine.kernel(name), size, engine.upload(given), out, *scalars)
    return engine.download(out, np.empty(shape, np.float32))

# %%
def by_kernel(plane, shares, i=np.int32, f=np.float32):
    (h, w), pixels, seed, step = plane.shape, shares[..., 0].size, np.uint32([8, 0]), np.uint32([0, 0])
    sides = i(h), i(w), i(224), i(224), f(h / 224), f(w / 224)
    resized = launch("resize_bilinear", (224, 224), plane, *sides, shape=(224, 224))
    brighter = launch(
        "random_brightness", (pixels, 1), shares, i(1), i(pixels), seed, step, f(32 / 255), shape=shares.shape
    )
    return resized, brighter, launch("normalize_clip", (h * w,), plane, f(0.2), i(h * w), shape=(h, w))


def by_twin(plane, shares):
    brighter = reference.random_brightness(shares[None], 8, 0, 32 / 255)[0]
    return reference.resize_bilinear(plane, 224, 224), brighter, reference.normalize_clip(plane, 0.2)

# %% tags=["nbval-ignore-output"]
plane, shares = decoded[:, :, 0].copy(), decoded[:64, :64] / np.float32(255)
resized, brighter, clipped = by_kernel(plane, shares) if device else by_twin(plane, shares)
delta = reference.draws(1, 8, 0, 32 / 255, (0.5, 1.5)).delta[0]
as_float = tf.image.convert_image_dtype(plane, tf.float32)
four_kernels = {
    "decode": (decoded, exact),
    "bilinear resize": (resized / 255, tf.image.resize(plane[..., None], [224, 224])[..., 0] / 255),
    "brightness": (brighter, tf.image.adjust_brightness(shares, delta)),
    "normalise and clip": (clipped, tf.clip_by_value(as_float + 0.2, 0, 1)),
}
print(discrepancy.table(four_kernels))

# %% [markdown]
# Decoding agrees in every bit, since it computes in whole numbers only. That deserves a picture, beside TensorFlow's *own* other way to decode: without `dct_method`, `decode_jpeg` takes a quicker inverse cosine transform.

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
# "Decode and resize to 224×224, bilinear" is one line in any library. Compare with TensorFlow, in grey levels:

# %% tags=["nbval-ignore-output"]
four = np.round(tf.image.resize(exact, [224, 224])).astype(np.uint8)
smooth = np.round(tf.image.resize(exact, [224, 224], antialias=True)).astype(np.uint8)
pillow = np.asarray(Image.fromarray(exact).resize((224, 224), Image.Resampling.BILINEAR))
opencv, who = discrepancy.opencv_linear(exact, 224, 224)
print(
    discrepancy.table(
        {
            "decode, default": (default, exact),
            "resize, Pillow": (pillow, four),
            "Pillow, antialias": (pillow, smooth),
            "resize, OpenCV": (opencv, four),
        }
    )
)
print(who)

# %% [markdown]
# Pillow's "bilinear" averages over all pixels that become one, TensorFlow's and OpenCV's mix four and skip the rest; `antialias=True` does as Pillow. A network trained on one and served with another sees other pictures, and no error tells you. Choose one, write it down, and compare with a table like this one.
#
# ## A mistake in the source
#
# The slides explain random brightness with a matrix: another random number for every pixel. `tf.image.random_brightness` draws **one** number for the image. The matrix is noise, not light:

# %% tags=["nbval-ignore-output"]
small = reference.resize_bilinear(exact, 64, 64)[None] / np.float32(255)
discrepancy.gallery(
    {
        "one number (TensorFlow)": reference.random_brightness(small, 8, 0, 0.5)[0],
        "a number for each pixel (slides)": reference.random_brightness_per_pixel(small, 8, 0, 0.5)[0],
    },
    title="Random brightness, exaggerated",
)

# %% [markdown]
# And two of its sums are wrong. The slide prints 0.721 and 0.026:

# %%
print(f"0.832 + 0.111 = {0.832 + 0.111:.3f}")
print(f"0.473 + 0.014 = {0.473 + 0.014:.3f}")

# %% [markdown]
# ## Prepared offline
#
# What would be left if somebody else had decoded and resized? Write 224×224 pixels to files once, and compare reading those with the raw JPEGs. The augmentation stays in both: stored, it would be frozen (notebook 05).

# %% tags=["nbval-ignore-output"]
room = tempfile.TemporaryDirectory()
same = few.reordered(good)
ready = kernels.preprocess([files[i] for i in good]).images
stored = [Path(room.name) / f"{i}.raw" for i in good]
for path, image in zip(stored, ready):
    path.write_bytes(image.tobytes())


def load_ready(path, label):
    image = tf.reshape(tf.io.decode_raw(tf.io.read_file(path), tf.uint8), [224, 224, 3])
    return tf.image.convert_image_dtype(image, tf.float32), label


names = tf.data.Dataset.from_tensor_slices(([str(path) for path in stored], same.labels))
both = {"raw JPEG": job(same.files(), load), "prepared offline": job(names, load_ready)}
measured = labkit.measure(both, accelerators.modelled(step_ms=1), steps=6, warmup=2, repeats=4)
print(measured.speedup("prepared offline"))
rates = {name: [one.images_per_s for one in measured[name]] for name in both}
charts.bars(rates, unit="images per second", title="Raw JPEG, and the same photos prepared offline")

# %% [markdown]
# That gain is the size of the processor's overhead, and the price is disk (look at notebook 07). A card would give the gain and keep the JPEGs.
#
# ## The card
#
# TensorFlow opens files through a *filesystem*, chosen by the prefix of the name: `gs://`, `s3://`, `hdfs://`. Whoever registers a new prefix can compute while it reads. `smartssd://` does: a small C++ plugin asks a process of its own, the card, which runs the kernels. The pipeline is plain `tf.data`, and the name says what is wanted:

# %%
def through_the_card():
    root = Path(album.paths[0]).parent.parent
    with card.Card(root, name="lesson") as served:
        uris = [served.uri(path, size=224, dtype="uint8") for path in same.paths]
        print(uris[0].rpartition("/")[2])
        read = tf.data.Dataset.from_tensor_slices(uris).map(tf.io.read_file, num_parallel_calls=4)
        pictures = read.map(lambda data: tf.reshape(tf.io.decode_raw(data, tf.uint8), [224, 224, 3]))
        arrived = list(pictures.batch(4).prefetch(1).as_numpy_iterator())
    return np.array_equal(np.concatenate(arrived), ready)

# %% tags=["nbval-ignore-output"]
try:
    card.register()
    print("the same bytes through smartssd://", through_the_card())
except (RuntimeError, OSError, tf.errors.OpError) as error:
    print(f"no card on this machine ({error}); nothing below needs it")

# %% [markdown]
# The methods of TensorFlow's filesystem class, as the slides list them, and what this plugin does with each:

# %%
for method in card.METHODS:
    print(f"{method.name}\n    {method.what}\n    here: {method.plugin}")

# %% [markdown]
# ## A card that nobody has: the model
#
# How fast would a real SmartSSD be, an FPGA beside the flash? Nothing here can measure that, so it is *modelled*, from published figures. A photo passes three stages: the link from the flash, the decoder, the output to the host. The decoder needs a clock cycle per Huffman symbol (*token*), so count those, in your photos, with a kernel:

# %% tags=["nbval-ignore-output"]
everything = [Path(path).read_bytes() for path in album.paths]
counted = tokens.count(everything) if device else tokens.count_on_host(files)
ssd = offload.SmartSSD()
host = {"cpu_ms": cpu_ms, "cores": labkit.cores(), "accelerator": 1e9 / h100.step_ns(1)}
print(counted)
ssd.answer(counted, **host)

# %% [markdown]
# The read size matters. A photo is a small read, and small reads use only a part of the link:

# %% tags=["nbval-ignore-output"]
ssd.p2p_picture(float(counted.bytes.mean()))

# %% [markdown]
# How good is such a model? One published picture fixes its one free number. Hold it against the vendor's other pictures before you believe it:

# %% tags=["nbval-ignore-output"]
print(calibration.check(files[photo], offload.Engine() if device else None))
second = ssd.changed(**calibration.READINGS["per call"]).answer(counted)
print(f"your photos, read per call: {second.per_instance:,.0f} images/s for one decoder")

# %% [markdown]
# Two readings of one page fit the calibrated picture; only one fits the others. With one point, any model with a free number is "right". Give a range, and say what it rests on.
#
# ## The timeline
#
# The job as recorded above, and the same job fed by the modelled card, on one axis. The lower half is a prediction:

# %% tags=["nbval-ignore-output"]
with_card = ssd.trace(counted, h100, cores=host["cores"])
labkit.show(on_cpu, with_card, labels=("all on the CPU", "SmartSSD, modelled"), steps=2)

# %% [markdown]
# ## Explain
#
# Below, the processor has no lane: it hands over finished batches. The decoder's lane is full. For this model, "what to change" means more decoders, not a `map` option: with as many as fill the link, the next limit is the read size, then the output. Send uint8 and divide by 255 on the accelerator; float32 is four times the bytes, several times the JPEG.
#
# ## When offload does not pay
#
# Ask the model what the card gains as photos get cheaper or dearer for the processor, with an accelerator that takes everything:

# %% tags=["nbval-ignore-output"]
cards = {
    "1 decoder": ssd,
    "8 decoders, uint8": ssd.changed(decoders=8),
    "8 decoders, float32": ssd.changed(decoders=8, output="float32"),
    "8 decoders, reads of 4 KB": ssd.changed(decoders=8, read_bytes=4096),
}
costs = [0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2]
gains = {n: [c.answer(counted, cpu_ms=ms, cores=host["cores"]).gain for ms in costs] for n, c in cards.items()}
gains["no gain"] = [1] * len(costs)
charts.lines(
    costs, gains, x_label="ms of CPU per photo", y_label="times faster than without a card", log_x=True,
    title="What a card gains (modelled)", note=f"{host['cores']} cores. Below 1 the card is slower than the CPU.",
)  # fmt: skip

# %% tags=["nbval-ignore-output"]
eight = cards["8 decoders, uint8"]
cases = {
    "this job, 1 decoder": (ssd, {}),
    "this job, 8 decoders": (eight, {}),
    "a slow accelerator": (eight, {"accelerator": 50}),
    "small pictures": (eight, {"cpu_ms": 0.1}),
    "64 cores": (eight, {"cores": 64}),
    "float32": (cards["8 decoders, float32"], {"cpu_ms": 0.4, "accelerator": 50_000}),
}
for name, (one, changes) in cases.items():
    print(f"{name:<22}{one.answer(counted, **(host | changes)).verdict}")

# %% [markdown]
# Offload does not pay where the accelerator is fed already, where a photo costs the processor little, where there are cores enough, where reads are small, or where the output is larger than what was saved.
#
# ## Exercises
#
# **08.1** Write the kernel `clip_values(in, out, low, high)`: `__global const float *in`, `__global float *out`, two floats. One value per work-item, at least `low`, at most `high`. One line in the body.

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
labkit.try_it("08.1", clip_source)
labkit.check("08.1", clip_source)

# %% [markdown]
# **08.2** Write `resize(in, out, in_height, in_width, out_height, out_width)`: one plane of floats, four ints, global size (out_width, out_height). Output pixel $x$ lies at $(x + \tfrac12)\,\frac{in}{out} - \tfrac12$, not below 0 and not beyond the last pixel; mix the four pixels around it. About ten lines.

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
labkit.try_it("08.2", resize_source)
labkit.check("08.2", resize_source)

# %% [markdown]
# **08.3** Write `decoders(photo_bytes, gb_s, cycles, clock_mhz)`: how many decoders use up a link of `gb_s` (10⁹ bytes a second), if one needs `cycles` for a photo. Two lines.

# %% tags=["stub"]
def decoders(photo_bytes, gb_s, cycles, clock_mhz):
    ...  # your code

# %% tags=["solution"]
def decoders(photo_bytes, gb_s, cycles, clock_mhz):
    import math

    return math.ceil((gb_s * 1e9 / photo_bytes) / (clock_mhz * 1e6 / cycles))

# %%
labkit.try_it("08.3", decoders)
labkit.check("08.3", decoders)

# %% [markdown]
# ## Recap
#
# You saw three operations take most of the processor's time, ran them as kernels that agree with TensorFlow, in the decoder to the last bit, and saw that a default, a filter or a random matrix makes other pixels. You read preprocessed photos through a filesystem, and predicted a card with a model whose error you checked.
#
# ## In practice
#
# - Verify pixels before speed, and state the tolerance.
# - Name `dct_method` and the resize filter; use the same in training and serving.
# - Measure the CPU's share first. Offload what is large; return uint8.
# - Label what is modelled, and test the model on a point that it was not fitted to.
#
# **Next:** [09 Put it all together](09_put_it_all_together.ipynb): every technique on one scoreboard, and what a real model gains.
