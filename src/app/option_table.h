// How a row of the option table is made from a name, a range, a help line and a reference to the member.
// The member's type decides the rest: an optional may be left to its rule, a vector is a list, an enum is a
// choice between names.
#pragma once

#include <array>
#include <optional>
#include <type_traits>
#include <utility>

#include "app/options.h"
#include "base/error.h"

namespace draftsmith {

template <typename E>
struct ChoiceNames;  // names in the order of the enumerators
template <>
struct ChoiceNames<LayerKind> {  // as config.json spells them
  static constexpr std::array<std::string_view, 2> kNames{"full_attention", "sliding_attention"};
};
template <>
struct ChoiceNames<RopeScaling> {  // as config.json spells them, and none
  static constexpr std::array<std::string_view, 4> kNames{"none", "linear", "llama3", "yarn"};
};
template <>
struct ChoiceNames<DType> {
  static constexpr std::array<std::string_view, 2> kNames{"float32", "bf16"};
};
template <>
struct ChoiceNames<AttentionChoice> {
  static constexpr std::array<std::string_view, 4> kNames{"auto", "hopper", "portable", "plain"};
};
template <>
struct ChoiceNames<LossKind> {
  static constexpr std::array<std::string_view, 2> kNames{"dflash", "dpace"};
};
template <>
struct ChoiceNames<NoiseKind> {
  static constexpr std::array<std::string_view, 3> kNames{"none", "uniform", "gaussian"};
};
template <>
struct ChoiceNames<NoiseSchedule> {
  static constexpr std::array<std::string_view, 2> kNames{"constant", "linear"};
};
template <>
struct ChoiceNames<QueuePath> {
  static constexpr std::array<std::string_view, 2> kNames{"host", "peer"};
};
template <>
struct ChoiceNames<Recompute> {
  static constexpr std::array<std::string_view, 2> kNames{"none", "layer"};
};
template <>
struct ChoiceNames<ScheduleType> {
  static constexpr std::array<std::string_view, 3> kNames{"cosine", "constant", "linear"};
};

// How one member is told apart, read and written. Member is T, std::optional<T> or std::vector<T>.
template <typename T>
struct MemberTraits {
  using Entry = T;
  static constexpr bool kIsList = false, kIsOptional = false;
};
template <typename T>
struct MemberTraits<std::optional<T>> {
  using Entry = T;
  static constexpr bool kIsList = false, kIsOptional = true;
};
template <typename T>
struct MemberTraits<std::vector<T>> {
  using Entry = T;
  static constexpr bool kIsList = true, kIsOptional = false;
};

template <typename T>
OptionScalar to_scalar(const T& entry) {
  if constexpr (std::is_enum_v<T>) {
    return std::string(ChoiceNames<T>::kNames[static_cast<std::size_t>(entry)]);
  } else {
    return entry;
  }
}

template <typename T>
T from_scalar(const OptionScalar& scalar) {
  if constexpr (std::is_enum_v<T>) {
    const auto& names = ChoiceNames<T>::kNames;
    std::size_t index = 0;
    while (index < names.size() && names[index] != std::get<std::string>(scalar)) ++index;
    DRAFTSMITH_CHECK(index < names.size(), "a choice is checked before it is set");
    return static_cast<T>(index);
  } else if constexpr (std::is_same_v<T, double>) {
    if (const auto* integer = std::get_if<std::int64_t>(&scalar)) return static_cast<double>(*integer);
    return std::get<double>(scalar);
  } else {
    return std::get<T>(scalar);
  }
}

template <typename Member>
OptionValue read_member(const Member& member) {
  using Traits = MemberTraits<Member>;
  OptionValue value;
  if constexpr (Traits::kIsList) {
    for (const auto& entry : member) value.push_back(to_scalar(entry));
  } else if constexpr (Traits::kIsOptional) {
    if (member) value.push_back(to_scalar(*member));
  } else if constexpr (std::is_same_v<Member, std::string>) {
    if (!member.empty()) value.push_back(member);
  } else {
    value.push_back(to_scalar(member));
  }
  return value;
}

template <typename Member>
void write_member(Member& member, const OptionValue& value) {
  using Traits = MemberTraits<Member>;
  using Entry = typename Traits::Entry;
  if constexpr (Traits::kIsList) {
    member.clear();
    for (const OptionScalar& scalar : value) member.push_back(from_scalar<Entry>(scalar));
  } else if constexpr (Traits::kIsOptional) {
    member.reset();
    if (!value.empty()) member = from_scalar<Entry>(value.front());
  } else if constexpr (std::is_same_v<Member, std::string>) {
    member = value.empty() ? std::string() : from_scalar<Entry>(value.front());
  } else {
    DRAFTSMITH_CHECK(value.size() == 1, "only what may be left to a rule can be unset");
    member = from_scalar<Entry>(value.front());
  }
}

// `access` maps a RunConfig&, const or not, to a reference to the member.
template <typename Access>
Option declare(std::string_view name, std::string_view help, Access access) {
  using Member = std::remove_reference_t<decltype(access(std::declval<RunConfig&>()))>;
  using Traits = MemberTraits<Member>;
  Option option{.name = name, .help = help, .type = ValueType::text};
  option.is_list = Traits::kIsList;
  option.may_be_auto = Traits::kIsOptional;
  option.get = [access](const RunConfig& config) { return read_member<Member>(access(config)); };
  option.set = [access](RunConfig& config, const OptionValue& value) {
    write_member<Member>(access(config), value);
  };
  using Entry = typename Traits::Entry;
  if constexpr (std::is_enum_v<Entry>) {
    option.type = ValueType::choice;
    option.choices.assign(ChoiceNames<Entry>::kNames.begin(), ChoiceNames<Entry>::kNames.end());
  } else if constexpr (std::is_same_v<Entry, bool>) {
    option.type = ValueType::flag;
  } else if constexpr (std::is_same_v<Entry, std::int64_t>) {
    option.type = ValueType::integer;
  } else if constexpr (std::is_same_v<Entry, double>) {
    option.type = ValueType::real;
  }
  return option;
}

// The rows, in the order of RunConfig. Callers want all_options().
std::vector<Option> make_option_table();

}  // namespace draftsmith
