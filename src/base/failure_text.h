// What a failure says to a person. An Error has its words; those of the standard library have none that help.
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace draftsmith {

// An Error's own words; of a file system's failure the path, the reason and what helps; of memory that ran out the
// limits to lift and what to lower.
std::string failure_text(const std::exception& failure);

// What helps against an error of the system, by errno, as in "; choose a shorter path"; empty where its name says it.
std::string_view advice_on(int error_number);

}  // namespace draftsmith
