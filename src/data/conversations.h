// Conversations from JSON lines to a Corpus. One object a line:
//   {"id": "…", "domain": "…", "messages": [{"role": "user", "content": "…"}, …]}
//
// "id" (a text or an integer) and "domain" may be absent; other keys are ignored, and so are blank lines. A
// line may have any length.
#pragma once

#include <cstdint>
#include <filesystem>

#include "data/chat.h"
#include "data/corpus.h"
#include "data/tokenizer.h"

namespace draftsmith {

struct ConversationSource {
  const std::filesystem::path& file;
  const Tokenizer& tokenizer;
  const ChatTemplate& chat;
  std::int64_t max_tokens;  // longer conversations are cut after tokenizing, before filtering
};

// Throws Error naming file and line: broken JSON or UTF-8, messages missing or empty, a role that is not
// known, content that is not a text, no assistant message. Throws Error for a data set with nothing usable
// (Corpus::require_usable). Blocks while it reads the file.
Corpus read_conversations(const ConversationSource& source);

}  // namespace draftsmith
