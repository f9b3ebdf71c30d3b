// The input is a run.yaml; lines after a zero byte are overrides. What is accepted must be saved so that it
// reads back to the same saved form.
#include "app/config.h"
#include "base/error.h"

namespace draftsmith {
namespace {

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

void read_and_save(std::string_view input) {
  const std::size_t zero = std::min(input.find('\0'), input.size());
  ConfigText source{.name = "run.yaml", .text = std::string(input.substr(0, zero))};
  source.overrides = lines_of(input.substr(std::min(zero + 1, input.size())));
  std::string saved;
  try {
    saved = save_resolved(parse_config(source));
  } catch (const Error&) {
    return;
  }
  DRAFTSMITH_CHECK(save_resolved(parse_config({.name = "config.yaml", .text = saved})) == saved,
                   "what is saved reads back");
}

}  // namespace
}  // namespace draftsmith

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  draftsmith::read_and_save({reinterpret_cast<const char*>(data), size});
  return 0;
}
