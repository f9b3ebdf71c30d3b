// The DRAFTSMITH_ texts come from src/CMakeLists.txt; what can be asked of the running machine is asked.
#include "app/version.h"

#include <fmt/core.h>
#include <oneapi/dnnl/dnnl.h>

#include "app/machine.h"

namespace draftsmith {

std::string version_text() {
  const Machine machine = this_machine();
  const dnnl_version_t& dnnl = *dnnl_version();
  std::string text = fmt::format("draftsmith {}\n", DRAFTSMITH_VERSION);
  text += fmt::format("  build      {}, kernels for -march={}, {}\n", DRAFTSMITH_BUILD_TYPE,
                      DRAFTSMITH_CPU_ARCH, DRAFTSMITH_CUDA_TEXT);
  text += fmt::format("  compiler   {}\n", DRAFTSMITH_COMPILER);
  text += fmt::format("  CPU        {} ({} cores)\n", machine.cpu, machine.cores);
  text += fmt::format("  features   {}\n", machine.cpu_features);
  text += fmt::format("  libraries  oneDNN {}.{}.{}, {}", dnnl.major, dnnl.minor, dnnl.patch,
                      DRAFTSMITH_LIBRARIES);
  return text;
}

}  // namespace draftsmith
