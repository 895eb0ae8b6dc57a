"""OpenCL devices of this machine, the drivers behind them, and an engine that runs kernels on one of them."""
