/* preprocess: decoded images of any sizes to a batch of squares: flip, resize, brightness, saturation, clip, in one pass.
 *
 * Formula    levels = bilinear resize with half-pixel centres (see resize_bilinear), rows first, columns second;
 *            where augment is not 0:
 *              x becomes size - 1 - x where word 0 < 2^31;
 *              v = level + 255 * delta, delta = -brightness + u(word 1) * 2 * brightness;
 *              v = V - min(factor, V / (V - m)) * (V - v), V and m the largest and smallest value of the pixel,
 *                  factor = low + u(word 2) * (high - low);
 *              v = min(max(v, 0), 255);
 *            u(word) = (word >> 8) / 2^24, words of Philox-4x32-10(counter = (step, image, 0), key = seed).
 *            preprocess:        out = min(v * (1/255), 1);
 *            preprocess_bytes:  out = the nearest whole number to v, halves to the even one (as tf.round).
 *
 * argument   direction  type          shape                 unit
 * rgb        input      const uchar*  (bytes,)              grey levels, RGB interleaved, images one after the other
 * layout     input      const int*    (n, 32)               of an image: 0 width, 1 height (pixels), 4 where it starts in
 *                                                           rgb, 5 its stride (bytes); width 0: it failed, zeros come
 *                                                           out; below 0: nothing is written
 * jobs       input      const int*    (n, 8)                0, 1: the rows of `first` and `share` for its columns and for its
 *                                                           rows; 6: columns of output that are made at once
 * first      input      const int*    (tables, size)        pixel to the left, at most the last but one
 * share      input      const float*  (tables, size)        share of the pixel to its right
 * out        output     float*        (n, size, size, 3)    share of full brightness, 0..1;
 *                       or uchar*                           grey level, 0..255
 * n          input      int           ()                    images
 * size       input      int           ()                    pixels of a side
 * augment    input      int           ()                    0: resize alone
 * seed       input      uint2         ()                    64 bits, the lower half first
 * counter    input      uint2         ()                    64 bits, the lower half first: number of the batch
 * ranges     input      float4        ()                    brightness; low and high factor of saturation; unused
 *
 * Launch     preprocess, preprocess_bytes: global size (size, n), local size (1, 1), a work-item makes a row of the
 *            output; their _task: global and local size (1, 1).
 * Pipelined  two rows of the input in on-chip memory and a pixel of the output per clock: the resize, the generator's ten
 *            rounds and the division of the saturation are stages of one pipeline, nothing returns to memory in between.
 *
 * The loops are laid out for vector units: a row is mixed from two rows in one straight loop, then a pixel of four lanes is
 * mixed from two of it, then the pixels are coloured in three separate lanes. Private memory holds ROW values of a mixed
 * row, so a wide image is taken in as many tiles of columns as it needs.
 */
#pragma OPENCL FP_CONTRACT OFF

#define ROW 3072 /* values of a mixed row in private memory: 1024 pixels */
#define TILE 256 /* columns of output that are made at once, at most */

/* Pointers are `restrict` in kernels only: Oclgrind 21.10 knows no promise that begins in an inlined function. */

/* Four random words for a counter of four words and a key of two (Philox-4x32-10). */
static uint4 philox(uint4 counter, uint2 key)
{
    for (int round = 0; round < 10; round++) {
        const uint2 high = (uint2)(mul_hi(counter.x, 0xD2511F53u), mul_hi(counter.z, 0xCD9E8D57u));
        counter = (uint4)(high.y ^ counter.y ^ key.x, counter.z * 0xCD9E8D57u,
                          high.x ^ counter.w ^ key.y, counter.x * 0xD2511F53u);
        key += (uint2)(0x9E3779B9u, 0xBB67AE85u);
    }
    return counter;
}

/* Random numbers of an image: flip (0 or 1), delta in grey levels, factor. */
static float3 drawn(const uint image, const uint2 seed, const uint2 counter, const float4 ranges)
{
    const uint4 word = philox((uint4)(counter, image, 0), seed);
    const float bright = (float)(word.y >> 8) * 0x1p-24f, colour = (float)(word.z >> 8) * 0x1p-24f;
    return (float3)(word.x < 0x80000000u ? 1.0f : 0.0f, 255.0f * (-ranges.x + bright * (ranges.x + ranges.x)),
                    ranges.y + colour * (ranges.z - ranges.y));
}

/* Resize columns begin..end of a row: pixel x becomes mixed[4 * (x - begin)] to [4 * (x - begin) + 2]. */
static void resize_tile(__global const uchar *above, __global const uchar *below, const float down,
                        __global const int *first, __global const float *share, const int begin,
                        const int end, const int width, const int flip, float *one,
                        float *two, float *three)
{
    float row[ROW + 8];
    const int from = 3 * first[begin];
    const int last = first[end - 1] + 2 < width ? first[end - 1] + 2 : width;
    const int count = 3 * last - from;
    for (int i = 0; i < count; i++) {
        const float a = (float)above[from + i], b = (float)below[from + i];
        row[i] = a + (b - a) * down;
    }
    /* Four lanes of a pixel are read, and the pixel to the right of a lone one. */
    for (int i = 0; i < 8; i++)
        row[count + i] = 0.0f;
    for (int x = begin; x < end; x++) {
        const int at = 3 * first[x] - from, to = flip ? end - 1 - x : x - begin;
        const float4 a = vload4(0, row + at), b = vload4(0, row + at + 3), both = a + (b - a) * share[x];
        one[to] = both.x;
        two[to] = both.y;
        three[to] = both.z;
    }
}

