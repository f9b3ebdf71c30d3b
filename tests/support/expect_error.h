// Expects that a call throws an Error whose text contains every one of the given parts.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "base/error.h"

namespace draftsmith {

template <typename Call>
void expect_error(Call call, std::initializer_list<std::string_view> parts) {
  try {
    call();
  } catch (const Error& error) {
    for (const std::string_view part : parts)
      EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos)
          << "expected \"" << part << "\" in: " << error.what();
    return;
  }
  ADD_FAILURE() << "expected an Error with \"" << (parts.size() ? *parts.begin() : "") << "\"";
}

}  // namespace draftsmith
