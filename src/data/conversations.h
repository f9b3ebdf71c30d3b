// Data sets, JSON lines to a Corpus. One object a line, all lines of a file of one kind:
//   {"messages": [{"role": "user", "content": "…"}, …]}   a conversation in the target's chat template
//   {"text": "…"}                                         a plain text, without template or special tokens
//   {"input_ids": [1, 2, …], "loss_mask": [0, 1, …]}      tokens that were made elsewhere, used as they are
//
// Supervised are the answers of a conversation (chat.h), every token of a text but its first, and the tokens
// whose loss_mask is 1; the first token never is, since nothing comes before it to predict it from.
//
// "id" (a text or an integer) and "domain" may stand in any line; other keys are ignored, and so are blank
// lines. A line may have any length.
#pragma once

#include <cstdint>
#include <filesystem>

#include "data/corpus.h"
#include "data/tokenizer.h"

namespace draftsmith {

struct ConversationSource {
  const std::filesystem::path& file;
  const Tokenizer& tokenizer;
  const std::filesystem::path& target;  // its chat template is read when a line has messages
  std::int64_t table_rows;              // of the target's embedding table; every id is below
  std::int64_t max_tokens;              // longer documents are cut after tokenizing, before filtering
};

// Throws Error naming file and line: broken JSON or UTF-8, none or several of the three kinds, another kind
// than the lines before; messages missing or empty, a role that is not known, content that is not a text, no
// assistant message; input_ids and loss_mask of different lengths, ids outside the table, mask entries
// other than 0 and 1, a supervised first token. Throws Error for a data set with nothing usable
// (Corpus::require_usable). Blocks while it reads the file.
Corpus read_conversations(const ConversationSource& source);

}  // namespace draftsmith
