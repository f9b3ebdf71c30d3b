#include "app/options.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

#include <fmt/core.h>

#include "app/option_table.h"
#include "base/nearest.h"

namespace draftsmith {
namespace {

constexpr float kSmallestFloat = std::numeric_limits<float>::min();

std::string range_text(const Option& option) {
  if (option.type == ValueType::integer) {
    const auto [least, most] = option.integers;
    if (most == std::numeric_limits<std::int64_t>::max())
      return fmt::format("of {} or more, below 2^63", least);
    return fmt::format("from {} to {}", least, most);
  }
  const AllowedReals& range = option.reals;
  return fmt::format("{} {} {} {}", range.excludes_least ? "above" : "from", range.least,
                     range.excludes_most ? "to below" : "to", range.most);
}

std::string choices_text(const Option& option) {
  std::string text;
  for (std::string_view choice : option.choices) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", choice);
  }
  return text;
}

std::string one_allowed_text(const Option& option) {
  switch (option.type) {
    case ValueType::flag:
      return "true or false";
    case ValueType::integer:
      return "an integer " + range_text(option);
    case ValueType::real:
      return "a number " + range_text(option);
    case ValueType::text:
      return "text";
    case ValueType::choice:
      return "one of " + choices_text(option);
  }
  return {};
}

std::string list_allowed_text(const Option& option) {
  const auto [least, most] = option.entries;
  const std::string count = least == most ? fmt::format("{} ", least) : "";
  switch (option.type) {
    case ValueType::flag:
      return fmt::format("a list of {}times true or false", count);
    case ValueType::integer:
      return fmt::format("a list of {}integers {}", count, range_text(option));
    case ValueType::real:
      return fmt::format("a list of {}numbers {}", count, range_text(option));
    case ValueType::text:
      return fmt::format("a list of {}texts", count);
    case ValueType::choice:
      return fmt::format("a list of {}entries out of {}", count, choices_text(option));
  }
  return {};
}

struct SplitName {
  std::string_view section;
  std::string_view key;
};

SplitName split_name(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return {"", name};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

// A key in another section costs one edit more than in the same one.
std::size_t key_distance(std::string_view name, std::string_view known) {
  const SplitName wanted = split_name(name), found = split_name(known);
  const std::size_t by_key = edit_distance(wanted.key, found.key) + (wanted.section != found.section);
  return std::min(by_key, edit_distance(name, known));
}

// Not 0, but closer to it than float32 keeps a number.
bool vanishes(double value) { return value != 0 && std::abs(value) < kSmallestFloat; }

std::string default_text(const Option& option) {
  if (option.is_required) return "required";
  const OptionValue value = option.get(RunConfig{});
  if (value.empty()) return option.may_be_auto ? "auto" : "none";
  std::string text;
  for (const OptionScalar& scalar : value) text += (text.empty() ? "" : ", ") + scalar_text(scalar);
  return option.is_list ? "[" + text + "]" : text;
}

}  // namespace

const std::vector<Option>& all_options() {
  static const std::vector<Option> table = make_option_table();
  return table;
}

const Option* find_option(std::string_view name) {
  for (const Option& option : all_options()) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

bool is_allowed(const Option& option, const OptionScalar& scalar) {
  const auto* integer = std::get_if<std::int64_t>(&scalar);
  const auto* text = std::get_if<std::string>(&scalar);
  switch (option.type) {
    case ValueType::flag:
      return std::holds_alternative<bool>(scalar);
    case ValueType::integer:
      return integer && *integer >= option.integers.least && *integer <= option.integers.most;
    case ValueType::real: {
      const auto* real = std::get_if<double>(&scalar);
      if (!integer && !real) return false;
      const double value = integer ? static_cast<double>(*integer) : *real;
      const AllowedReals& range = option.reals;
      return std::isfinite(value) && !vanishes(value) &&
             (range.excludes_least ? value > range.least : value >= range.least) &&
             (range.excludes_most ? static_cast<float>(value) < static_cast<float>(range.most)
                                  : value <= range.most);
    }
    case ValueType::text:
      return text && !text->empty();
    case ValueType::choice:
      return text && std::find(option.choices.begin(), option.choices.end(), *text) != option.choices.end();
  }
  return false;
}

std::string allowed_text(const Option& option) {
  std::string text = option.is_list ? list_allowed_text(option) : one_allowed_text(option);
  if (option.may_be_auto) text += ", or auto";
  if (option.may_be_null) text += ", or null";
  return text;
}

std::string refusal_hint(const Option& option, const OptionScalar& scalar, const std::string& typed) {
  if (option.type == ValueType::text && !std::holds_alternative<std::string>(scalar)) {
    return fmt::format("; as text it stands in quotes, \"{0}\", on a command line {1}='{2}\"{0}\"{3}'", typed,
                       option.name, option.is_list ? "[" : "", option.is_list ? "]" : "");
  }
  const auto* real = std::get_if<double>(&scalar);
  if (option.type == ValueType::real && real && vanishes(*real)) {
    return fmt::format(", which is nearer to 0 than float32 keeps a number: its smallest is {}",
                       kSmallestFloat);
  }
  if (option.type == ValueType::real && real && option.reals.excludes_most && *real < option.reals.most &&
      static_cast<float>(*real) >= static_cast<float>(option.reals.most)) {
    return fmt::format(", which float32 takes for {}", option.reals.most);
  }
  return {};
}

std::string scalar_text(const OptionScalar& scalar) {
  if (const auto* flag = std::get_if<bool>(&scalar)) return *flag ? "true" : "false";
  if (const auto* integer = std::get_if<std::int64_t>(&scalar)) return fmt::format("{}", *integer);
  if (const auto* real = std::get_if<double>(&scalar)) return fmt::format("{}", *real);
  return std::get<std::string>(scalar);
}

std::string option_reference() {
  std::string text;
  for (const Option& option : all_options()) {
    text += fmt::format("  {:<30} {} ({})\n  {:<30}   {}\n", option.name, option.help, default_text(option),
                        "", allowed_text(option));
  }
  return text;
}

std::string nearest_known_key(std::string_view name) {
  std::string lower(name);  // as all known keys are
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  std::string nearest;
  std::size_t least = std::numeric_limits<std::size_t>::max();
  const auto consider = [&](std::string_view known) {
    const std::size_t distance = key_distance(lower, known);
    if (distance >= least) return;
    least = distance;
    nearest = known;
  };
  for (const Option& option : all_options()) {
    consider(option.name);
    for (std::string_view section = split_name(option.name).section; !section.empty();
         section = split_name(section).section) {
      consider(section);
    }
  }
  return is_near(least, split_name(name).key.size()) ? nearest : "";
}

}  // namespace draftsmith
