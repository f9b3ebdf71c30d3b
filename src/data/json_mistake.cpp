#include "data/json_mistake.h"

#include "data/utf8.h"

namespace draftsmith {

std::string json_mistake(std::string_view words, std::size_t byte, std::size_t size) {
  constexpr std::size_t kMost = 200;
  if (const auto tag_end = words.find("] "); words.starts_with('[') && tag_end != words.npos)
    words.remove_prefix(tag_end + 2);
  if (constexpr std::string_view kLead = "parse error at "; words.starts_with(kLead))
    words.remove_prefix(kLead.size());
  words = words.substr(0, words.find("; last read"));
  std::string text;
  append_replacing_ill_formed(text, words.substr(0, kMost));
  if (byte > size) text += "; it seems to be cut there: get the file again as a whole";
  return text;
}

}  // namespace draftsmith
