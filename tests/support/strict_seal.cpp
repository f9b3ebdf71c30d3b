// In every test a violation after seal() aborts.
#include "device/seal.h"

namespace draftsmith {
namespace {

[[maybe_unused]] const bool strict = (set_seal_violation(SealViolation::abort), true);

}  // namespace
}  // namespace draftsmith
