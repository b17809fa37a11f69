// Write one line a kernel of the process that this is loaded into: start, end (ns), registers, shared and local bytes.
#include <cupti.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr size_t BUFFER_BYTES = 1 << 20;
FILE* times;
void* library;

template <typename Function>
Function find(const char* name) { return reinterpret_cast<Function>(dlsym(library, name)); }

void CUPTIAPI give(uint8_t** buffer, size_t* size, size_t* most) {
  *size = BUFFER_BYTES;
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, BUFFER_BYTES));
  *most = 0;
}

void CUPTIAPI take(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  static const auto next = find<decltype(&cuptiActivityGetNextRecord)>("cuptiActivityGetNextRecord");
  CUpti_Activity* record = nullptr;
  while (next(buffer, valid, &record) == CUPTI_SUCCESS) {
    // What is read lies at the same place in every layout since the fourth.
    const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel9*>(record);
    std::fprintf(times, "%llu %llu %d %d %d\n", (unsigned long long)kernel->start, (unsigned long long)kernel->end,
                 (int)kernel->registersPerThread, (int)(kernel->staticSharedMemory + kernel->dynamicSharedMemory),
                 (int)kernel->localMemoryPerThread);
  }
  std::free(buffer);
}

void finish() {
  find<decltype(&cuptiActivityFlushAll)>("cuptiActivityFlushAll")(1);
  std::fclose(times);
}

}  // namespace

extern "C" int InitializeInjection() {
  library = dlopen(std::getenv("CUPROF_CUPTI"), RTLD_NOW);
  times = std::fopen(std::getenv("CUPROF_KERNEL_TIMES"), "w");
  if (!library || !times) return 0;
  find<decltype(&cuptiActivityRegisterCallbacks)>("cuptiActivityRegisterCallbacks")(give, take);
  find<decltype(&cuptiActivityEnable)>("cuptiActivityEnable")(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  std::atexit(finish);
  return 1;
}
