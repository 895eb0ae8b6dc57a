"""Right shape, wrong idea: what students hand in for notebook 08, and a word of the hint that must come back."""

import math

import numpy as np


def clip(body):
    arguments = "__global const float *in, __global float *out, const float low, const float high"
    return f"__kernel void clip_values({arguments}) {{ const int i = get_global_id(0); {body} }}"


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


NEEDS_OPENCL = {"08.1", "08.2"}

WRONG = {
    "08.1": [
        (clip("if (i % 64) out[i] = clamp(in[i], low, high);"), "every work-item has its"),
        (clip("float v = clamp(in[i], low, high);"), "1037 of 1037 values of out"),
        (clip("for (int j = 0; j < get_global_size(0); j++) out[j] = clamp(in[j], low, high);"), "take away the loop"),
        (clip("out[i] = clamp(in[i], low, high)"), "does not compile"),
        (clip("out[i] = clamp(in[i], low, high);").replace("clip_values", "clip"), "no kernel called"),
        (lambda values, low, high: values, "as a text"),
    ],
    "08.2": [
        (resize(HALF).replace("min(top + 1, in_height - 1)", "top + 1"), "reads outside of its array"),
        (resize(HALF).replace("__kernel void resize", "__kernel void scale"), "no kernel called resize"),
    ],
}

RIGHT = {
    "08.1": [
        *(clip("out[i] = clamp(in[i], low, high);").replace("values(", f"values{gap}(") for gap in ("\n", "  ", "\t")),
        clip("out[i] = clamp(in[i], low, high); /* do it for (each)\nwhile (it) lasts */ // for (;;)\n"),
    ],
    "08.2": [
        BY_WEIGHTS,
        resize(HALF),
    ],
    "08.3": [
        lambda photo, gb_s, cycles, clock: math.ceil(round(gb_s * 1e3 * cycles / (photo * clock), 9)),
        lambda photo, gb_s, cycles, clock: np.ceil(cycles / (clock * 1e6) / (photo / (gb_s * 1e9))),
    ],
}
