#include "data/chat_kind.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"

namespace draftsmith {
namespace {

constexpr ChatFormat kChatMl{.start = "<|im_start|>",
                             .after_role = "\n",
                             .end = "<|im_end|>",
                             .after_end = "\n",
                             .begins_with_bos = false,
                             .trims_content = false};
constexpr ChatFormat kLlama3{.start = "<|start_header_id|>",
                             .after_role = "<|end_header_id|>\n\n",
                             .end = "<|eot_id|>",
                             .after_end = "",
                             .begins_with_bos = true,
                             .trims_content = true};

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// Stands for either kind of quote, so that an apostrophe inside a literal is not taken for its end.
constexpr char kQuote = '\x01';

std::string literal(std::string_view text) {
  std::string quoted{kQuote};
  quoted.append(text);
  quoted.push_back(kQuote);
  return quoted;
}

char unescaped(char escape) {
  if (escape == 'n') return '\n';
  if (escape == 't') return '\t';
  return escape;
}

// A template's expressions in one spelling, so that equal ones compare equal: no white space outside quotes,
// one kind of quote, escapes resolved, message['role'] as message.role, and literals that are added joined.
std::string canonical(std::string_view source) {
  std::string result;
  char quote = 0;
  bool in_expression = false;
  for (std::size_t i = 0; i < source.size(); ++i) {
    const char character = source[i];
    const std::string_view two = source.substr(i, 2);
    if (quote != 0 && character == '\\' && two.size() == 2) {
      result += unescaped(source[++i]);
    } else if (quote != 0) {
      result += character == quote ? kQuote : character;
      if (character == quote) quote = 0;
    } else if (in_expression && (character == '\'' || character == '"')) {
      quote = character;
      result += kQuote;
    } else {
      if (two == "{{" || two == "{%") in_expression = true;
      if (two == "}}" || two == "%}") in_expression = false;
      if (std::string_view(" \t\r\n").find(character) == std::string_view::npos) result += character;
    }
  }
  replace_all(result, "[" + literal("role") + "]", ".role");
  replace_all(result, "[" + literal("content") + "]", ".content");
  replace_all(result, std::string{kQuote, '+', kQuote}, "");
  return result;
}

// The first <|name|> that the format does not write.
std::optional<std::string> foreign_marker(std::string_view source, const ChatFormat& format) {
  const std::string ours = fmt::format("{}{}{}", format.start, format.after_role, format.end);
  for (std::size_t at = source.find("<|"); at != std::string_view::npos; at = source.find("<|", at + 2)) {
    const std::size_t end = source.find("|>", at);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view marker = source.substr(at, end + 2 - at);
    if (ours.find(marker) == std::string::npos) return std::string(marker);
  }
  return std::nullopt;
}

struct SystemMessages {
  std::optional<std::string> otherwise;  // what a literal spells out in full, for conversations without one
  bool all_known = true;
};

// Every place that writes a system message must be one of three: the conversation's own first message, a
// literal that is the whole message, or the list of tools, which these conversations do not have.
SystemMessages system_messages_of(std::string_view text) {
  const std::string whole = literal("<|im_start|>system\n");
  const std::string own = whole + "+messages[0].content+" + literal("<|im_end|>\n");
  const std::string begin = whole.substr(0, whole.size() - 1);
  const std::string finish = "<|im_end|>\n";
  SystemMessages result;
  for (std::size_t at = text.find(begin); at != std::string_view::npos; at = text.find(begin, at + 1)) {
    const std::string_view before = text.substr(0, at);
    std::string_view rest = text.substr(at);
    if (rest.starts_with(own) || before.ends_with("iftools%}{{-") || before.ends_with("iftools%}{{"))
      continue;
    rest.remove_prefix(begin.size());
    const std::string_view body = rest.substr(0, rest.find(kQuote));
    if (!body.ends_with(finish) || result.otherwise) {
      result.all_known = false;
    } else {
      result.otherwise = std::string(body.substr(0, body.size() - finish.size()));
    }
  }
  return result;
}

// A template's source with what is looked for in it.
class Source {
 public:
  Source(std::string_view source, const std::string& place)
      : source_(source), text_(canonical(source)), place_(place) {}

