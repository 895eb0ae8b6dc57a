/* normalize_clip: bytes to brightness-shifted floats in [0, 1].
 *
 * Formula    out = min(max(in / 255 + delta, 0), 1)
 *
 * argument   direction  type          shape  unit
 * in         input      const uchar*  (n,)   grey level, 0..255
 * out        output     float*        (n,)   share of full brightness, 0..1
 * delta      input      float         ()     share of full brightness, one number per launch
 *
 * Launch     global size n, any local size; no two work-items touch the same value.
 * Pipelined  one value per clock: no value depends on another, so the initiation interval is 1.
 */
__kernel void normalize_clip(__global const uchar *restrict in, __global float *restrict out, const float delta)
{
    const size_t i = get_global_id(0);
    out[i] = clamp(in[i] / 255.0f + delta, 0.0f, 1.0f);
}
