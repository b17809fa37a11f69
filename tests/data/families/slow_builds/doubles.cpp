// y = 2 x, from file to file; SPIN says how long the compiler works on it.
#include <cstdio>
#include <vector>
constexpr long spin(long n) {
    long sum = 0;
    for (long i = 0; i < n; ++i)
        for (long j = 0; j < 1000; ++j) sum += (i ^ j) % 7;
    return sum;
}
static_assert(spin(SPIN) >= 0, "");
int main(int, char** names) {
    std::vector<float> x(N);
    std::FILE* in = std::fopen(names[1], "rb");
    if (std::fread(x.data(), sizeof(float), N, in) != N) return 1;
    for (float& each : x) each *= 2;
    std::FILE* out = std::fopen(names[2], "wb");
    std::fwrite(x.data(), sizeof(float), N, out);
    return std::fclose(out);
}
