/* jpeg_entropy: the Huffman-coded bits of JPEG files become quantised DCT coefficients.
 *
 * Formula    of each 8x8 block, in the order of the scan:
 *              DC = DC of the component's block before + difference
 *              AC: (run, size) pairs: skip `run` zeros of the zigzag order, then one value of `size` bits
 *            value of bits b, size s: b where its first bit is 1, else b - (2^s - 1)       (ITU T.81, F.2.2)
 *
 * argument      direction  type           shape            unit
 * streams       input      const uchar*   (bytes,)         the scans of all files of a batch, one after the other
 * lookups       input      const ushort*  (tables, 2048)   next 11 bits -> run << 10 | size << 6 | bits of code and value;
 *                                                          63 where the code is longer; run 63 ends the block
 * codes         input      const int*     (tables, 288)    16 limits and 16 offsets by length of code, 256 symbols
 * frames        input      const int*     (n, 64)          geometry, see labextras/offload/jpeg/frames.py
 * intervals     input      const int*     (m, 8)           frame, first byte, end byte, first MCU, MCUs, last of its scan
 * coefficients  output     short*         (blocks, 64)     quantised, natural order (row by row)
 * masks         output     uchar*         (blocks,)        OR of the positions of all AC values that are not 0
 * results       output     int*           (m, 8)           0 code, 1 byte of `streams`, 2 finished MCUs
 * first         input      int            ()               the first interval of this launch
 * count         input      int            ()               intervals of this launch
 *
 * Codes      0 fine, 1 the data end too early (or a marker stands in them), 2 no such Huffman code,
 *            3 a run leaves its block, 4 bytes left over, 5 a DC value beyond 16 bits
 * Launch     jpeg_entropy: count work-items, one for each image or, with restart markers, for each restart interval.
 *            jpeg_entropy_task: one work-item, same arguments, same result.
 *            No byte outside [first, end) is read, no block outside the frame is written, whatever the stream says.
 * On a CPU   a token waits for the bits that the one before it leaves: look-up, shift, look-up. All else is off that path.
 *            Eight bytes come at once, every few tokens; a reader that runs short in between is filled where it does.
 * Pipelined  one token per clock: the loop carries the bit position only, through one look-up; the value is off that path.
 */
#define LOOK 11
#define LONG 63  /* more bits than a reader holds: what `lookups` say of a longer code */
#define REFILL 8 /* tokens from one refill to the next; they seldom have as many bits as a reader */
#define FRAME 64
#define INTERVAL 8
#define RESULT 8
#define CODES 288
#define PER_MCU 10

