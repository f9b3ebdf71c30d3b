// What a report of a fault should name: version, compiler, CPU features, libraries.
#pragma once

#include <string>

namespace draftsmith {

std::string version_text();

}  // namespace draftsmith
