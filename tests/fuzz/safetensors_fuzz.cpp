// The input is a safetensors file. Whatever it holds, reading gives views inside it or throws Error.
#include "base/error.h"
#include "data/safetensors.h"

namespace draftsmith {
namespace {

void read_all(std::span<const std::byte> bytes) {
  const SafetensorsFile file(bytes, "input.safetensors");
  std::vector<float> values;
  for (const std::string& name : file.names()) {
    const TensorEntry& tensor = file.at(name);
    DRAFTSMITH_CHECK(
        tensor.bytes.empty() || (tensor.bytes.data() >= bytes.data() &&
                                 tensor.bytes.data() + tensor.bytes.size() <= bytes.data() + bytes.size()),
        "a tensor lies in its file");
    values.resize(static_cast<std::size_t>(tensor.elements()));
    try {
      read_as(tensor, std::span<float>(values));
    } catch (const Error&) {  // a type that is no number of ours
    }
  }
}

}  // namespace
}  // namespace draftsmith

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    draftsmith::read_all(std::as_bytes(std::span(data, size)));
  } catch (const draftsmith::Error&) {
  }
  return 0;
}
