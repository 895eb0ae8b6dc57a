/* jpeg_idct: dequantise, inverse DCT: coefficients become planes of bytes, one plane for each component.
 *
 * Formula    X = coefficient * quantiser; x = round(C' X C) + 128, clamped to 0..255, C the 8-point DCT matrix, in the
 *            fixed point of the "slow integer" method (Loeffler, Ligtenberg, Moschytz 1989): constants of 13 bits; columns
 *            first, 2 extra bits kept; then rows. Where 16 bits overflow (no encoder writes such values) the result wraps
 *            and saturates as in libjpeg-turbo's vector code, so that damaged files, too, give the same pixels.
 *
 * argument      direction  type           shape         unit
 * coefficients  input      const short*   (blocks, 64)  quantised, natural order
 * masks         input      const uchar*   (blocks,)     OR of the positions of all AC values that are not 0
 * quantisers    input      const ushort*  (tables, 64)  natural order
 * frames        input      const int*     (n, 64)       geometry, see labextras/offload/jpeg/frames.py
 * layout        input      const int*     (n, 32)       where planes lie, see labextras/offload/jpeg/frames.py
 * planes        output     uchar*         (bytes,)      0..255; each row is followed and preceded by a copy of its edge
 * first         input      int            ()            the frame of the first image of this launch
 * count         input      int            ()            images of this launch
 * rows          input      int            ()            rows of blocks of the tallest component among them
 *
 * Launch     jpeg_idct: (rows, 3 * count) work-items, one for each row of blocks of each component.
 *            jpeg_idct_task: one work-item, same arguments, same result.
 * Pipelined  one column, then one row of a block per clock; blocks do not depend on each other.
 */
#define FRAME 64
#define LAYOUT 32

/* Eight values at once: rows of a block lie at multiples of 16 bytes, rows of pixels anywhere. */
typedef uchar8 __attribute__((aligned(1))) any8;
#define ROW(p, j) (((__global const ushort8 *)(p))[j])
#define STORE8(v, p) (*(__global any8 *)(p) = (v))

/* Pointers are `restrict` in kernels only: Oclgrind 21.10 knows no promise that begins in an inlined function. */

static inline int8 wide(const short8 a) { return convert_int8(a); }
static inline short8 plus(const short8 a, const short8 b) { return as_short8(as_ushort8(a) + as_ushort8(b)); }
static inline short8 minus(const short8 a, const short8 b) { return as_short8(as_ushort8(a) - as_ushort8(b)); }

/* Eight 8-point inverse DCTs side by side: lane i of v[j] is value j of transform i. */
static inline void transform(const short8 *v, int8 *out)
{
    const int8 in2 = wide(v[2]), in6 = wide(v[6]);
    const int8 even2 = in2 * 4433 + in6 * (4433 - 15137);
    const int8 even3 = in2 * (4433 + 6270) + in6 * 4433;
    const int8 even0 = wide(plus(v[0], v[4])) << 13;
    const int8 even1 = wide(minus(v[0], v[4])) << 13;
    const int8 s0 = even0 + even3, s3 = even0 - even3, s1 = even1 + even2, s2 = even1 - even2;

    const int8 in7 = wide(v[7]), in5 = wide(v[5]), in3 = wide(v[3]), in1 = wide(v[1]);
    const int8 z3 = wide(plus(v[7], v[3])), z4 = wide(plus(v[5], v[1]));
    const int8 y3 = z3 * (9633 - 16069) + z4 * 9633;
    const int8 y4 = z3 * 9633 + z4 * (9633 - 3196);
    const int8 t0 = in7 * (2446 - 7373) + in1 * -7373 + y3;
    const int8 t1 = in5 * (16819 - 20995) + in3 * -20995 + y4;
    const int8 t2 = in5 * -20995 + in3 * (25172 - 20995) + y3;
    const int8 t3 = in7 * -7373 + in1 * (12299 - 7373) + y4;
    out[0] = s0 + t3;
    out[7] = s0 - t3;
    out[1] = s1 + t2;
    out[6] = s1 - t2;
    out[2] = s2 + t1;
    out[5] = s2 - t1;
    out[3] = s3 + t0;
    out[4] = s3 - t0;
}

#define LOW(a, b) (short8)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3)
#define HIGH(a, b) (short8)(a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, b.s7)

