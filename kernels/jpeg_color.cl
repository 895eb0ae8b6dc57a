/* jpeg_color: chroma upsampling and colour conversion: planes become interleaved RGB.
 *
 * Formula    upsampling by 2 with triangles ("fancy"): near and far are the closest chroma value and the next one,
 *              across           (3 near + far + 1) >> 2 in even columns, + 2 in odd ones
 *              down             (3 near + far + 1) >> 2 in even rows, + 2 in odd ones
 *              across and down  s = 3 near + far of two rows; (3 s + s' + 8) >> 4 in even columns, + 7 in odd ones
 *              beyond an edge the edge repeats; across, a plane of one or two columns is repeated instead
 *            R = Y + (91881 Cr' + h) >> 16                        Cb' = Cb - 128, Cr' = Cr - 128, h = 32768
 *            G = Y + (-22554 Cb' - 46802 Cr' + h) >> 16
 *            B = Y + (116130 Cb' + h) >> 16                       clamped to 0..255
 *
 * argument  direction  type          shape    unit
 * planes    input      const uchar*  (bytes,) 0..255; a column before and 48 after each row may be read
 * layout    input      const int*    (n, 32)  where planes and pixels lie, see labextras/offload/jpeg/frames.py
 * pixels    output     uchar*        (bytes,) 0..255, RGB interleaved, rows without gaps
 * first     input      int           ()       the first image of this launch
 * count     input      int           ()       images of this launch
 * strips    input      int           ()       strips of 8 rows of the tallest image among them
 *
 * Launch     jpeg_color: (strips, count) work-items, one for each 8 rows of each image.
 *            jpeg_color_task: one work-item, same arguments, same result.
 * Pipelined  one pixel per clock: no pixel depends on another; two rows of chroma wait in a line buffer.
 */
#define LAYOUT 32
#define ROWS 8

/* 16 bytes at any address, in one instruction where the device has one; vload16 is eight loads on PoCL. */
typedef uchar16 __attribute__((aligned(1))) any16;
#define LOAD16(p) (*(__global const any16 *)(p))
#define STORE16(v, p) (*(__global any16 *)(p) = (v))

/* Pointers are `restrict` in kernels only: Oclgrind 21.10 knows no promise that begins in an inlined function. */

/* Even columns a and odd columns b, in turn. */
static inline void zip(const short16 a, const short16 b, uchar16 *low, uchar16 *high)
{
    *low = (uchar16)(convert_uchar8(a.lo), convert_uchar8(b.lo)).s08192a3b4c5d6e7f;
    *high = (uchar16)(convert_uchar8(a.hi), convert_uchar8(b.hi)).s08192a3b4c5d6e7f;
}

static inline short16 load(__global const uchar *p) { return convert_short16(LOAD16(p)); }

/* 32 chroma values at columns x..x+31 of the image, from the nearer row and the farther one. */
static inline void upsample(__global const uchar *near, __global const uchar *far, const int x, const int across,
                            const int down, const short bias, uchar16 *low, uchar16 *high)
{
    if (across == 1 && down == 1) {
        *low = LOAD16(near + x);
        *high = LOAD16(near + x + 16);
    } else if (across == 1) {
        const short16 rounding = (short16)(bias);
        *low = convert_uchar16((load(near + x) * (short16)(3) + load(far + x) + rounding) >> (short16)(2));
        *high = convert_uchar16((load(near + x + 16) * (short16)(3) + load(far + x + 16) + rounding) >> (short16)(2));
    } else if (down == 1) {
        const int i = x / 2;
        const short16 here = load(near + i) * (short16)(3);
        const short16 a = (here + load(near + i - 1) + (short16)(1)) >> (short16)(2);
        const short16 b = (here + load(near + i + 1) + (short16)(2)) >> (short16)(2);
        zip(a, b, low, high);
    } else {
        const int i = x / 2;
        const short16 three = (short16)(3);
        const short16 before = load(near + i - 1) * three + load(far + i - 1);
        const short16 here = (load(near + i) * three + load(far + i)) * three;
        const short16 after = load(near + i + 1) * three + load(far + i + 1);
        zip((here + before + (short16)(8)) >> (short16)(4), (here + after + (short16)(7)) >> (short16)(4), low, high);
    }
}

/* floor(a k / 65536) and a k mod 65536, in 16 bits. */
static inline short16 high(const short16 a, const short k) { return mul_hi(a, (short16)(k)); }
static inline ushort16 low(const short16 a, const short k) { return as_ushort16(a) * (ushort16)((ushort)k); }

/* The formula above in 16 bits: 91881 = 65536 + 26345, 116130 = 131072 - 14942, -46802 = 18734 - 65536, and for whole
 * numbers floor((a + 32768) / 65536) = floor((floor(a / 32768) + 1) / 2). Halves of the low words of G's two
 * products are exact, as both are even, and their sum fits. */
static inline void convert(const uchar16 luma, const uchar16 blue, const uchar16 red, uchar16 *r, uchar16 *g, uchar16 *b)
{
    const short16 y = convert_short16(luma);
    const short16 cb = convert_short16(blue) - (short16)(128), cr = convert_short16(red) - (short16)(128);
    const short16 one = (short16)(1);
    const short16 red_part = cr + ((high(cr + cr, 26345) + one) >> one);
    const short16 blue_part = cb + cb + ((high(cb + cb, -14942) + one) >> one);
    const ushort16 halves = (low(cb, -22554) >> (ushort16)(1)) + (low(cr, 18734) >> (ushort16)(1));
    const ushort16 carry = ((halves >> (ushort16)(1)) + (ushort16)(8192)) >> (ushort16)(14);
    const short16 green_part = high(cb, -22554) + high(cr, 18734) + as_short16(carry) - cr;
    *r = convert_uchar16_sat(y + red_part);
    *g = convert_uchar16_sat(y + green_part);
    *b = convert_uchar16_sat(y + blue_part);
}