/* Brightness, saturation, clip, in place. */
static void colour(float *one, float *two, float *three, const int count, const float delta,
                   const float factor)
{
    for (int x = 0; x < count; x++) {
        const float red = one[x] + delta, green = two[x] + delta, blue = three[x] + delta;
        float largest = red > green ? red : green, smallest = red < green ? red : green;
        largest = largest > blue ? largest : blue;
        smallest = smallest < blue ? smallest : blue;
        float spread = largest - smallest;
        spread = spread > 1e-12f ? spread : 1e-12f;
        const float most = largest / spread;
        const float limited = factor < most ? factor : most;
        float r = largest - limited * (largest - red), g = largest - limited * (largest - green);
        float b = largest - limited * (largest - blue);
        r = r > 0.0f ? r : 0.0f;
        g = g > 0.0f ? g : 0.0f;
        b = b > 0.0f ? b : 0.0f;
        one[x] = r < 255.0f ? r : 255.0f;
        two[x] = g < 255.0f ? g : 255.0f;
        three[x] = b < 255.0f ? b : 255.0f;
    }
}

/* Make row y of an image in grey levels, tile by tile, and store it as floats or, where out is null, as bytes. */
static void make_row(__global const uchar *rgb, __global const int *layout,
                     __global const int *job, __global const int *first,
                     __global const float *share, __global float *out, __global uchar *bytes,
                     const int y, const int size, const int augment, const float3 draws)
{
    float one[TILE], two[TILE], three[TILE];
    const int width = layout[0], height = layout[1], stride = layout[5];
    if (width < 0)
        return;
    if (width == 0) {
        for (int i = 0; i < 3 * size; i++)
            if (out)
                out[i] = 0.0f;
            else
                bytes[i] = 0;
        return;
    }
    const int top = first[(size_t)job[1] * size + y], bottom = top + 1 < height ? top + 1 : top;
    const float down = share[(size_t)job[1] * size + y];
    __global const uchar *above = rgb + layout[4] + (size_t)top * stride;
    __global const uchar *below = rgb + layout[4] + (size_t)bottom * stride;
    const int flip = augment && draws.x > 0.0f;
    for (int begin = 0; begin < size; begin += job[6]) {
        const int end = begin + job[6] < size ? begin + job[6] : size, count = end - begin;
        resize_tile(above, below, down, first + (size_t)job[0] * size, share + (size_t)job[0] * size, begin, end, width,
                    flip, one, two, three);
        if (augment)
            colour(one, two, three, count, draws.y, draws.z);
        const int start = flip ? size - end : begin;
        for (int x = 0; x < count; x++) {
            const int at = 3 * (start + x);
            if (out) {
                const float r = one[x] * (1.0f / 255.0f), g = two[x] * (1.0f / 255.0f), b = three[x] * (1.0f / 255.0f);
                out[at] = r < 1.0f ? r : 1.0f;
                out[at + 1] = g < 1.0f ? g : 1.0f;
                out[at + 2] = b < 1.0f ? b : 1.0f;
            } else {
                /* Adding 2^23 leaves no bit below 1: the sum is rounded, and its last bits are the number. */
                bytes[at] = (uchar)as_uint(one[x] + 8388608.0f);
                bytes[at + 1] = (uchar)as_uint(two[x] + 8388608.0f);
                bytes[at + 2] = (uchar)as_uint(three[x] + 8388608.0f);
            }
        }
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void preprocess(__global const uchar *restrict rgb, __global const int *restrict layout,
                         __global const int *restrict jobs, __global const int *restrict first,
                         __global const float *restrict share, __global float *restrict out, const int n, const int size,
                         const int augment, const uint2 seed, const uint2 counter, const float4 ranges)
{
    const int y = get_global_id(0), image = get_global_id(1);
    make_row(rgb, layout + 32 * image, jobs + 8 * image, first, share, out + 3 * ((size_t)image * size + y) * size, 0, y,
             size, augment, drawn(image, seed, counter, ranges));
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void preprocess_task(__global const uchar *restrict rgb, __global const int *restrict layout,
                              __global const int *restrict jobs, __global const int *restrict first,
                              __global const float *restrict share, __global float *restrict out, const int n,
                              const int size, const int augment, const uint2 seed, const uint2 counter,
                              const float4 ranges)
{
    for (int image = 0; image < n; image++) {
        const float3 draws = drawn(image, seed, counter, ranges);
        for (int y = 0; y < size; y++)
            make_row(rgb, layout + 32 * image, jobs + 8 * image, first, share,
                     out + 3 * ((size_t)image * size + y) * size, 0, y, size, augment, draws);
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void preprocess_bytes(__global const uchar *restrict rgb, __global const int *restrict layout,
                               __global const int *restrict jobs, __global const int *restrict first,
                               __global const float *restrict share, __global uchar *restrict out, const int n,
                               const int size, const int augment, const uint2 seed, const uint2 counter,
                               const float4 ranges)
{
    const int y = get_global_id(0), image = get_global_id(1);
    make_row(rgb, layout + 32 * image, jobs + 8 * image, first, share, 0, out + 3 * ((size_t)image * size + y) * size, y,
             size, augment, drawn(image, seed, counter, ranges));
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void preprocess_bytes_task(__global const uchar *restrict rgb, __global const int *restrict layout,
                                    __global const int *restrict jobs, __global const int *restrict first,
                                    __global const float *restrict share, __global uchar *restrict out, const int n,
                                    const int size, const int augment, const uint2 seed, const uint2 counter,
                                    const float4 ranges)
{
    for (int image = 0; image < n; image++) {
        const float3 draws = drawn(image, seed, counter, ranges);
        for (int y = 0; y < size; y++)
            make_row(rgb, layout + 32 * image, jobs + 8 * image, first, share, 0,
                     out + 3 * ((size_t)image * size + y) * size, y, size, augment, draws);
    }
}
