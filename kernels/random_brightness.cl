/* random_brightness: one random number an image is added to all of its values, as tf.image.random_brightness does.
 *
 * Formula    out = in + delta(image), delta = -most + u * 2 * most, u = (word >> 8) / 2^24,
 *            word = word 1 of Philox-4x32-10(counter = (step, image, 0), key = seed)
 *
 * argument   direction  type           shape           unit
 * in         input      const float*   (n, pixels, 3)  share of full brightness
 * out        output     float*         (n, pixels, 3)  share of full brightness; not clipped
 * n          input      int            ()              images
 * pixels     input      int            ()              pixels of an image
 * seed       input      uint2          ()              64 bits, the lower half first
 * counter    input      uint2          ()              64 bits, the lower half first: number of the batch
 * most       input      float          ()              share of full brightness: deltas lie in [-most, most)
 *
 * Launch     random_brightness: global size (pixels, n), a work-item a pixel; random_brightness_task: global size 1.
 * Pipelined  a value per clock after the ten rounds of the generator, once an image.
 *
 * random_brightness_per_pixel, and its task, draw a number for each pixel: counter = (step, image, pixel + 1). They are
 * here to be looked at: brighter light is brighter everywhere, and a number for each pixel is noise. It costs more, too:
 * the ten rounds stand inside the loop over pixels.
 */
#pragma OPENCL FP_CONTRACT OFF

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

static float drawn(const uint image, const uint pixel, const uint2 seed, const uint2 counter, const float most)
{
    const float share = (float)(philox((uint4)(counter, image, pixel), seed).y >> 8) * 0x1p-24f;
    return -most + share * (most + most);
}

static void brighten(__global const float *in, __global float *out, const float delta)
{
    for (int c = 0; c < 3; c++)
        out[c] = in[c] + delta;
}

__kernel void random_brightness(__global const float *restrict in, __global float *restrict out, const int n,
                                const int pixels, const uint2 seed, const uint2 counter, const float most)
{
    const int image = get_global_id(1);
    const size_t at = 3 * ((size_t)image * pixels + get_global_id(0));
    brighten(in + at, out + at, drawn(image, 0, seed, counter, most));
}

__kernel void random_brightness_task(__global const float *restrict in, __global float *restrict out, const int n,
                                     const int pixels, const uint2 seed, const uint2 counter, const float most)
{
    for (int image = 0; image < n; image++) {
        const float delta = drawn(image, 0, seed, counter, most);
        for (int pixel = 0; pixel < pixels; pixel++) {
            const size_t at = 3 * ((size_t)image * pixels + pixel);
            brighten(in + at, out + at, delta);
        }
    }
}

__kernel void random_brightness_per_pixel(__global const float *restrict in, __global float *restrict out, const int n,
                                          const int pixels, const uint2 seed, const uint2 counter, const float most)
{
    const int image = get_global_id(1), pixel = get_global_id(0);
    const size_t at = 3 * ((size_t)image * pixels + pixel);
    brighten(in + at, out + at, drawn(image, pixel + 1, seed, counter, most));
}

__kernel void random_brightness_per_pixel_task(__global const float *restrict in, __global float *restrict out,
                                               const int n, const int pixels, const uint2 seed, const uint2 counter,
                                               const float most)
{
    for (int image = 0; image < n; image++)
        for (int pixel = 0; pixel < pixels; pixel++) {
            const size_t at = 3 * ((size_t)image * pixels + pixel);
            brighten(in + at, out + at, drawn(image, pixel + 1, seed, counter, most));
        }
}
