// Which kind of chat template a source in Jinja is. The source is never run: it is compared, in one canonical
// spelling, with what the kinds write, and a template that is not recognisably one of them is an Error.
//
//   ChatML    <|im_start|>role\ncontent<|im_end|>\n; the prompt <|im_start|>assistant\n
//   Llama 3   bos_token once, then <|start_header_id|>role<|end_header_id|>\n\n, the content trimmed, <|eot_id|>;
//             the prompt <|start_header_id|>assistant<|end_header_id|>\n\n
//   Llama 3.1 the same after a system message that always comes first and begins with two dates, of which the template
//             fixes the second ("26 Jul 2024") for whoever gives no other. Llama 3.2 writes the day of rendering
//             there: what is trained on would be another prompt tomorrow, so it is refused.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace draftsmith {

// How a kind writes a message: start, role, after_role, content, end, after_end.
struct ChatFormat {
  std::string_view start, after_role, end, after_end;
  bool begins_with_bos;
  bool trims_content;  // of white space, as Python's str.strip() does
};

struct ChatKind {
  ChatFormat format;
  std::optional<std::string> default_system;  // written when the first message is not a system message
  std::string before_system = {};  // in front of the first system message's content, default or not
  bool thinking_off = false;       // the prompt ends with an empty think block
};

inline constexpr std::string_view kEmptyThinkBlock = "<think>\n\n</think>\n\n";
inline constexpr std::string_view kSupportedChatTemplates =
    "supported are ChatML templates: <|im_start|>role, newline, content, <|im_end|>, newline for every "
    "message, optionally with a default system message (Qwen2, Qwen2.5, SmolLM2) or an empty think block "
    "(Qwen3); and that of Llama 3: <|start_header_id|>role<|end_header_id|>, two newlines, content, "
    "<|eot_id|>, also with the dated system message of Llama 3.1 and 3.3";

// `place` names the template in errors.
ChatKind recognise_chat_template(std::string_view source, const std::string& place);

}  // namespace draftsmith
