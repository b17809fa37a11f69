"""OpenCL: PyOpenCL on any device, kernel times from profiling events."""
