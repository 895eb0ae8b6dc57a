/* resize_bilinear: one plane in, one plane out, half-pixel centres, as tf.image.resize.
 *
 * Formula    with position = (x + 1/2) * scale_x - 1/2, left = floor(position), share = position - left:
 *            a row becomes  in[left] + (in[left + 1] - in[left]) * share,  beyond the edges the edge pixel alone;
 *            rows are mixed first in the same way, then columns
 *
 * argument    direction  type           shape                    unit
 * in          input      const uchar*   (in_height, in_width)    grey level, 0..255
 * out         output     float*         (out_height, out_width)  grey level, 0..255, not rounded
 * in_height   input      int            ()                       pixels
 * in_width    input      int            ()                       pixels
 * out_height  input      int            ()                       pixels
 * out_width   input      int            ()                       pixels
 * scale_y     input      float          ()                       in_height / out_height
 * scale_x     input      float          ()                       in_width / out_width
 *
 * The host divides, since division is the one operation here that devices may round in different ways.
 *
 * Launch     resize_bilinear: global size (out_width, out_height), a work-item a pixel; resize_bilinear_task: global size 1.
 * Pipelined  a pixel per clock with two rows of the input in on-chip memory; reading in[] directly, four reads a pixel.
 */
#pragma OPENCL FP_CONTRACT OFF

/* Return the pixel to the left of (above) output pixel x, and its right neighbour's share. */
static int left_of(const int x, const float scale, const int length, float *share)
{
    const float position = ((float)x + 0.5f) * scale - 0.5f;
    const int whole = (int)position;
    const int left = position < (float)whole ? whole - 1 : whole; /* floor, also below 0 */
    *share = left < 0 || length == 1 ? 0.0f : left > length - 2 ? 1.0f : position - (float)left;
    return left < 0 || length == 1 ? 0 : left > length - 2 ? length - 2 : left;
}

static float pixel(__global const uchar *restrict in, const int in_height, const int in_width, const int y, const int x,
                   const float scale_y, const float scale_x)
{
    float share_y, share_x;
    const int top = left_of(y, scale_y, in_height, &share_y), left = left_of(x, scale_x, in_width, &share_x);
    const int bottom = in_height > 1 ? top + 1 : top, right = in_width > 1 ? left + 1 : left;
    __global const uchar *above = in + (size_t)top * in_width, *below = in + (size_t)bottom * in_width;
    const float a = (float)above[left] + ((float)below[left] - (float)above[left]) * share_y;
    const float b = (float)above[right] + ((float)below[right] - (float)above[right]) * share_y;
    return a + (b - a) * share_x;
}

__kernel void resize_bilinear(__global const uchar *restrict in, __global float *restrict out, const int in_height,
                              const int in_width, const int out_height, const int out_width, const float scale_y,
                              const float scale_x)
{
    const int x = get_global_id(0), y = get_global_id(1);
    out[(size_t)y * out_width + x] = pixel(in, in_height, in_width, y, x, scale_y, scale_x);
}

__kernel void resize_bilinear_task(__global const uchar *restrict in, __global float *restrict out, const int in_height,
                                   const int in_width, const int out_height, const int out_width, const float scale_y,
                                   const float scale_x)
{
    for (int y = 0; y < out_height; y++)
        for (int x = 0; x < out_width; x++)
            out[(size_t)y * out_width + x] = pixel(in, in_height, in_width, y, x, scale_y, scale_x);
}
