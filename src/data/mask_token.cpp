#include "data/mask_token.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace draftsmith {
namespace {

// Rows of the table above the tokenizer's last id.
std::string advice(const MaskTokenChoice& choice) {
  constexpr std::int64_t kMostNamed = 3;
  const std::int64_t first = choice.tokenizer.size();
  const std::int64_t end = std::min(choice.table_rows, first + kMostNamed);
  if (first >= end) {
    return "the table's " + std::to_string(choice.table_rows) +
           " rows are all tokens: set drafter.mask_token_id to one that the data never holds";
  }
  std::string rows;
  for (std::int64_t id = first; id < end; ++id) rows += (id == first ? "" : ", ") + std::to_string(id);
  return "set drafter.mask_token_id to an unused row of the table: " + rows;
}

}  // namespace

std::int32_t choose_mask_token(const MaskTokenChoice& choice) {
  const Tokenizer& tokenizer = choice.tokenizer;
  std::optional<std::int64_t> id = choice.configured;
  if (!id) id = tokenizer.mask_token();
  if (!id) throw Error("the target's tokenizer has no mask token; " + advice(choice));
  const std::string name =
      (choice.configured ? "drafter.mask_token_id " : "the tokenizer's mask token ") + std::to_string(*id);
  if (*id < 0 || *id >= choice.table_rows) {
    throw Error(name + " is outside the target's table of " + std::to_string(choice.table_rows) + " rows; " +
                advice(choice));
  }
  const auto refuse_if = [&](bool same, const char* role) {
    if (same) throw Error(name + " is the " + role + " token, which text needs; " + advice(choice));
  };
  refuse_if(id == tokenizer.pad_token(), "pad");
  refuse_if(id == tokenizer.eos_token(), "eos");
  refuse_if(id == tokenizer.bos_token(), "bos");
  refuse_if(std::find(choice.stop_tokens.begin(), choice.stop_tokens.end(), *id) != choice.stop_tokens.end(),
            "stop");
  return static_cast<std::int32_t>(*id);
}

std::string mask_token_warning(const Corpus& corpus, const std::filesystem::path& file,
                               std::int32_t mask_token) {
  std::int64_t first_line = 0, tokens = 0, documents = 0;
  for (std::int64_t i = 0; i < corpus.size(); ++i) {
    const DocumentView document = corpus[i];
    const auto found = std::count(document.ids.begin(), document.ids.end(), mask_token);
    if (found == 0) continue;
    if (documents == 0) first_line = document.line;
    tokens += found;
    ++documents;
  }
  if (documents == 0) return "";
  return file.string() + ":" + std::to_string(first_line) + ": the data holds the drafter's mask token, " +
         std::to_string(mask_token) + ", here for the first time and " + std::to_string(tokens) +
         (tokens == 1 ? " time" : " times") + " in all, in " + std::to_string(documents) +
         (documents == 1 ? " document" : " documents") +
         ": a drafter cannot tell it from a slot that it is to fill. Take it out, or set "
         "drafter.mask_token_id to a "
         "row that the data never holds";
}

}  // namespace draftsmith