__constant uchar ZIGZAG[64] = {0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
                               41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
                               30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

/* Eight bytes at any address, and 16 coefficients where they are aligned, in one instruction each. */
typedef ulong __attribute__((aligned(1))) any8;

/* The next bits, left-aligned. `zeros` of the `count` bits are made up: they follow the end of the data. */
typedef struct {
    ulong bits;
    int count;
    int zeros;
    long at;
    long end;
} Reader;

/* Pointers are `restrict` in kernels only: Oclgrind 21.10 knows no promise that begins in an inlined function. */

/* The first of eight bytes becomes the highest; written so that compilers see one instruction in it. */
static inline ulong first_highest(ulong w)
{
#ifdef __ENDIAN_LITTLE__
    w = w >> 32 | w << 32;
    w = (w & 0xFFFF0000FFFF0000ul) >> 16 | (w & 0x0000FFFF0000FFFFul) << 16;
    w = (w & 0xFF00FF00FF00FF00ul) >> 8 | (w & 0x00FF00FF00FF00FFul) << 8;
#endif
    return w;
}

/* Bring the reader from 63 bits or fewer to 56 or more; a stuffed 0 after 255 is left out. */
static inline void refill(__global const uchar *streams, Reader *r)
{
    if (r->at + 8 <= r->end) {
        const ulong word = first_highest(*(__global const any8 *)(streams + r->at));
        /* The highest bits of bytes that are 255, and of some 254s before them. */
        const ulong full = (~word - 0x0101010101010101ul) & word & 0x8080808080808080ul;
        if (full >> r->count == 0) {
            /* A part of the next byte comes along; it is written once more with the next refill, the same. */
            const int more = (63 - r->count) & ~7;
            r->bits |= word >> r->count;
            r->count += more;
            r->at += more >> 3;
            return;
        }
    }
    while (r->count < 56) {
        int step = 1;
        if (r->at < r->end && streams[r->at] == 255)
            step = r->at + 1 < r->end && streams[r->at + 1] == 0 ? 2 : 0;
        if (r->at < r->end && step > 0) {
            r->bits |= (ulong)streams[r->at] << (56 - r->count);
            r->at += step;
        } else {
            r->zeros += 8; /* a marker, or the end */
        }
        r->count += 8;
    }
}

/* Decode a code of any length: a word as in `lookups`, or 0 where there is no such code. */
static inline uint next(__global const ushort *table, __global const int *codes, const ulong bits, const int is_dc)
{
    const uint entry = table[bits >> (64 - LOOK)];
    if (entry != LONG)
        return entry;
    const int next = (int)(bits >> 48);
    for (int length = LOOK + 1; length <= 16; ++length) {
        if (next < codes[length - 1]) {
            const int symbol = codes[32 + (((next >> (16 - length)) + codes[15 + length]) & 255)];
            const int size = symbol & 15;
            const int run = is_dc ? 0 : size == 0 && symbol != 0xF0 ? 63 : symbol >> 4;
            return (uint)(run << 10 | size << 6 | (length + size));
        }
    }
    return 0;
}

/* Where the first byte lies of which no bit was used. Going back, 255 0 counts as one byte. */
static inline int position(__global const uchar *streams, const Reader *r, const int first)
{
    int at = (int)r->at;
    for (int whole = (r->count - r->zeros) >> 3; whole > 0; --whole)
        at -= at - 2 >= first && streams[at - 1] == 0 && streams[at - 2] == 255 ? 2 : 1;
    return at;
}

static void interval(const int i, __global const uchar *streams, __global const ushort *lookups,
                     __global const int *codes, __global const int *frames,
                     __global const int *intervals, __global short *coefficients,
                     __global uchar *masks, __global int *results)
{
    __global const int *frame = frames + intervals[i * INTERVAL] * FRAME;
    const int first = intervals[i * INTERVAL + 1];
    const int mcu = intervals[i * INTERVAL + 3];
    const int mcus = intervals[i * INTERVAL + 4];
    const int across = frame[0];
    int block[PER_MCU], step[PER_MCU], turn[PER_MCU], owner[PER_MCU], dc[PER_MCU], ac[PER_MCU];
    int per_mcu = 0;
    for (int c = 0; c < frame[2]; ++c) {
        __global const int *part = frame + 8 + 12 * c;
        for (int y = 0; y < part[1]; ++y)
            for (int x = 0; x < part[0]; ++x) {
                owner[per_mcu] = c;
                dc[per_mcu] = part[5];
                ac[per_mcu] = part[6];
                step[per_mcu] = part[0];
                turn[per_mcu] = part[2] * part[1] - part[0] * across; /* from the end of a row of MCUs to the next */
                block[per_mcu] = part[4] + (mcu / across * part[1] + y) * part[2] + mcu % across * part[0] + x;
                ++per_mcu;
            }
    }
    Reader r = {0, 0, 0, first, intervals[i * INTERVAL + 2]};
    int predicted[4] = {0, 0, 0, 0};
    int code = 0, done = 0;
    int left = across - mcu % across;
    for (; done < mcus && code == 0; ++done) {
        for (int j = 0; j < per_mcu; ++j) {
            __global short *out = coefficients + (size_t)block[j] * 64;
            __global const ushort *table = lookups + (dc[j] << LOOK);
            for (int line = 0; line < 4; ++line)
                ((__global short16 *)out)[line] = (short16)(0);
            refill(streams, &r);
            uint entry = next(table, codes + dc[j] * CODES, r.bits, 1);
            if (entry == 0) {
                code = 2;
                break;
            }
            int total = entry & 63, size = entry >> 6 & 15;
            ulong tail = r.bits << (total - size);
            int value = (int)((tail >> 1) >> (63 - size)) + (~(int)((long)tail >> 63) & (1 - (1 << size)));
            r.bits <<= total;
            r.count -= total;
            value += predicted[owner[j]];
            predicted[owner[j]] = value;
            if (value != (short)value) {
                code = 5;
                break;
            }
            out[0] = (short)value;
            table = lookups + (ac[j] << LOOK);
            int k = 0, mask = 0, taken = 0;
            for (; k < 63; ++taken) {
                if (taken % REFILL == 0)
                    refill(streams, &r);
                entry = table[r.bits >> (64 - LOOK)];
                total = entry & 63;
                if (total >= r.count) { /* a long code, or bits that ran short */
                    if (r.count < 32)
                        refill(streams, &r);
                    entry = next(table, codes + ac[j] * CODES, r.bits, 0);
                    if (entry == 0) {
                        code = 2;
                        break;
                    }
                    total = entry & 63;
                }
                size = entry >> 6 & 15;
                k += (entry >> 10) + 1;
                tail = r.bits << (total - size);
                r.bits <<= total;
                r.count -= total;
                if (k > 63)
                    break;
                value = (int)((tail >> 1) >> (63 - size)) + (~(int)((long)tail >> 63) & (1 - (1 << size)));
                const int place = ZIGZAG[k];
                out[place] = (short)value;
                mask |= size == 0 ? 0 : place; /* 16 zeros are a token, too */
            }
            masks[block[j]] = (uchar)mask;
            if (k > 63 && entry >> 10 != 63)
                code = 3;
            if (r.count < r.zeros)
                code = 1;
            if (code != 0)
                break;
            block[j] += step[j];
        }
        if (--left == 0 && code == 0) {
            left = across;
            for (int j = 0; j < per_mcu; ++j)
                block[j] += turn[j];
        }
    }
    if (r.count < r.zeros)
        code = 1;
    const int at = position(streams, &r, first);
    if (code == 0 && at < r.end && !(streams[at] == 255 && at + 1 < r.end && streams[at + 1] != 0))
        code = 4;
    __global int *result = results + i * RESULT;
    result[0] = code;
    result[1] = at;
    result[2] = code == 0 ? done : done - 1;
}

__kernel void jpeg_entropy(__global const uchar *restrict streams, __global const ushort *restrict lookups,
                           __global const int *restrict codes, __global const int *restrict frames,
                           __global const int *restrict intervals, __global short *restrict coefficients,
                           __global uchar *restrict masks, __global int *restrict results, const int first,
                           const int count)
{
    const int i = (int)get_global_id(0);
    if (i < count)
        interval(first + i, streams, lookups, codes, frames, intervals, coefficients, masks, results);
}

__kernel void jpeg_entropy_task(__global const uchar *restrict streams, __global const ushort *restrict lookups,
                                __global const int *restrict codes, __global const int *restrict frames,
                                __global const int *restrict intervals, __global short *restrict coefficients,
                                __global uchar *restrict masks, __global int *restrict results, const int first,
                                const int count)
{
    for (int i = 0; i < count; ++i)
        interval(first + i, streams, lookups, codes, frames, intervals, coefficients, masks, results);
}
