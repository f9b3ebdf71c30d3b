// Which token fills the masked offsets of a draft block: a real row of the target's embedding table that the
// text itself never needs. Most targets have no mask token; then the user picks an unused row.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "data/corpus.h"
#include "data/tokenizer.h"

namespace draftsmith {

struct MaskTokenChoice {
  std::optional<std::int64_t> configured;  // drafter.mask_token_id
  const Tokenizer& tokenizer;
  std::int64_t table_rows;  // of the target's embedding table
  std::span<const std::int32_t> stop_tokens =
      {};  // of the target's generation, refused like the tokenizer's eos
};

// The configured id, else the tokenizer's mask token. Throws Error when there is neither, when the id is
// outside the table, and when it is a pad, eos, bos or stop token; the message names up to three unused rows.
std::int32_t choose_mask_token(const MaskTokenChoice& choice);

// What to say of data that holds the mask token: the line of the first one in `file`, of which the corpus was read, how
// many there are, and what to do. Empty: it holds none.
std::string mask_token_warning(const Corpus& corpus, const std::filesystem::path& file,
                               std::int32_t mask_token);

}  // namespace draftsmith