  bool holds(std::string_view part) const { return text_.find(part) != std::string::npos; }
  const std::string& text() const { return text_; }

  // Whether nothing but tags writes: each cuts the white space before it, and there is no other text.
  bool only_tags_write() const {
    for (std::size_t at = source_.find('{'); at != std::string_view::npos; at = source_.find('{', at + 1)) {
      const std::string_view tag = source_.substr(at, 3);
      if (tag.size() == 3 && std::string_view("{%#").find(tag[1]) != std::string_view::npos && tag[2] != '-')
        return false;
    }
    for (std::size_t at = text_.find('}'); at != std::string::npos; at = text_.find('}', at + 1)) {
      const bool ends_tag = at > 0 && std::string_view("}%#").find(text_[at - 1]) != std::string_view::npos;
      if (ends_tag && at + 1 < text_.size() && text_[at + 1] != '{') return false;
    }
    return text_.starts_with('{');
  }

  [[noreturn]] void refuse(const std::string& found) const {
    throw Error(fmt::format("{}: the chat template {}; {}", place_, found, kSupportedChatTemplates));
  }

  void check_markers(const ChatFormat& format) const {
    if (const auto marker = foreign_marker(source_, format)) refuse("uses " + *marker);
  }

  void check_generation_prompt(const ChatFormat& format) const {
    const std::string prompt = fmt::format("{}assistant{}", format.start, format.after_role);
    if (!holds("add_generation_prompt") || !holds(literal(prompt)))
      refuse(
          fmt::format("has no generation prompt of {}assistant under add_generation_prompt", format.start));
  }

