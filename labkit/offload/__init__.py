"""Preprocessing beside the CPU: OpenCL devices, the lab's kernels on them, and a model of a SmartSSD."""
