/* preprocess_planes: the planes of decoded JPEGs to a batch of squares: chroma upsampling, resize, colour, flip, brightness,
 * saturation, clip, in one pass; no RGB image in between.
 *
 * Formula    Y = bilinear resize of the first plane with half-pixel centres, rows first, columns second;
 *            Cb, Cr = the sum of three samples with their weights, rows first, columns second: libjpeg's triangle filter
 *                 and the bilinear resize, both sums with weights, in one table, w0 * a + w2 * c + w1 * b;
 *            where transform is 1:  red = Y + 1.402 (Cr - 128), green = Y - 0.344136286 (Cb - 128) - 0.714136286 (Cr - 128),
 *                 blue = Y + 1.772 (Cb - 128), each limited to 0..255; else red, green, blue = the planes; grey: Y thrice;
 *            then as in preprocess: flip, brightness, saturation, clip, and floats or bytes.
 *            An exact decoder rounds and limits chroma and RGB at the pixels of the photo, this one at those of the output:
 *            the two differ by about a level, more where colours are out of range; see TOLERANCE_PLANES in labkit.
 *
 * argument   direction  type          shape                 unit
 * planes     input      const uchar*  (bytes,)              samples, 0..255, plane after plane
 * layout     input      const int*    (n, 32)               of an image: 0 width, 1 height (pixels), 2 components (1 or 3),
 *                                                           3 transform (1: YCbCr), of component c at 8 + 8 c: +0 where it
 *                                                           starts, +1 its stride (bytes), +2 its width, +3 its height (samples);
 *                                                           width 0: it failed, zeros come out; below 0: nothing is written
 * jobs       input      const int*    (n, 8)                0, 1: the rows of `first` and `share` for its columns and for its
 *                                                           rows; 2, 3: the same of chroma, three rows each; 6: columns of
 *                                                           output that are made at once
 * first      input      const int*    (tables, size)        the first sample that counts
 * share      input      const float*  (tables, size)        share of the second; of chroma, weights of the three in three rows
 * out        output     float*        (n, size, size, 3)    share of full brightness, 0..1;
 *                       or uchar*                           grey level, 0..255
 * n          input      int           ()                    images
 * size       input      int           ()                    pixels of a side
 * augment    input      int           ()                    0: resize alone
 * seed       input      uint2         ()                    64 bits, the lower half first
 * counter    input      uint2         ()                    64 bits, the lower half first: number of the batch
 * ranges     input      float4        ()                    brightness; low and high factor of saturation; unused
 *
 * Launch     preprocess_planes, preprocess_planes_bytes: global size (size, n), local size (1, 1), a work-item makes a row of
 *            the output; their _task: global and local size (1, 1).
 * Pipelined  as preprocess, with half of the bytes to read; five rows of three small line buffers instead of two of a large
 *            one, and colour conversion for the pixels that are kept instead of all.
 */
#pragma OPENCL FP_CONTRACT OFF

#define ROW 1024 /* samples of a mixed row in private memory */
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

/* Columns begin..end of the first plane: column x becomes luma[x - begin]. */
static void resize_luma(__global const uchar *above, __global const uchar *below, const float down,
                        __global const int *first, __global const float *share, const int begin,
                        const int end, const int width, const int flip, float *luma)
{
    float row[ROW + 2];
    const int from = first[begin];
    const int last = first[end - 1] + 2 < width ? first[end - 1] + 2 : width;
    const int count = last - from;
    for (int i = 0; i < count; i++) {
        const float a = (float)above[from + i], b = (float)below[from + i];
        row[i] = a + (b - a) * down;
    }
    row[count] = 0.0f; /* the right neighbour of a lone column */
    for (int x = begin; x < end; x++) {
        const int at = first[x] - from;
        luma[flip ? end - 1 - x : x - begin] = row[at] + (row[at + 1] - row[at]) * share[x];
    }
}

/* The same of the two other planes, from three rows each: column x becomes blue[x - begin] and red[x - begin]. */
static void resize_chroma(__global const uchar *planes, __global const int *layout,
                          __global const int *job, __global const int *first,
                          __global const float *share, const int y, const int size, const int begin,
                          const int end, const int flip, float *blue, float *red)
{
    float row[2 * ROW + 8];
    __global const int *columns = first + (size_t)job[2] * size;
    __global const float *across = share + (size_t)job[2] * size, *down = share + (size_t)job[3] * size + y;
    const int width = layout[18], height = layout[19], from = columns[begin];
    const int last = columns[end - 1] + 3 < width ? columns[end - 1] + 3 : width, count = last - from;
    const int r0 = first[(size_t)job[3] * size + y];
    const int r1 = r0 + 1 < height ? r0 + 1 : r0, r2 = r0 + 2 < height ? r0 + 2 : r0;
    const float d0 = down[0], d1 = down[size], d2 = down[2 * size];
    __global const uchar *b = planes + layout[16] + from, *r = planes + layout[24] + from;
    __global const uchar *b0 = b + (size_t)r0 * layout[17], *b1 = b + (size_t)r1 * layout[17];
    __global const uchar *b2 = b + (size_t)r2 * layout[17], *c0 = r + (size_t)r0 * layout[25];
    __global const uchar *c1 = r + (size_t)r1 * layout[25], *c2 = r + (size_t)r2 * layout[25];
    for (int i = 0; i < count; i++) {
        row[2 * i] = (d0 * (float)b0[i] + d2 * (float)b2[i]) + d1 * (float)b1[i];
        row[2 * i + 1] = (d0 * (float)c0[i] + d2 * (float)c2[i]) + d1 * (float)c1[i];
    }
    for (int i = 0; i < 4; i++)
        row[2 * count + i] = 0.0f; /* neighbours of a narrow plane, which weigh nothing */
    for (int x = begin; x < end; x++) {
        const int at = 2 * (columns[x] - from);
        const float2 both = (across[x] * vload2(0, row + at) + across[x + 2 * size] * vload2(0, row + at + 4)) +
                            across[x + size] * vload2(0, row + at + 2);
        blue[flip ? end - 1 - x : x - begin] = both.x;
        red[flip ? end - 1 - x : x - begin] = both.y;
    }
}