 private:
  std::string_view source_;
  std::string text_;
  const std::string& place_;
};

ChatKind read_chat_ml(const Source& source) {
  source.check_markers(kChatMl);
  for (const char* variable : {"bos_token", "eos_token"}) {
    if (source.holds(variable)) source.refuse(std::string("uses ") + variable);
  }
  const std::string head = literal(kChatMl.start) + "+message.role+" + literal("\n") + "+";
  const std::string tail = "+" + literal("<|im_end|>\n");
  if (!source.holds(head + "message.content" + tail) && !source.holds(head + "content" + tail)) {
    source.refuse(
        "does not write messages as '<|im_start|>' + role + '\\n' + content + '<|im_end|>' + '\\n'");
  }
  source.check_generation_prompt(kChatMl);
  const SystemMessages system = system_messages_of(source.text());
  if (!system.all_known) source.refuse("writes a system message in a way that is not known");
  ChatKind kind{.format = kChatMl, .default_system = system.otherwise};
  if (source.holds("<think>") || source.holds("enable_thinking")) {
    if (!source.holds("enable_thinking") || !source.holds(literal(kEmptyThinkBlock))) {
      source.refuse("thinks without a way to switch it off (enable_thinking with an empty think block)");
    }
    kind.thinking_off = true;
  }
  return kind;
}

// What the template's tags write for conversations without tools, one canonical expression after the other. A branch
// is for tools when its condition names them, unless it says that there are none.
std::vector<std::string> outputs_without_tools(std::string_view text) {
  const auto is_for_tools = [](std::string_view condition) {
    const bool named = condition.find("tool") != std::string_view::npos ||
                       condition.find("ipython") != std::string_view::npos;
    return named && !condition.starts_with("not");
  };
  std::vector<std::string> outputs;
  std::vector<bool> for_tools;  // of the branches that are open
  for (std::size_t at = text.find('{'); at != std::string_view::npos; at = text.find('{', at + 1)) {
    const std::string_view tag = text.substr(at);
    if (tag.starts_with("{%-if")) for_tools.push_back(is_for_tools(tag.substr(5, tag.find("%}") - 5)));
    if (tag.starts_with("{%-for")) for_tools.push_back(false);
    if (for_tools.empty() && !tag.starts_with("{{-")) continue;
    if (tag.starts_with("{%-elif")) for_tools.back() = is_for_tools(tag.substr(7, tag.find("%}") - 7));
    if (tag.starts_with("{%-else")) for_tools.back() = false;
    if (tag.starts_with("{%-end")) for_tools.pop_back();
    const bool is_written = std::find(for_tools.begin(), for_tools.end(), true) == for_tools.end();
    if (tag.starts_with("{{-") && is_written) outputs.emplace_back(tag.substr(3, tag.find("}}") - 3));
  }
  return outputs;
}

// The date that the template takes when whoever renders it names none.
std::string fixed_date(const Source& source) {
  constexpr std::string_view kDate = "{%-ifnotdate_stringisdefined%}{%-setdate_string=";
  const std::size_t at = source.text().find(kDate);
  if (at == std::string::npos || source.holds("strftime_now")) {
    source.refuse(
        "writes the day on which it is rendered; set date_string to a fixed date in a copy of the target's "
        "folder, and serve with that copy");
  }
  const std::string rest = source.text().substr(at + kDate.size() + 1);
  const std::string date = rest.substr(0, rest.find(kQuote));
  if (!rest.substr(date.size() + 1).starts_with("%}{%-endif%}"))
    source.refuse("chooses its date in an unknown way");
  return date;
}

ChatKind read_dated_llama3(const Source& source) {
  constexpr std::string_view kCutting = "Cutting Knowledge Date: December 2023\n";
  if (!source.only_tags_write()) source.refuse("has text or white space between its tags");
  const std::string message = literal(kLlama3.start) + "+message.role+" + literal(kLlama3.after_role) +
                              "+message.content|trim+" + literal(kLlama3.end);
  const std::vector<std::string> expected{
      "bos_token",       literal("<|start_header_id|>system<|end_header_id|>\n\n"),
      literal(kCutting), literal("Today Date: ") + "+date_string+" + literal("\n\n"),
      "system_message",  literal(kLlama3.end),
      message,           literal("<|start_header_id|>assistant<|end_header_id|>\n\n")};
  if (outputs_without_tools(source.text()) != expected)
    source.refuse("writes something else than the system message with its dates and the conversation");
  const std::string first = "messages[0].role==" + literal("system");
  if (!source.holds("{%-if" + first +
                    "%}{%-setsystem_message=messages[0].content|trim%}"
                    "{%-setmessages=messages[1:]%}{%-else%}{%-setsystem_message=" +
                    literal("") + "%}{%-endif%}"))
    source.refuse("takes its system message in an unknown way");
  source.check_generation_prompt(kLlama3);
  return {.format = kLlama3,
          .default_system = "",
          .before_system = fmt::format("{}Today Date: {}\n\n", kCutting, fixed_date(source))};
}

ChatKind read_llama3(const Source& source) {
  if (source.holds("date_string")) return read_dated_llama3(source);
  source.check_markers(kLlama3);
  const std::string message = literal(kLlama3.start) + "+message.role+" + literal(kLlama3.after_role) +
                              "+message.content|trim+" + literal(kLlama3.end);
  if (!source.holds("setcontent=" + message + "%}")) {
    source.refuse(
        "does not write messages as '<|start_header_id|>' + role + '<|end_header_id|>\\n\\n' + "
        "content | trim + '<|eot_id|>'");
  }
  if (!source.holds("{%ifloop.index0==0%}{%setcontent=bos_token+content%}{%endif%}{{content}}"))
    source.refuse("does not write bos_token before the first message alone");
  source.check_generation_prompt(kLlama3);
  if (source.holds(std::string{kQuote} + "<|start_header_id|>system"))
    source.refuse("writes a system message of its own");
  return {.format = kLlama3, .default_system = std::nullopt};
}

}  // namespace

ChatKind recognise_chat_template(std::string_view source, const std::string& place) {
  const Source read(source, place);
  return read.holds(kLlama3.start) ? read_llama3(read) : read_chat_ml(read);
}

}  // namespace draftsmith
