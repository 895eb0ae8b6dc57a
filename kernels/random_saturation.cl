/* random_saturation: the saturation of each image is multiplied by one random number, as tf.image.random_saturation does.
 *
 * Formula    out = V - min(factor(image), V / (V - m)) * (V - in), V and m the largest and the smallest value of a pixel,
 *            factor = low + u * (high - low), u = (word >> 8) / 2^24,
 *            word = word 2 of Philox-4x32-10(counter = (step, image, 0), key = seed)
 *            In HSV, hue and value stay, and the saturation (V - m) / V is multiplied, up to 1.
 *
 * argument   direction  type           shape           unit
 * in         input      const float*   (n, pixels, 3)  share of full brightness; RGB interleaved
 * out        output     float*         (n, pixels, 3)  share of full brightness; not clipped
 * n          input      int            ()              images
 * pixels     input      int            ()              pixels of an image
 * seed       input      uint2          ()              64 bits, the lower half first
 * counter    input      uint2          ()              64 bits, the lower half first: number of the batch
 * low        input      float          ()              the least factor, 0 or more
 * high       input      float          ()              factors lie below it
 *
 * Launch     random_saturation: global size (pixels, n), a work-item a pixel; random_saturation_task: global size 1.
 * Pipelined  a pixel per clock; the division takes the most stages, and none waits for another.
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

static float drawn(const uint image, const uint2 seed, const uint2 counter, const float low, const float high)
{
    const float share = (float)(philox((uint4)(counter, image, 0), seed).z >> 8) * 0x1p-24f;
    return low + share * (high - low);
}

static void saturate(__global const float *in, __global float *out, const float factor)
{
    /* Plain compares: a call of fmax or fmin keeps some compilers from making vector code. */
    float largest = in[0] > in[1] ? in[0] : in[1], smallest = in[0] < in[1] ? in[0] : in[1];
    largest = largest > in[2] ? largest : in[2];
    smallest = smallest < in[2] ? smallest : in[2];
    float spread = largest - smallest;
    spread = spread > 1e-12f ? spread : 1e-12f; /* grey: every factor gives grey again */
    const float most = largest / spread;
    const float limited = factor < most ? factor : most;
    for (int c = 0; c < 3; c++)
        out[c] = largest - limited * (largest - in[c]);
}

__kernel void random_saturation(__global const float *restrict in, __global float *restrict out, const int n,
                                const int pixels, const uint2 seed, const uint2 counter, const float low,
                                const float high)
{
    const int image = get_global_id(1);
    const size_t at = 3 * ((size_t)image * pixels + get_global_id(0));
    saturate(in + at, out + at, drawn(image, seed, counter, low, high));
}

__kernel void random_saturation_task(__global const float *restrict in, __global float *restrict out, const int n,
                                     const int pixels, const uint2 seed, const uint2 counter, const float low,
                                     const float high)
{
    for (int image = 0; image < n; image++) {
        const float factor = drawn(image, seed, counter, low, high);
        for (int pixel = 0; pixel < pixels; pixel++) {
            const size_t at = 3 * ((size_t)image * pixels + pixel);
            saturate(in + at, out + at, factor);
        }
    }
}