/* From luma, blue and red difference to limited red, green, blue, in place. */
static void to_rgb(float *one, float *two, float *three, const int count)
{
    for (int x = 0; x < count; x++) {
        const float luma = one[x], cb = two[x] - 128.0f, cr = three[x] - 128.0f;
        float r = luma + 1.402f * cr, g = luma + (-0.344136286f * cb + -0.714136286f * cr), b = luma + 1.772f * cb;
        r = r > 0.0f ? r : 0.0f;
        g = g > 0.0f ? g : 0.0f;
        b = b > 0.0f ? b : 0.0f;
        one[x] = r < 255.0f ? r : 255.0f;
        two[x] = g < 255.0f ? g : 255.0f;
        three[x] = b < 255.0f ? b : 255.0f;
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
static void make_row(__global const uchar *planes, __global const int *layout,
                     __global const int *job, __global const int *first,
                     __global const float *share, __global float *out, __global uchar *bytes,
                     const int y, const int size, const int augment, const float3 draws)
{
    float one[TILE], two[TILE], three[TILE];
    const int width = layout[0], height = layout[1], stride = layout[9];
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
    __global const uchar *above = planes + layout[8] + (size_t)top * stride;
    __global const uchar *below = planes + layout[8] + (size_t)bottom * stride;
    const int flip = augment && draws.x > 0.0f;
    for (int begin = 0; begin < size; begin += job[6]) {
        const int end = begin + job[6] < size ? begin + job[6] : size, count = end - begin;
        resize_luma(above, below, down, first + (size_t)job[0] * size, share + (size_t)job[0] * size, begin, end, width,
                    flip, one);
        if (layout[2] == 3)
            resize_chroma(planes, layout, job, first, share, y, size, begin, end, flip, two, three);
        else
            for (int x = 0; x < count; x++)
                two[x] = three[x] = one[x];
        if (layout[3])
            to_rgb(one, two, three, count);
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
void preprocess_planes(__global const uchar *restrict planes, __global const int *restrict layout,
                         __global const int *restrict jobs, __global const int *restrict first,
                         __global const float *restrict share, __global float *restrict out, const int n, const int size,
                         const int augment, const uint2 seed, const uint2 counter, const float4 ranges)
{
    const int y = get_global_id(0), image = get_global_id(1);
    make_row(planes, layout + 32 * image, jobs + 8 * image, first, share, out + 3 * ((size_t)image * size + y) * size, 0, y,
             size, augment, drawn(image, seed, counter, ranges));
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void preprocess_planes_task(__global const uchar *restrict planes, __global const int *restrict layout,
                              __global const int *restrict jobs, __global const int *restrict first,
                              __global const float *restrict share, __global float *restrict out, const int n,
                              const int size, const int augment, const uint2 seed, const uint2 counter,
                              const float4 ranges)
{
    for (int image = 0; image < n; image++) {
        const float3 draws = drawn(image, seed, counter, ranges);
        for (int y = 0; y < size; y++)
            make_row(planes, layout + 32 * image, jobs + 8 * image, first, share,
                     out + 3 * ((size_t)image * size + y) * size, 0, y, size, augment, draws);
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void preprocess_planes_bytes(__global const uchar *restrict planes, __global const int *restrict layout,
                               __global const int *restrict jobs, __global const int *restrict first,
                               __global const float *restrict share, __global uchar *restrict out, const int n,
                               const int size, const int augment, const uint2 seed, const uint2 counter,
                               const float4 ranges)
{
    const int y = get_global_id(0), image = get_global_id(1);
    make_row(planes, layout + 32 * image, jobs + 8 * image, first, share, 0, out + 3 * ((size_t)image * size + y) * size, y,
             size, augment, drawn(image, seed, counter, ranges));
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void preprocess_planes_bytes_task(__global const uchar *restrict planes, __global const int *restrict layout,
                                    __global const int *restrict jobs, __global const int *restrict first,
                                    __global const float *restrict share, __global uchar *restrict out, const int n,
                                    const int size, const int augment, const uint2 seed, const uint2 counter,
                                    const float4 ranges)
{
    for (int image = 0; image < n; image++) {
        const float3 draws = drawn(image, seed, counter, ranges);
        for (int y = 0; y < size; y++)
            make_row(planes, layout + 32 * image, jobs + 8 * image, first, share, 0,
                     out + 3 * ((size_t)image * size + y) * size, y, size, augment, draws);
    }
}
