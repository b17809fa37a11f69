extern "C" __global__ void broken(const float* x, float* y, int n) {
    y[threadIdx.x] = undeclared * x[threadIdx.x];
}
