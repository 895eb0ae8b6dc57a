/* jpeg_tokens: how much work a JPEG is for a decoder in hardware: its Huffman symbols and its blocks of 8x8.
 *
 * Formula    tokens = symbols of the scan: one DC symbol a block, then AC symbols up to and with end-of-block
 *            blocks = blocks of the scan, those that only fill up the last row and column of an image included
 *
 * argument   direction  type          shape         unit
 * files      input      const uchar*  (bytes,)      the JPEG files, one after the other
 * offsets    input      const int*    (images + 1,) byte at which each file begins; the last one: where all end
 * counted    output     int*          (images, 4)   tokens, blocks, status, byte of the file at which counting ended
 * images     input      int           ()            number of files
 *
 * status     0 counted; 1 not a baseline or extended Huffman JPEG of 8 bits with 1 or 3 components in one scan, or
 *            its Huffman tables are missing; 2 damaged. With another status than 0 the numbers end where it happened.
 * Launch     global size images, any local size; the task: one work-item.
 * Pipelined  one token per clock at best: where a token begins depends on the length of the one before, so the
 *            loop over tokens carries that dependence, and only a lookup of the length in one clock reaches II = 1.
 */
enum { COUNTED = 0, UNSUPPORTED = 1, DAMAGED = 2 };

typedef struct {
    __global const uchar *data;
    int at, end;  /* next byte, and the end of the file */
    uint bits;    /* `held` bits, the next one highest */
    int held;
    int made_up;  /* of them, bits that stand for bytes behind the end of the stream */
} Stream;

typedef struct {
    int most[17];     /* largest code of each length, -1 where there is none */
    int shift[17];    /* add to a code: its place in `symbols` */
    uchar symbols[256];
    int known;
} Table;

static void fill(Stream *s)
{
    while (s->held <= 24) {
        uint byte = 0;
        const bool more = s->at < s->end;
        const bool marker = more && s->data[s->at] == 0xFF && (s->at + 1 >= s->end || s->data[s->at + 1] != 0);
        if (more && !marker) {
            byte = s->data[s->at];
            s->at += byte == 0xFF ? 2 : 1;
        } else {
            s->made_up += 8;
        }
        s->bits |= byte << (24 - s->held);
        s->held += 8;
    }
}

static void drop(Stream *s, int count)
{
    s->bits <<= count;
    s->held -= count;
}

/* Returns the next symbol, or -1 where no code fits. */
static int symbol(Stream *s, const Table *table)
{
    fill(s);
    for (int length = 1; length <= 16; ++length) {
        const int code = (int)(s->bits >> (32 - length));
        if (code <= table->most[length]) {
            drop(s, length);
            return table->symbols[(code + table->shift[length]) & 255];
        }
    }
    return -1;
}

static bool skip(Stream *s, int count)
{
    fill(s);
    if (count)
        drop(s, count);
    return s->held >= s->made_up;
}

/* Counts the symbols of one block; false where it is damaged. */
static bool block(Stream *s, const Table *dc, const Table *ac, int *tokens)
{
    int value = symbol(s, dc);
    if (value < 0 || value > 15 || !skip(s, value))
        return false;
    ++*tokens;
    for (int k = 1; k < 64;) {
        value = symbol(s, ac);
        if (value < 0 || !skip(s, value & 15))
            return false;
        ++*tokens;
        if (value == 0)
            break;
        k += (value >> 4) + 1;
        if (k > 64)
            return false;
    }
    return true;
}

static bool read_tables(__global const uchar *data, int at, int end, Table *tables)
{
    while (at + 17 <= end) {
        const int kind = data[at];
        if ((kind & 15) > 3 || (kind >> 4) > 1)
            return false;
        Table *table = tables + (kind >> 4) * 4 + (kind & 15);
        int code = 0, place = 0;
        for (int length = 1; length <= 16; ++length) {
            const int count = data[at + length];
            table->shift[length] = place - code;
            code += count;
            place += count;
            table->most[length] = count ? code - 1 : -1;
            if (code > 1 << length)
                return false;
            code <<= 1;
        }
        at += 17;
        if (place > 256 || at + place > end)
            return false;
        for (int i = 0; i < place; ++i)
            table->symbols[i] = data[at + i];
        table->known = 1;
        at += place;
    }
    return at == end;
}

