// Whether a run can go on with another configuration than its checkpoint was made with: only options that
// change no bit of the result may differ.
#pragma once

#include <string>

#include "train/run_config.h"

namespace draftsmith {

// `saved_text` is the configuration in the checkpoint at `place`, and what comes back. Throws Error naming every option
// that differs and must not.
RunConfig check_resumed_config(const RunConfig& config, const std::string& saved_text,
                               const std::string& place);

}  // namespace draftsmith
