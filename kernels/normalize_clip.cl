/* normalize_clip: bytes to brightness-shifted floats in [0, 1].
 *
 * Formula    out = min(max(in / 255 + delta, 0), 1)
 *
 * argument   direction  type          shape  unit
 * in         input      const uchar*  (n,)   grey level, 0..255
 * out        output     float*        (n,)   share of full brightness, 0..1
 * delta      input      float         ()     share of full brightness, one number per launch
 * n          input      int           ()     values
 *
 * Launch     normalize_clip: global size n, any local size, no two work-items touch the same value;
 *            normalize_clip_task: global size 1.
 * Pipelined  one value per clock: no value depends on another, so the initiation interval is 1.
 */
static float one(const uchar level, const float delta)
{
    return clamp(level / 255.0f + delta, 0.0f, 1.0f);
}

__kernel void normalize_clip(__global const uchar *restrict in, __global float *restrict out, const float delta,
                             const int n)
{
    const size_t i = get_global_id(0);
    if (i < (size_t)n)
        out[i] = one(in[i], delta);
}

__kernel void normalize_clip_task(__global const uchar *restrict in, __global float *restrict out, const float delta,
                                  const int n)
{
    for (int i = 0; i < n; i++)
        out[i] = one(in[i], delta);
}
