"""Right shape, wrong idea: what students hand in for notebook 08b, and a word of the hint that must come back."""

import math

import numpy as np


def resize(place, mix="a + (b - a) * sx + ((c + (d - c) * sx) - (a + (b - a) * sx)) * sy", clamped=True):
    """Return a kernel; `place` is the position for output x, input length n and output length m."""
    cut = "p = clamp(p, 0.0f, (float)(n - 1));" if clamped else ""
    return f"""
    float at(int x, int n, int m) {{ float p = {place}; {cut} return p; }}
    __kernel void resize(__global const float *in, __global float *out, const int in_height, const int in_width,
                         const int out_height, const int out_width)
    {{
        const int x = get_global_id(0), y = get_global_id(1);
        const float px = at(x, in_width, out_width), py = at(y, in_height, out_height);
        const int left = max((int)floor(px), 0), top = max((int)floor(py), 0);
        const int right = min(left + 1, in_width - 1), bottom = min(top + 1, in_height - 1);
        const float sx = px - floor(px), sy = py - floor(py);
        const float a = in[top * in_width + left], b = in[top * in_width + right];
        const float c = in[bottom * in_width + left], d = in[bottom * in_width + right];
        out[y * out_width + x] = {mix};
    }}"""


HALF = "(x + 0.5f) * n / m - 0.5f"


BY_WEIGHTS = """
    __kernel void resize(__global const float *in, __global float *out, const int in_height, const int in_width,
                         const int out_height, const int out_width)
    {
        const int x = get_global_id(0), y = get_global_id(1);
        const float px = fmax(fmin((2 * x + 1) * (float)in_width / (2 * out_width) - 0.5f, in_width - 1.0f), 0.0f);
        const float py = fmax(fmin((2 * y + 1) * (float)in_height / (2 * out_height) - 0.5f, in_height - 1.0f), 0.0f);
        float sum = 0;
        for (int j = 0; j < in_height; j++)
            for (int i = 0; i < in_width; i++)
                sum += fmax(0.0f, 1 - fabs(px - i)) * fmax(0.0f, 1 - fabs(py - j)) * in[j * in_width + i];
        out[y * out_width + x] = sum;
    }"""


NEEDS_OPENCL = {"08b.2"}

TIMES = {"A": ("copy out", "accelerator"), "B": ("host", "kernel")}


def said(**changed):
    return lambda job, doubled: {**TIMES, **changed}[job][doubled]


WRONG = {
    "08b.1": [
        (said(B=("copy out", "kernel")), "B, what sets the speed: copy out is not what the others wait for"),
        (said(A=("copy out", "kernel")), "A, if copy out were twice as fast: kernel is not the next one"),
        (said(B=("host", "copy in")), "B, if host were twice as fast: copy in is not the next one: halve the block"),
        (said(A=("the link", "accelerator")), "allowed: copy in, kernel, copy out, host, accelerator"),
        (said(B=("host", 3)), "you return 3"),
        (said(A=("accelerator", "accelerator")), "A, what sets the speed: accelerator: that lane is red because"),
    ],
    "08b.2": [
        (resize(HALF).replace("min(top + 1, in_height - 1)", "top + 1"), "reads outside of its array"),
        (resize(HALF).replace("__kernel void resize", "__kernel void scale"), "no kernel called resize"),
        (resize(HALF).replace(";\n        const int left", "\n        const int left"), "does not compile"),
        (lambda plane, height, width: plane, "as a text"),
    ],
}

RIGHT = {
    "08b.1": [said(), said(A=("card: copy out", "accelerator"), B=("host", "card: kernel"))],
    "08b.2": [
        BY_WEIGHTS,
        resize(HALF),
        *(resize(HALF).replace("void resize(", f"void resize{gap}(") for gap in ("\n", "  ", "\t")),
    ],
    "08b.3": [
        lambda photo, gb_s, cycles, clock, one, chip: min(
            math.ceil(round(gb_s * 1e3 * cycles / (photo * clock), 9)), math.floor(chip / one)
        ),
        lambda photo, gb_s, cycles, clock, one, chip: np.minimum(
            np.ceil(cycles / (clock * 1e6) / (photo / (gb_s * 1e9))), chip // one
        ),
    ],
}
