// Conversations as ChatML or in the form of Llama 3, token for token what a chat engine sends to the target,
// and the mask that says which tokens a drafter learns:
//
//   ChatML    <|im_start|>role\ncontent<|im_end|>\n                               for every message
//             <|im_start|>assistant\n                    the generation prompt, where an answer is asked for
//   Llama 3   <|start_header_id|>role<|end_header_id|>\n\ncontent<|eot_id|>        for every message, after bos
//             <|start_header_id|>assistant<|end_header_id|>\n\n                   the generation prompt
//
// Supervised are the tokens of an assistant message and its end marker, from the first token after the
// generation prompt; the newline that follows is not. Llama 3 trims white space off every content. Prompt and answer are tokenized apart, so that the
// tokens before an answer are exactly those of encode_prompt(), whatever the answer begins with.
//
// What a template adds by itself is kept, and only these are known:
//   - a system message when the first message is not one (Qwen2, Qwen2.5, SmolLM2);
//   - thinking switched off (Qwen3): the generation prompt ends with an empty think block. The template drops
//     that block from earlier turns, where a trained prompt would differ from a served one; so only a
//     conversation's last message is supervised, and earlier answers are context. Answers that hold <think>
//     or </think> are refused.
// A template that is not recognisably one of these is an Error: nothing is guessed.
//
// Special tokens are recognised inside message content too, as apply_chat_template does.
// Constant after loading: const members may be called from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/chat_kind.h"
#include "data/tokenizer.h"

namespace draftsmith {

struct Message {
  std::string role;  // system, user or assistant
  std::string content;
};

struct EncodedConversation {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> loss_mask;  // [ids]: 1 where the token is supervised
};

class ChatTemplate {
 public:
  // Finds the template of a Hugging Face folder. Throws Error when there is none or it is of no known kind.
  static ChatTemplate load(const std::filesystem::path& folder);
  // `place` names the template in messages.
  static ChatTemplate parse(std::string_view source, const std::string& place);

  // Up to and including the generation prompt. Both throw Error for a role that is not known, and for a
  // tokenizer in which a marker is not one token or that has no bos where the template writes one.
  std::vector<std::int32_t> encode_prompt(const Tokenizer& tokenizer,
                                          std::span<const Message> messages) const;

  EncodedConversation encode(const Tokenizer& tokenizer, std::span<const Message> messages) const;

  const std::optional<std::string>& default_system() const { return kind_.default_system; }
  bool thinking_off() const { return kind_.thinking_off; }

 private:
  // Text that is tokenized by itself, all of it supervised or none.
  struct Segment {
    std::string text;
    bool supervised;
  };

  explicit ChatTemplate(ChatKind kind) : kind_(std::move(kind)) {}

  // `first` is written before everything.
  std::vector<Segment> segments(std::span<const Message> messages, const std::string& first) const;
  std::string header(std::string_view role) const;
  std::string body(std::string_view content) const;  // with the end marker
  std::string generation_prompt() const;
  std::string bos_text(const Tokenizer& tokenizer) const;  // empty where the template writes no bos
  EncodedConversation encode_segments(const Tokenizer& tokenizer, std::span<const Segment> parts) const;

  ChatKind kind_;
};

}  // namespace draftsmith
