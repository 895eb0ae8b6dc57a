# %% [markdown]
# # Open a JPEG
#
# This notebook is optional: no other one needs it.
#
# **You will** take a photo apart until only bits are left, and put it together again, equal to TensorFlow in every pixel.
#
# **You will learn** which steps of a JPEG lose something, which step takes the time, and what *decode only a part* really skips.
#
# **You need** notebook 00, and arrays of NumPy. No GPU. About 30 minutes, and 15 more for the two sections on resizing.

# %% tags=["bootstrap", "nbval-ignore-output"]
import time

import numpy as np
import tensorflow as tf
from labcourse import check, idea, try_it
from labextras.offload import twins
from labkit import charts, discrepancy, photos

# %% [markdown]
# ## The idea
#
# A camera writes a photo once. A training job decodes it in every epoch, by the same steps backwards.

# %%
idea("00b")

# %% [markdown]
# ## Your photo
#
# Take a JPEG of your own: drag it into the list of files, and write its name below.

# %% tags=["nbval-ignore-output"]
path = photos.load().paths[3]  # or "my_photo.jpg"
data, kind = twins.open_photo(path)
print(kind)

# %%
photo = tf.io.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE").numpy()
height, width = photo.shape[:2]
print(f"{height}×{width} pixels in {len(data):,} bytes")
print(f"{8 * len(data) / (height * width):.1f} bits for a pixel; in memory it has 24")

# %% [markdown]
# ## Planes
#
# A JPEG does not store red, green and blue. It stores the brightness Y and two differences of colour, Cb (blue − Y) and Cr (red − Y): another way to write the same numbers.

# %%
red, green, blue = np.moveaxis(photo.astype(float), -1, 0)
y = 0.299 * red + 0.587 * green + 0.114 * blue
cb = 128 + 0.564 * (blue - y)
cr = 128 + 0.713 * (red - y)


def grey(plane):
    return np.dstack([plane / 255] * 3)

# %% tags=["nbval-ignore-output"]
planes = {"photo": photo, "Y: brightness": grey(y), "Cb: bluer than Y": grey(cb), "Cr: redder than Y": grey(cr)}
discrepancy.gallery(planes, title="Three planes")

# %% [markdown]
# ## Subsampling: the first loss
#
# The eye sees fine brightness, but no fine colour. So most JPEGs keep one number of Cb and one of Cr for each 2×2 pixels: half of all numbers are gone. What if we did the same to Y?

