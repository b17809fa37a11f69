// A whole program on the host: main N IN prints the doubled numbers.
#include <cstdio>
#include <cstdlib>
#include <fstream>

int main(int count, char** words) {
    std::ifstream in(words[2]);
    if (count < 3 || !in) {
        std::fprintf(stderr, "usage: main N IN\n");
        return 64;
    }
    std::printf("y =\n");
    float value;
    for (int i = std::atoi(words[1]); i && in >> value; i--) std::printf("%.9g\n", 2.0f * value);
    return 0;
}
