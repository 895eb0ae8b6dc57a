/* random_flip: each image of a batch is mirrored, left for right, or not, with even chances.
 *
 * Formula    out[image, y, x] = in[image, y, flip ? width - 1 - x : x],
 *            flip = word 0 of Philox-4x32-10(counter = (step, image, 0), key = seed) < 2^31
 *
 * argument   direction  type           shape                  unit
 * in         input      const float*   (n, height, width, 3)  any; RGB interleaved
 * out        output     float*         (n, height, width, 3)  as in
 * n          input      int            ()                     images
 * height     input      int            ()                     pixels
 * width      input      int            ()                     pixels
 * seed       input      uint2          ()                     64 bits, the lower half first
 * counter    input      uint2          ()                     64 bits, the lower half first: number of the batch
 *
 * Launch     random_flip: global size (height, n), a work-item a row; random_flip_task: global size 1.
 * Pipelined  a value per clock: mirroring is an address that counts down. A streaming device needs a buffer of one row.
 */
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

static void flip_row(__global const float *in, __global float *out, const int width, const int flip)
{
    for (int x = 0; x < width; x++) {
        const int from = flip ? width - 1 - x : x;
        for (int c = 0; c < 3; c++)
            out[3 * x + c] = in[3 * from + c];
    }
}

static int drawn(const uint image, const uint2 seed, const uint2 counter)
{
    return philox((uint4)(counter, image, 0), seed).x < 0x80000000u;
}

__kernel void random_flip(__global const float *restrict in, __global float *restrict out, const int n,
                          const int height, const int width, const uint2 seed, const uint2 counter)
{
    const int image = get_global_id(1);
    const size_t row = 3 * ((size_t)image * height + get_global_id(0)) * width;
    flip_row(in + row, out + row, width, drawn(image, seed, counter));
}

__kernel void random_flip_task(__global const float *restrict in, __global float *restrict out, const int n,
                               const int height, const int width, const uint2 seed, const uint2 counter)
{
    for (int image = 0; image < n; image++) {
        const int flip = drawn(image, seed, counter);
        for (int y = 0; y < height; y++) {
            const size_t row = 3 * ((size_t)image * height + y) * width;
            flip_row(in + row, out + row, width, flip);
        }
    }
}