# %%
def coarse(plane, by=2):
    full = np.pad(plane, [(0, -side % by) for side in plane.shape], "edge")
    small = full.reshape(len(full) // by, by, -1, by).mean((1, 3))
    return small.repeat(by, 0).repeat(by, 1)[:height, :width]


def rgb(y, cb, cr):
    cb, cr = cb - 128, cr - 128
    image = np.dstack([y + 1.402 * cr, y - 0.344 * cb - 0.714 * cr, y + 1.772 * cb])
    return np.clip(image, 0, 255) / 255


top, left = int(0.54 * max(height - 96, 0)), int(0.72 * max(width - 96, 0))
part = np.s_[top : top + 96, left : left + 96]

# %% tags=["nbval-ignore-output"]
coarser = {"photo": photo[part], "Cb, Cr: 2×2": rgb(y, coarse(cb), coarse(cr))[part]}
coarser |= {"Cb, Cr: 8×8": rgb(y, coarse(cb, 8), coarse(cr, 8))[part], "Y: 2×2": rgb(coarse(y), cb, cr)[part]}
discrepancy.gallery(coarser, title="One number for each 2×2 or 8×8 pixels")

# %% [markdown]
# ## A block, and its DCT
#
# Each plane is cut into blocks of 8×8. This is one block of Y, less 128, so that its numbers lie around 0:

# %%
row, column = min(23, height // 8 - 1), min(28, width // 8 - 1)  # any other block will do
luma = y[8 * row : 8 * row + 8, 8 * column : 8 * column + 8] - 128
print(luma.round().astype(int))

# %% [markdown]
# The *discrete cosine transform* (DCT) writes the block as a sum of 64 pictures of waves. Its 64 *coefficients* say how much of each picture is in the block. They are as many as before, but few are large, and most of these belong to slow waves, top left. Fast waves are to the right and below. They are large only where a hard edge runs through the block.

# %%
k, n = np.mgrid[:8, :8]
waves = np.cos(np.pi * (2 * n + 1) * k / 16) / 2
waves[0] /= np.sqrt(2)
coefficients = waves @ luma @ waves.T
print(coefficients.round().astype(int))

# %% tags=["nbval-ignore-output"]
def strongest(count):
    limit = np.sort(np.abs(coefficients), axis=None)[-count]
    return waves.T @ np.where(np.abs(coefficients) >= limit, coefficients, 0) @ waves + 128


pictures = np.einsum("un,vm->unvm", waves, waves) * 4 * 127 + 128
pictures = np.pad(pictures, ((0, 0), (0, 1), (0, 0), (0, 1)), constant_values=255).reshape(72, 72)
shown = {"64 pictures": grey(pictures), "the 2 strongest, added": grey(strongest(2))}
shown |= {"the 5 strongest": grey(strongest(5)), "all 64: the block": grey(strongest(64))}
discrepancy.gallery(shown, title="A block is a sum of waves")

# %% [markdown]
# ## Quantisation: the second loss
#
# Each coefficient is divided by a number of a table in the file, and rounded. For fast waves the numbers are large, so many become 0. We compare with what your file holds:

# %%
from labextras.offload.jpeg.huffman import ZIGZAG, natural

frame, bits = twins.scan(data)
stored = twins.jpeg_entropy(bits, frame)
table = natural(frame.components[0].quantiser).reshape(8, 8)
quantised = np.round(coefficients / table).astype(int)
in_file = stored[0][row, column].reshape(8, 8)
print("the table", table, "the block, as it is stored", in_file, sep="\n")
print(f"{(in_file == 0).sum()} of 64 are zero; our own division gives {(quantised == in_file).sum()} of 64 the same")

# %% [markdown]
# *Quality* scales this table. Compare sizes and pictures:

# %% tags=["nbval-ignore-output"]
def zeros(jpeg):
    return np.mean(np.concatenate([np.ravel(p) == 0 for p in twins.jpeg_entropy(*twins.scan(jpeg)[::-1])]))


qualities = {}
lines = ["quality      bytes   zeros   largest difference", f"your file  {len(data):7,}  {zeros(data):6.0%}"]
for quality in (95, 75, 30, 5):
    again = tf.io.encode_jpeg(photo, quality=quality).numpy()
    pixels = tf.io.decode_jpeg(again, dct_method="INTEGER_ACCURATE").numpy()
    qualities[f"quality {quality}"] = pixels[part]
    lines.append(f"{quality:<9}  {len(again):7,}  {zeros(again):6.0%}   {discrepancy.between(pixels, photo).largest:.0f}")
print("\n".join(lines))
discrepancy.gallery(qualities, title="Fewer coefficients are left")

# %% [markdown]
# (`encode_jpeg` halves the colour in both directions, too, at every quality.) What is lost stays lost: at quality 95, the lab's photo gets a larger file than before, and no pixel gets better.
#
# ## Zigzag
#
# The 64 numbers are written from slow to fast waves, so that the zeros come together. This is the order, and our block in it:

# %%
print(np.argsort(ZIGZAG).reshape(8, 8))
numbers = in_file.ravel()[ZIGZAG]
print(*numbers)

# %% [markdown]
# ## Codes
#
# The first number is stored as its difference from the block before. Each other number that is not zero becomes a pair (*run*, *size*): the zeros before it, and the bits that it takes. A *Huffman code* stands for the pair: frequent pairs have short codes. Behind it come the bits of the number itself. Sixteen zeros have a code of their own, and so has *only zeros from here on*.
#
# <details><summary>How are negative numbers written?</summary>
#
# As number + 2^size − 1: −79 has the size 7, and −79 + 128 − 1 = 48 is 0110000. So the first bit of a negative number is 0, and that of a positive one is 1.
# </details>

# %%
from labextras.offload.twins.baseline_jpeg import codes

code_of = {pair: f"{code:0{length}b}" for (length, code), pair in codes(frame.components[0].ac).items()}
written, run = [], 0
for number in np.trim_zeros(numbers[1:], "b").tolist():
    run += number == 0
    if run == 16:
        written, run = [*written, ("16 zeros", "", code_of[0xF0], "")], 0
    if number:
        size = abs(number).bit_length()
        own = f"{number if number > 0 else number + 2**size - 1:0{size}b}"
        written, run = [*written, (f"({run}, {size})", number, code_of[16 * run + size], own)], 0
if numbers[-1] == 0:
    written += [("the end", "", code_of[0], "")]
print("pair      number  code              bits of the number")
for pair, number, code, own in written:
    print(f"{pair:<9} {number:>6}  {code:<17} {own}")

# %% [markdown]
# Are these bits really in your file?

# %%
ours = "".join(code + own for _, _, code, own in written)
scan = "".join(f"{byte:08b}" for interval in bits for byte in interval.data)
print(f"{len(ours)} bits for 63 numbers, found in the file at bit {scan.find(ours):,}")

# %% [markdown]
# ## And back
#
# Now all the way back, in whole numbers. Which step takes the most CPU time? Guess before you run the cell.

# %%
frame, bits = twins.scan(data)  # from the first bit again
clock = [time.process_time()]
stored = twins.jpeg_entropy(bits, frame)
clock.append(time.process_time())
tables = [natural(part.quantiser) for part in frame.components]
samples = [twins.jpeg_idct(*pair) for pair in zip(stored, tables, strict=True)]
clock.append(time.process_time())
ours = twins.jpeg_color(samples, frame)
clock.append(time.process_time())
print("equal to TensorFlow in every pixel:", np.array_equal(ours, photo))

# %% tags=["nbval-ignore-output"]
steps = ("read codes", "multiply, inverse DCT", "double Cb and Cr, RGB")
charts.bars(dict(zip(steps, 1000 * np.diff(clock))), unit="ms of CPU", title="Decoding in Python and NumPy")

# %% [markdown]
# This is not fair: NumPy works on all blocks at once, but the codes are read in a loop of Python, because nobody knows where a code begins before the one in front of it was read. TensorFlow's decoder is written in C. We can ask it for less:
#
# - `ratio=2, 4, 8` (*scaled decoding*): of each block only the slow waves, so that 4×4, 2×2 or 1×1 pixels come out;
# - `channels=1`: Y alone;
# - `decode_and_crop_jpeg` (*region decoding*): a part of the photo.

# %%
exact = {"dct_method": "INTEGER_ACCURATE"}
half = [height // 2, width // 2]


def decoded(**how):
    return lambda: tf.io.decode_jpeg(data, **{"channels": 3} | exact | how)


def cropped(y, x):
    return lambda: tf.io.decode_and_crop_jpeg(data, [y, x, *half], channels=3, **exact)


jobs = {"all": decoded(), "ratio=2": decoded(ratio=2), "ratio=8": decoded(ratio=8), "channels=1": decoded(channels=1)}
jobs |= {"ratio=8, channels=1": decoded(ratio=8, channels=1), "crop, top left": cropped(0, 0)}
jobs |= {"crop, bottom right": cropped(height - half[0], width - half[1])}
jobs |= {"header alone": lambda: tf.io.extract_jpeg_shape(data)}

# %% tags=["nbval-ignore-output"]
def cpu_ms(job):
    start = time.process_time()
    for _ in range(20):
        job()
    return 1000 * (time.process_time() - start) / 20


rounds = [{name: cpu_ms(job) for name, job in jobs.items()} for _ in range(labkit.measures.rounds_of(7))]
lines = ["                       CPU ms   of all    pixels   of all"]
for name, job in jobs.items():
    ms, whole = (np.median([each[one] for each in rounds]) for one in (name, "all"))
    size = job().shape[:-1]  # the shape alone has no pixels
    pixels = f"{'×'.join(map(str, size)) or '–':>9} {np.prod(size) * bool(size) / (height * width):8.0%}"
    lines.append(f"{name:20} {ms:8.2f} {ms / whole:8.0%} {pixels}")
print("\n".join(lines))

# %% [markdown]
# - `ratio=8, channels=1` computes one number for each block of Y, and still reads every code. Less the time for the header, what is left is nearly all reading. In C, too, no other step takes as long.
# - A crop at the top is cheap: decoding ends below it. One at the bottom costs nearly as much as the photo: each code above it is read.
#
# Are the pixels the same?

# %% tags=["nbval-ignore-output"]
y0, x0 = height // 4, width // 4
cut = cropped(y0, x0)().numpy()
means = photo[: 2 * half[0], : 2 * half[1]].reshape(half[0], 2, half[1], 2, 3).mean((1, 3)).round()
pairs = {"crop in the middle": (cut, photo[y0 : y0 + half[0], x0 : x0 + half[1]])}
pairs |= {"ratio=2, and the mean of 2×2": (jobs["ratio=2"]().numpy()[: half[0], : half[1]], means.astype(np.uint8))}
print(discrepancy.table(pairs))

# %% [markdown]
# <details><summary>Why they differ</summary>
#
# Inside, a crop is exact. In its first or last column, a few pixels may differ, because the colour of the neighbour outside is missing. `ratio=2` is no mean of 2×2 pixels: fast waves are left out.
# </details>
#
# ## Resize by hand
#
# *Bilinear*: a place $x$ between two pixels, $A$ at $a$ and $B$ at $b$, has the value
#
# $$X = A\,\frac{b-x}{b-a} + B\,\frac{x-a}{b-a}$$
#
# first along one side, then along the other. Pixel centres lie at one half, so output pixel $i$ lies at $(i+\tfrac12)\cdot\frac{in}{out}-\tfrac12$.

# %%
def bilinear(image, size):
    x = np.clip((np.arange(size) + 0.5) * len(image) / size - 0.5, 0, len(image) - 1)
    a = np.minimum(x.astype(int), len(image) - 2)
    b = a + 1
    A, B = image[a], image[b]
    x, a, b = (place[:, None, None] for place in (x, a, b))
    return A * (b - x) / (b - a) + B * (x - a) / (b - a)


along_rows = bilinear(photo.astype(float), 224)
by_hand = bilinear(along_rows.swapaxes(0, 1), 224).swapaxes(0, 1)
far = np.abs(by_hand - tf.image.resize(photo, [224, 224])).max()
print("equal to tf.image.resize within 0.01 grey levels:", far < 0.01)

# %% [markdown]
# ## One name, three bicubics
#
# *Bicubic* mixes four neighbours along each side. TensorFlow and Pillow turn the same 16×16 pixels into different 4×4 pixels. Two numbers explain it: $a$, how deep the curve of the weights dips below zero, and how far it is stretched. The curve says what a pixel counts, by its distance from the place that is computed:

# %%
def cubic(distance, a):
    d = np.abs(distance)
    near = (a + 2) * d**3 - (a + 3) * d**2 + 1
    far = a * (d**3 - 5 * d**2 + 8 * d - 4)
    return np.where(d < 1, near, np.where(d < 2, far, 0))

# %% tags=["nbval-ignore-output"]
distance = np.linspace(-10, 10, 161)
curves = {"a = -0.5": cubic(distance, -0.5), "a = -0.75": cubic(distance, -0.75)}
curves["a = -0.5, stretched by 4"] = cubic(distance / 4, -0.5)
charts.lines(distance, curves, x_label="pixels from the place", y_label="weight", title="What a pixel counts")

# %% [markdown]
# All three formulas make 4×4 pixels of the same 16×16:

# %%
def bicubic(image, size, a, stretch=1):
    places = (np.arange(size) + 0.5) * len(image) / size - 0.5
    weights = cubic((places[:, None] - np.arange(len(image))) / stretch, a)
    weights /= weights.sum(1, keepdims=True)
    return np.einsum("yi,xj,ijc->yxc", weights, weights, image).clip(0, 255)


down, along = min(top + 40, height - 16), min(left + 44, width - 16)
tiny = photo[down : down + 16, along : along + 16]
formulas = {"a = -0.5": (-0.5, 1), "a = -0.5, stretched": (-0.5, 4), "a = -0.75": (-0.75, 1)}
by_formula = {name: bicubic(tiny, 4, *how) / 255 for name, how in formulas.items()}

# %% tags=["nbval-ignore-output"]
from PIL import Image

try:
    import cv2
except ImportError:  # OpenCV is no part of the lab
    opencv = {}
else:
    opencv = {f"OpenCV {cv2.__version__}": cv2.resize(tiny, (4, 4), interpolation=cv2.INTER_CUBIC) / 255}
libraries = {"TensorFlow": tf.image.resize(tiny, [4, 4], "bicubic").numpy().clip(0, 255) / 255}
libraries["TensorFlow, antialias"] = tf.image.resize(tiny, [4, 4], "bicubic", antialias=True).numpy().clip(0, 255) / 255
libraries["Pillow"] = np.asarray(Image.fromarray(tiny).resize((4, 4), Image.Resampling.BICUBIC)) / 255
libraries |= opencv
discrepancy.gallery({"16×16": tiny} | by_formula | libraries, title="Bicubic, 16 to 4")

# %% tags=["nbval-ignore-output"]
lines = [f"{'largest difference':24}" + "".join(f"{formula:>22}" for formula in by_formula)]
for name, image in libraries.items():
    far = [discrepancy.between(image, own).largest for own in by_formula.values()]
    lines.append(f"{name:24}" + "".join(f"{levels:22.1f}" for levels in far))
print("\n".join(lines))

# %% [markdown]
# TensorFlow uses $a=-0.5$, OpenCV $a=-0.75$; both skip most pixels. Pillow stretches the curve of $a=-0.5$ by the factor of the resize (16/4), so that every pixel counts. TensorFlow does so with `antialias=True`.
#
# ## Exercises
#
# **00.3** (optional) A decoder gets 64 numbers in zigzag order. Write `block(numbers)`: the 8×8 array with each number in its place, without the table `ZIGZAG`.
#
# <details><summary>Hint</summary>
#
# The order is printed above; all places with the same sum of row and column form one diagonal. About four lines.
# </details>

# %% tags=["stub"]
def block(numbers):
    ...  # your code

# %% tags=["solution"]
def block(numbers):
    import numpy as np

    places = sorted(np.ndindex(8, 8), key=lambda p: (p[0] + p[1], p[1] if (p[0] + p[1]) % 2 == 0 else p[0]))
    made = np.zeros((8, 8), int)
    for number, place in zip(numbers, places):
        made[place] = number
    return made

# %%
try_it("00.3", block)
check("00.3", block)

# %% [markdown]
# **00.4** Each picture went through one step alone: `"subsample"` (Cb and Cr: one number for each 8×8), `"quantise"` (quality 5, with the usual colour), `"scale"` (`ratio=8`, shown large) or `"code"` (zigzag and Huffman codes, and back). Which picture is which?

# %% tags=["nbval-ignore-output"]
alone = {"subsample": coarser["Cb, Cr: 8×8"], "quantise": qualities["quality 5"], "code": photo[part]}
alone["scale"] = rgb(*(coarse(plane, 8) for plane in (y, cb, cr)))[part]
mixed = dict(zip("ABCD", sorted(alone, key=lambda name: name[1:])))  # no peeping
discrepancy.gallery({letter: alone[name][16:] for letter, name in mixed.items()}, title="Which step was it?")

# %% tags=["stub"]
step = {"A": ..., "B": ..., "C": ..., "D": ...}  # your answers

# %% tags=["solution"]
step = {"A": "scale", "B": "code", "C": "quantise", "D": "subsample"}

# %%
check("00.4", step)

# %% [markdown]
# ## Recap
#
# A JPEG loses something in two steps, and only there. No step of decoding takes longer than reading codes, and no option skips those that stand before what you want.
#
# ## In practice
#
# <details><summary>Three habits</summary>
#
# - Photos of 4000×3000 for a network that sees 224×224: `tf.io.decode_jpeg(data, ratio=4)` before the resize saves memory and some time. It changes pixels, so use it in training and in serving, or in neither.
# - Random crops: `tf.io.decode_and_crop_jpeg` takes the box of `tf.image.sample_distorted_bounding_box`. What it saves depends on where the box ends.
# - Write down library, method and `antialias` of each resize.
# </details>
#
# **Next:** [01 Measure a naive pipeline](01_measure_a_naive_pipeline.ipynb): what "naive" really means, and when a measured difference is real.
