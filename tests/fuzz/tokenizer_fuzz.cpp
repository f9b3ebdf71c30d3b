// The input is a tokenizer.json, a zero byte, and a text to encode. Without a zero byte all of it is text for
// the demo's tokenizer, which has every byte and no normalizer: what goes there must come back.
#include "base/error.h"
#include "data/tokenizer.h"
#include "data/utf8.h"
#include "support/temporary_folder.h"

namespace draftsmith {
namespace {

std::string there_and_back(const Tokenizer& tokenizer, std::string_view text) {
  const std::string back = tokenizer.decode(tokenizer.encode(text));
  DRAFTSMITH_CHECK(valid_utf8_bytes(back) == back.size(), "decoding gives UTF-8");
  return back;
}

void read_and_encode(std::string_view input) {
  static const TemporaryFolder folder;
  static const Tokenizer demo = Tokenizer::load(DRAFTSMITH_SOURCE_DIR "/examples/demo/target");
  const std::size_t zero = input.find('\0');
  if (zero == std::string_view::npos) {
    DRAFTSMITH_CHECK(there_and_back(demo, input) == input, "what is encoded comes back");
  } else {
    const Tokenizer tokenizer = Tokenizer::load(folder.write("tokenizer.json", input.substr(0, zero)));
    there_and_back(tokenizer, input.substr(zero + 1));
  }
}

}  // namespace
}  // namespace draftsmith

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    draftsmith::read_and_encode({reinterpret_cast<const char*>(data), size});
  } catch (const draftsmith::Error&) {
  }
  return 0;
}
