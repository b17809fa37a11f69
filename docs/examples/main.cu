#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void doubles(float *x, int n)
{
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n) x[i] *= 2;
}

int main(int, char **words)
{
    const int n = std::atoi(words[1]);
    std::vector<float> values(n);
    std::FILE *in = std::fopen(words[2], "rb"), *out = std::fopen(words[3], "wb");
    if (std::fread(values.data(), 4, n, in) != n) return 1;
    float *x;
    cudaMalloc(&x, 4 * n);
    cudaMemcpy(x, values.data(), 4 * n, cudaMemcpyHostToDevice);
    doubles<<<(n + THREADS - 1) / THREADS, THREADS>>>(x, n);
    cudaMemcpy(values.data(), x, 4 * n, cudaMemcpyDeviceToHost);
    std::fwrite(values.data(), 4, n, out);
    return std::fclose(out);
}