/* 16 pixels: three vectors of one colour become three of whole pixels; of each, every third byte is taken. */
static inline void weave(const uchar16 r, const uchar16 g, const uchar16 b, uchar16 *out)
{
    const uchar16 m0 = (uchar16)(255, 0, 0, 255, 0, 0, 255, 0, 0, 255, 0, 0, 255, 0, 0, 255);
    const uchar16 m1 = (uchar16)(0, 255, 0, 0, 255, 0, 0, 255, 0, 0, 255, 0, 0, 255, 0, 0);
    const uchar16 m2 = (uchar16)(0, 0, 255, 0, 0, 255, 0, 0, 255, 0, 0, 255, 0, 0, 255, 0);
    out[0] = (r.s0001112223334445 & m0) | (g.s0001112223334445 & m1) | (b.s0001112223334445 & m2);
    out[1] = (r.s55666777888999aa & m2) | (g.s55566677788999aa & m0) | (b.s55566677788899aa & m1);
    out[2] = (r.sbbbcccdddeeeffff & m1) | (g.sbbbcccdddeeeffff & m2) | (b.saaabbbcccdddeeef & m0);
}

static void strip(const int image, const int number, __global const uchar *planes,
                  __global const int *layout, __global uchar *pixels)
{
    __global const int *where = layout + image * LAYOUT;
    const int width = where[0], height = where[1], components = where[2], coded = where[3];
    const int last = min(height, (number + 1) * ROWS);
    const int across = components == 3 ? where[6] / where[20] : 1, down = components == 3 ? where[7] / where[21] : 1;
    const int narrow = across == 2 && where[18] <= 2; /* repeated, not interpolated */
    for (int y = number * ROWS; y < last; ++y) {
        __global uchar *to = pixels + (size_t)where[4] + (size_t)y * where[5];
        __global const uchar *luma = planes + (size_t)where[8] + (size_t)y * where[9];
        __global const uchar *cb = luma, *cr = luma, *cb_far = luma, *cr_far = luma;
        short bias = 1;
        if (components == 3) {
            const int near = y / down;
            int far = near;
            if (down == 2) {
                far = clamp(y % 2 ? near + 1 : near - 1, 0, where[19] - 1);
                bias = y % 2 ? 2 : 1;
            }
            cb = planes + (size_t)where[16] + (size_t)near * where[17];
            cr = planes + (size_t)where[24] + (size_t)near * where[25];
            cb_far = narrow ? cb : planes + (size_t)where[16] + (size_t)far * where[17];
            cr_far = narrow ? cr : planes + (size_t)where[24] + (size_t)far * where[25];
        }
        for (int x = 0; x < width; x += 32) {
            uchar16 y0 = LOAD16(luma + x), y1 = LOAD16(luma + x + 16);
            uchar16 out[6];
            if (components == 1) {
                weave(y0, y0, y0, out);
                weave(y1, y1, y1, out + 3);
            } else {
                uchar16 b0, b1, r0, r1, g0, g1;
                if (narrow) { /* four columns at most */
                    b0 = LOAD16(cb).s0011223344556677;
                    r0 = LOAD16(cr).s0011223344556677;
                    b1 = b0;
                    r1 = r0;
                } else {
                    upsample(cb, cb_far, x, across, down, bias, &b0, &b1);
                    upsample(cr, cr_far, x, across, down, bias, &r0, &r1);
                }
                if (coded) {
                    convert(y0, b0, r0, &y0, &g0, &b0);
                    r0 = y0;
                    convert(y1, b1, r1, &y1, &g1, &b1);
                    r1 = y1;
                } else { /* the planes are R, G and B */
                    g0 = b0;
                    g1 = b1;
                    b0 = r0;
                    b1 = r1;
                    r0 = y0;
                    r1 = y1;
                }
                weave(r0, g0, b0, out);
                weave(r1, g1, b1, out + 3);
            }
            int rest = min(96, 3 * (width - x)), j = 0;
            __global uchar *here = to + 3 * x;
            for (; rest >= 16; rest -= 16, ++j)
                STORE16(out[j], here + 16 * j);
            if (rest > 0) {
                uchar tail[16];
                vstore16(out[j], 0, tail);
                for (int k = 0; k < rest; ++k)
                    here[16 * j + k] = tail[k];
            }
        }
    }
}

__kernel void jpeg_color(__global const uchar *restrict planes, __global const int *restrict layout,
                         __global uchar *restrict pixels, const int first, const int count, const int strips)
{
    const int number = (int)get_global_id(0), image = (int)get_global_id(1);
    if (number < strips && image < count)
        strip(first + image, number, planes, layout, pixels);
}

__kernel void jpeg_color_task(__global const uchar *restrict planes, __global const int *restrict layout,
                              __global uchar *restrict pixels, const int first, const int count, const int strips)
{
    for (int image = 0; image < count; ++image)
        for (int number = 0; number < strips; ++number)
            strip(first + image, number, planes, layout, pixels);
}