/* Counts one scan; returns a status. `picks` holds the DC and the AC table of each component. */
static int scan(Stream *s, const Table *tables, const int *picks, const int *repeats, int parts, int units, int restart,
                int *tokens, int *blocks)
{
    for (int unit = 0; unit < units; ++unit) {
        if (restart && unit && unit % restart == 0) {
            while (s->at + 1 < s->end && s->data[s->at] == 0xFF && s->data[s->at + 1] == 0xFF)
                ++s->at;
            if (s->at + 1 >= s->end || s->data[s->at] != 0xFF || (s->data[s->at + 1] & 0xF8) != 0xD0)
                return DAMAGED;
            s->at += 2;
            s->bits = 0;
            s->held = s->made_up = 0;
        }
        for (int part = 0; part < parts; ++part)
            for (int i = 0; i < repeats[part]; ++i) {
                if (!block(s, tables + picks[2 * part], tables + 4 + picks[2 * part + 1], tokens))
                    return DAMAGED;
                ++*blocks;
            }
    }
    return COUNTED;
}

static int file(__global const uchar *data, int *at, int end, int *tokens, int *blocks)
{
    Table tables[8];
    int names[3], across[3], down[3], picks[6], repeats[3];
    int width = 0, height = 0, parts = 0, restart = 0, p = *at;
    for (int i = 0; i < 8; ++i)
        tables[i].known = 0;
    if (p + 2 > end || data[p] != 0xFF || data[p + 1] != 0xD8)
        return UNSUPPORTED;
    p += 2;
    for (;;) {
        *at = p;
        if (p + 4 > end || data[p] != 0xFF)
            return DAMAGED;
        const int marker = data[p + 1];
        if (marker == 0xFF) {
            ++p;
            continue;
        }
        const int next = p + 2 + data[p + 2] * 256 + data[p + 3];
        p += 4;
        if (next < p || next > end)
            return DAMAGED;
        if (marker == 0xC4) {
            if (!read_tables(data, p, next, tables))
                return DAMAGED;
        } else if (marker == 0xC0 || marker == 0xC1) {
            if (p + 6 > next)
                return DAMAGED;
            height = data[p + 1] * 256 + data[p + 2];
            width = data[p + 3] * 256 + data[p + 4];
            parts = data[p + 5];
            if (data[p] != 8 || !width || !height || (parts != 1 && parts != 3) || p + 6 + 3 * parts > next)
                return UNSUPPORTED;
            for (int i = 0; i < parts; ++i) {
                names[i] = data[p + 6 + 3 * i];
                across[i] = data[p + 7 + 3 * i] >> 4;
                down[i] = data[p + 7 + 3 * i] & 15;
                if (across[i] < 1 || across[i] > 4 || down[i] < 1 || down[i] > 4)
                    return DAMAGED;
            }
        } else if (marker >= 0xC2 && marker <= 0xCF && marker != 0xC8 && marker != 0xCC) {
            return UNSUPPORTED;
        } else if (marker == 0xDD && next - p >= 2) {
            restart = data[p] * 256 + data[p + 1];
        } else if (marker == 0xD9) {
            return DAMAGED;
        } else if (marker == 0xDA) {
            if (!parts || p >= next || data[p] != parts || p + 1 + 2 * parts > next)
                return UNSUPPORTED;
            p += 1;
            break;
        }
        p = next;
    }
    int most_across = 1, most_down = 1;
    for (int i = 0; i < parts; ++i) {
        picks[2 * i] = (data[p + 2 * i + 1] >> 4) & 3;
        picks[2 * i + 1] = data[p + 2 * i + 1] & 3;
        if (data[p + 2 * i] != names[i] || !tables[picks[2 * i]].known || !tables[4 + picks[2 * i + 1]].known)
            return UNSUPPORTED;
        if (parts == 1)
            across[i] = down[i] = 1;
        repeats[i] = across[i] * down[i];
        most_across = max(most_across, across[i]);
        most_down = max(most_down, down[i]);
    }
    const int wide = 8 * most_across, high = 8 * most_down;
    const int units = ((width + wide - 1) / wide) * ((height + high - 1) / high);
    Stream stream = { data, p + 2 * parts + 3, end, 0, 0, 0 };
    const int status = scan(&stream, tables, picks, repeats, parts, units, restart, tokens, blocks);
    *at = min(stream.at, end);
    return status;
}

static void count(__global const uchar *files, __global const int *offsets, __global int *counted, int image)
{
    int tokens = 0, blocks = 0, at = offsets[image];
    const int status = file(files, &at, offsets[image + 1], &tokens, &blocks);
    counted[4 * image] = tokens;
    counted[4 * image + 1] = blocks;
    counted[4 * image + 2] = status;
    counted[4 * image + 3] = at - offsets[image];
}

__kernel void jpeg_tokens(__global const uchar *restrict files, __global const int *restrict offsets,
                          __global int *restrict counted, const int images)
{
    const int image = (int)get_global_id(0);
    if (image < images)
        count(files, offsets, counted, image);
}

__kernel void jpeg_tokens_task(__global const uchar *restrict files, __global const int *restrict offsets,
                               __global int *restrict counted, const int images)
{
    for (int image = 0; image < images; ++image)
        count(files, offsets, counted, image);
}
