"""JPEG files decoded on an OpenCL device: their headers, their Huffman tables, the kernels, and what the host does."""
