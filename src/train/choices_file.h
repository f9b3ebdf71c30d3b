// choices.json, in a run's folder and in every checkpoint: which algorithm makes each product on each kind of
// device, so that a resumed run goes on with the same bits.
//   {"devices": [{"facts": {"card": "…", …}, "products": {"nt 64x128x32 bf16 …": "…", …}}, …]}
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/product_choices.h"

namespace draftsmith {

std::string choices_text(const std::vector<DeviceChoices>& choices);

// `file` names the text in errors. Throws Error for what is not such a file.
std::vector<DeviceChoices> parse_choices(std::string_view text, const std::string& file);

}  // namespace draftsmith
