"""Right shape, wrong idea: what students hand in for notebook 08, and a word of the hint that must come back."""

import math

import numpy as np

#: Exercises whose answers run on an OpenCL device.
NEEDS_OPENCL = {"08.1", "08.2"}


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

SHORT = """
    float cut(float v, float a, float b) { return max(a, min(v, b)); }
    kernel void clip_values(global const float *in, global float *out, const float low, const float high)
    {
        out[get_global_id(0)] = cut(in[get_global_id(0)], low, high);
    }"""

#: Sums all pixels of the input, each by a weight that is 0 but for the four around the place.
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


def _decoders(photo, gb_s, cycles, clock):
    return gb_s * 1e9 / photo / (clock * 1e6 / cycles)


WRONG = {
    "08.1": [
        (clip("out[i] = in[i];"), "nothing is clipped"),
        (clip("out[i] = fmax(in[i], low);"), "upper end"),
        (clip("out[i] = fmin(in[i], high);"), "lower end"),
        (clip("out[i] = clamp(in[i], 0.0f, 1.0f);"), "arguments"),
        (clip("out[i] = in[i] < low ? high : in[i] > high ? low : in[i];"), "swapped"),
        (clip("if (i % 64) out[i] = clamp(in[i], low, high);"), "every work-item has its own i"),
        (clip("float v = clamp(in[i], low, high);"), "out was never written"),
        (clip("if (in[i] >= low && in[i] <= high) out[i] = in[i];"), "what lies outside of low and high"),
        (clip("if (in[i] < low) out[i] = low; if (in[i] > high) out[i] = high;"), "what lies between low and high"),
        (clip("for (int j = 0; j < get_global_size(0); j++) out[j] = clamp(in[j], low, high);"), "take away the loop"),
        (clip("int j = i; do out[j] = clamp(in[j], low, high); while (0);"), "take away the loop"),
        (clip("out[i] = clamp(in[i], low, high) * 0.5f;"), "expected"),
        (clip("out[i] = clamp(in[i], low, high)"), "does not compile"),
        (clip("if (i < 2000) out[i] = clamp(in[i], low, high);"), "there may be any number of them"),
        (
            clip("int j = 0; again: out[j] = clamp(in[j], low, high); if (++j < get_global_size(0)) goto again;"),
            "take away the loop",
        ),
        (clip("out[i] = clamp(in[i], low, high);").replace("clip_values", "clip"), "no kernel called clip_values"),
        (lambda values, low, high: values, "as a text"),
    ],
    "08.2": [
        (resize("(float)x * n / m"), "one half"),
        (resize("m > 1 ? (float)x * (n - 1) / (m - 1) : 0.0f"), "corners"),
        (resize(HALF, mix="a"), "one pixel of the four"),
        (resize(HALF, clamped=False), "does not exist"),
        (resize(HALF, clamped=False).replace("floor(", "(float)(int)("), "the position is below 0"),
        (resize(HALF, mix="in[(int)(py + 0.5f) * in_width + (int)(px + 0.5f)]"), "nearest"),
        (resize(HALF).replace("min(top + 1, in_height - 1)", "top + 1"), "reads outside of its array"),
        (resize(HALF).replace("min(left + 1, in_width - 1)", "left + 1"), "reads outside of its array"),
        (resize(HALF).replace("y * out_width + x", "x * out_height + y"), "expected"),
        (resize(HALF).replace("__kernel void resize", "__kernel void scale"), "no kernel called resize"),
    ],
    "08.3": [
        (lambda photo, gb_s, cycles, clock: (clock * 1e6 / cycles) / (gb_s * 1e9 / photo), "inverse"),
        (lambda photo, gb_s, cycles, clock: (gb_s * 1e9 / photo) // (clock * 1e6 / cycles), "rounded down"),
        (lambda photo, gb_s, cycles, clock: (gb_s * 1e9 / photo) / (clock * 1e6 / cycles), "round up"),
        (lambda photo, gb_s, cycles, clock: gb_s * 1e9 / photo, "divide it"),
        (lambda photo, gb_s, cycles, clock: clock * 1e6 / cycles, "divide the link"),
        (lambda photo, gb_s, cycles, clock: (gb_s * 1e6 / photo) / (clock * 1e6 / cycles), "10^9"),
        (lambda *given: int(_decoders(*given) + 0.9), "rounded down"),
        (lambda *given: math.ceil(round(_decoders(*given), 1)), "rounded down"),
    ],
}

RIGHT = {
    "08.1": [
        *(clip("out[i] = clamp(in[i], low, high);").replace("values(", f"values{gap}(") for gap in ("\n", "  ", "\t")),
        clip("out[i] = clamp(in[i], low, high); /* do it for (each)\nwhile (it) lasts */ // for (;;)\n"),
        SHORT,
        clip("float4 v = (float4)(in[i]); v = clamp(v, low, high); out[i] = v.x;"),
        clip("out[i] = in[i] < low ? low : in[i] > high ? high : in[i];"),
    ],
    "08.2": [
        BY_WEIGHTS,
        resize(HALF),
        resize("(float)(2 * x + 1) * n / (2 * m) - 0.5f"),
        resize(HALF, mix="(1 - sx) * (1 - sy) * a + sx * (1 - sy) * b + (1 - sx) * sy * c + sx * sy * d"),
        resize(HALF, mix="mix(mix(a, c, sy), mix(b, d, sy), sx)"),
    ],
    "08.3": [
        lambda photo, gb_s, cycles, clock: math.ceil(round(gb_s * 1e3 * cycles / (photo * clock), 9)),
        lambda photo, gb_s, cycles, clock: -(-round(gb_s * 1e9) * int(cycles) // (photo * clock * 10**6)),
        lambda photo, gb_s, cycles, clock: np.ceil(cycles / (clock * 1e6) / (photo / (gb_s * 1e9))),
        lambda *given: int(-(-_decoders(*given) // 1)),
        lambda *given: next(n for n in range(1, 1_000) if n >= _decoders(*given)),
    ],
}


# Other usual wrong ideas, each in one line.
WRONG["08.3"] += [
    (lambda size, gb, cycles, mhz: math.floor(gb * 1e9 / size * cycles / mhz / 1e6 + 1e-9) + 1, "one too many"),
    (lambda size, gb, cycles, mhz: math.ceil(gb * 1e9 / 8 / size * cycles / mhz / 1e6), "not gigabits"),
]


WRONG["08.1"] += [
    (clip("out[i] = fmin(fmax(in[i], low), 1.0f);"), "do not write 1"),
    (clip("out[i] = fmin(fmax(in[i], 0.0f), high);"), "do not write 0"),
]
WRONG["08.2"] += [
    (resize("(x + 0.5f) * n / m"), "not taken away again"),
    (resize("(x + 0.5f) * m / n - 0.5f"), "not out / in"),
    (resize("(x + 0.5f) * (n / m) - 0.5f"), "of two ints drops"),
    (resize("x * n / m"), "of ints drops"),
    (resize(HALF, mix="(a + b + c + d) / 4"), "mean of the four"),
    (resize(HALF, mix="a + (b - a) * sx"), "mix top and bottom, too"),
    (resize(HALF, mix="a + (c - a) * sy"), "mix left and right, too"),
    (resize(HALF, mix="mix(mix(d, c, sx), mix(b, a, sx), sy)"), "exchanged"),
]
WRONG["08.3"] += [
    (lambda size, gb, cycles, mhz: math.ceil(math.ceil(gb * 1e9 / size) * cycles / mhz / 1e6), "round once"),
    (lambda size, gb, cycles, mhz: math.ceil(gb * 1e9 / size / max(1, round(mhz * 1e6 / cycles))), "round once"),
    (lambda size, gb, cycles, mhz: math.ceil(gb * 8e9 / size * cycles / mhz / 1e6), "do not multiply by 8"),
]
