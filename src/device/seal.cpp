#include "device/seal.h"

#include <array>
#include <atomic>

#include "base/error.h"
#include "base/log.h"

namespace draftsmith {
namespace {

#ifdef NDEBUG
constexpr SealViolation kDefaultViolation = SealViolation::count;
#else
constexpr SealViolation kDefaultViolation = SealViolation::abort;
#endif

// One moment of the whole process, asked from every thread.
std::atomic<bool> g_sealed{false};
std::atomic<SealViolation> g_violation{kDefaultViolation};
std::array<std::atomic<std::int64_t>, 4> g_before{};
std::array<std::atomic<std::int64_t>, 4> g_after{};
std::atomic<bool> g_told{false};

}  // namespace

void set_seal_violation(SealViolation violation) { g_violation = violation; }

void seal() {
  for (auto& count : g_after) count = 0;
  g_sealed = true;
}

void unseal() { g_sealed = false; }
bool sealed() { return g_sealed; }

void count_set_up(SetUp kind) {
  if (!g_sealed) {
    ++g_before[static_cast<int>(kind)];
    return;
  }
  ++g_after[static_cast<int>(kind)];
  DRAFTSMITH_CHECK(g_violation == SealViolation::count,
                   "set-up ended with seal(): nothing may be allocated, prepared or opened after it");
  if (!g_told.exchange(true))
    log_warning("something was allocated, prepared or opened after set-up; it is counted");
}

SealReport seal_report() {
  SealReport report;
  for (int i = 0; i < 4; ++i) {
    report.before[i] = g_before[i];
    report.after[i] = g_after[i];
  }
  return report;
}

}  // namespace draftsmith