static inline void transpose(short8 *v)
{
    const short8 a0 = LOW(v[0], v[4]), a1 = HIGH(v[0], v[4]), a2 = LOW(v[1], v[5]), a3 = HIGH(v[1], v[5]);
    const short8 a4 = LOW(v[2], v[6]), a5 = HIGH(v[2], v[6]), a6 = LOW(v[3], v[7]), a7 = HIGH(v[3], v[7]);
    const short8 b0 = LOW(a0, a4), b1 = HIGH(a0, a4), b2 = LOW(a1, a5), b3 = HIGH(a1, a5);
    const short8 b4 = LOW(a2, a6), b5 = HIGH(a2, a6), b6 = LOW(a3, a7), b7 = HIGH(a3, a7);
    v[0] = LOW(b0, b4);
    v[1] = HIGH(b0, b4);
    v[2] = LOW(b1, b5);
    v[3] = HIGH(b1, b5);
    v[4] = LOW(b2, b6);
    v[5] = HIGH(b2, b6);
    v[6] = LOW(b3, b7);
    v[7] = HIGH(b3, b7);
}

static void block_row(const int image, const int component, const int row, __global const short *coefficients,
                      __global const uchar *masks, __global const ushort *quantisers,
                      __global const int *frames, __global const int *layout,
                      __global uchar *planes)
{
    __global const int *frame = frames + image * FRAME;
    __global const int *where = layout + image * LAYOUT;
    if (component >= frame[2])
        return;
    __global const int *part = frame + 8 + 12 * component;
    __global const int *place = where + 8 + 8 * component;
    const int stride = place[1], width = place[2], height = place[3];
    if (8 * row >= height)
        return;
    __global uchar *out = planes + (size_t)place[0] + (size_t)(8 * row) * stride;
    const size_t start = (size_t)part[4] + (size_t)row * part[2];
    const int blocks = (width + 7) / 8;
    short8 quantiser[8];
    for (int j = 0; j < 8; ++j)
        quantiser[j] = as_short8(ROW(quantisers + part[7] * 64, j));

    for (int b = 0; b < blocks; ++b) {
        __global const short *in = coefficients + (start + b) * 64;
        __global uchar *to = out + 8 * b;
        const int mask = masks[start + b];
        short8 v[8];
        int8 x[8];
        v[0] = as_short8(ROW(in, 0) * as_ushort8(quantiser[0]));
        if (mask == 0) { /* one grey value */
            const short kept = (short)(v[0].s0 << 2);
            const uchar8 flat = as_uchar8(convert_char8_sat((int8)((kept + 16) >> 5))) ^ (uchar8)(128);
            for (int j = 0; j < 8; ++j)
                STORE8(flat, to + (size_t)j * stride);
            continue;
        }
        if ((mask & 0x38) == 0) { /* values in the first row only: every column is flat */
            const short8 kept = as_short8(as_ushort8(v[0]) << (ushort8)(2));
            for (int j = 0; j < 8; ++j)
                v[j] = kept;
        } else {
            for (int j = 1; j < 8; ++j)
                v[j] = as_short8(ROW(in, j) * as_ushort8(quantiser[j]));
            transform(v, x);
            for (int j = 0; j < 8; ++j)
                v[j] = convert_short8_sat((x[j] + (1 << 10)) >> 11);
        }
        transpose(v);
        transform(v, x);
        for (int j = 0; j < 8; ++j)
            v[j] = convert_short8_sat((x[j] + (1 << 17)) >> 18);
        transpose(v);
        for (int j = 0; j < 8; ++j)
            STORE8(as_uchar8(convert_char8_sat(v[j])) ^ (uchar8)(128), to + (size_t)j * stride);
    }
    for (int j = 0; j < 8; ++j) { /* the edges, for the upsampling */
        __global uchar *line = out + (size_t)j * stride;
        line[-1] = line[0];
        line[width] = line[width - 1];
    }
}

__kernel void jpeg_idct(__global const short *restrict coefficients, __global const uchar *restrict masks,
                        __global const ushort *restrict quantisers, __global const int *restrict frames,
                        __global const int *restrict layout, __global uchar *restrict planes, const int first,
                        const int count, const int rows)
{
    const int row = (int)get_global_id(0), line = (int)get_global_id(1);
    if (row < rows && line < 3 * count)
        block_row(first + line / 3, line % 3, row, coefficients, masks, quantisers, frames, layout, planes);
}

__kernel void jpeg_idct_task(__global const short *restrict coefficients, __global const uchar *restrict masks,
                             __global const ushort *restrict quantisers, __global const int *restrict frames,
                             __global const int *restrict layout, __global uchar *restrict planes, const int first,
                             const int count, const int rows)
{
    for (int line = 0; line < 3 * count; ++line)
        for (int row = 0; row < rows; ++row)
            block_row(first + line / 3, line % 3, row, coefficients, masks, quantisers, frames, layout, planes);
}
