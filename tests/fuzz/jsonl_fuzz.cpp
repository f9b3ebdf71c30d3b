// The input is a data set of JSON lines for the demo's target. What is read must be documents that training
// can take.
#include "base/error.h"
#include "data/conversations.h"
#include "support/temporary_folder.h"

namespace draftsmith {
namespace {

constexpr std::int64_t kMostTokens = 64;

void check_document(const DocumentView& document, std::int64_t table_rows) {
  DRAFTSMITH_CHECK(document.ids.size() == document.loss_mask.size(), "one mask entry a token");
  DRAFTSMITH_CHECK(std::ssize(document.ids) <= kMostTokens, "longer documents are cut");
  DRAFTSMITH_CHECK(!document.prompt().empty() && document.answer().size() >= 1, "prompt and answer");
  for (std::size_t i = 0; i < document.ids.size(); ++i) {
    DRAFTSMITH_CHECK(document.ids[i] >= 0 && document.ids[i] < table_rows, "ids are rows of the table");
    DRAFTSMITH_CHECK(document.loss_mask[i] <= 1, "a mask is 0 or 1");
  }
}

void read_all(std::string_view input) {
  static const TemporaryFolder folder;
  static const std::filesystem::path target = DRAFTSMITH_SOURCE_DIR "/examples/demo/target";
  static const Tokenizer tokenizer = Tokenizer::load(target);
  const Corpus corpus = read_conversations({.file = folder.write("data.jsonl", input),
                                            .tokenizer = tokenizer,
                                            .target = target,
                                            .table_rows = tokenizer.size(),
                                            .max_tokens = kMostTokens});
  for (std::int64_t i = 0; i < corpus.size(); ++i) check_document(corpus[i], tokenizer.size());
}

}  // namespace
}  // namespace draftsmith

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    draftsmith::read_all({reinterpret_cast<const char*>(data), size});
  } catch (const draftsmith::Error&) {
  }
  return 0;
}
