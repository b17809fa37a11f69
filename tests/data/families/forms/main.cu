// A whole program: main.cu N IN OUT
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void doubles(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}

int main(int count, char** words) {
    if (count != 4) return 1;
    int n = std::atoi(words[1]);
    std::vector<float> values(n);
    FILE* in = std::fopen(words[2], "rb");
    if (!in || std::fread(values.data(), 4, n, in) != size_t(n)) return 2;
    float *x, *y;
    if (cudaMalloc(&x, 4 * n) != cudaSuccess) {
        std::fprintf(stderr, "%s\n", cudaGetErrorString(cudaGetLastError()));
        return 3;
    }
    cudaMalloc(&y, 4 * n);
    cudaMemcpy(x, values.data(), 4 * n, cudaMemcpyHostToDevice);
    doubles<<<(n + THREADS - 1) / THREADS, THREADS>>>(x, y, n);
    cudaMemcpy(values.data(), y, 4 * n, cudaMemcpyDeviceToHost);
    FILE* out = std::fopen(words[3], "wb");
    std::fwrite(values.data(), 4, n, out);
    std::fclose(out);
    return 0;
}
