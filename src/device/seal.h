// Set-up ends with seal(). After it no arena or pinned pool grows, no kernel is prepared, tuned or compiled,
// and no device or library handle is opened. A violation is logged once, counted and
// reported; in debug builds and in tests it aborts (set_seal_violation).
#pragma once

#include <cstdint>

namespace draftsmith {

enum class SetUp { arena, pinned_pool, kernel, handle };

enum class SealViolation { count, abort };
void set_seal_violation(SealViolation violation);

void seal();
void unseal();  // a run has ended; the next one sets up anew
bool sealed();

// Every place that allocates device memory, prepares a kernel or opens a handle says so here.
void count_set_up(SetUp kind);

struct SealReport {
  std::int64_t before[4] = {};  // by SetUp: what set-up did
  std::int64_t after[4] = {};   // what happened after seal(): must stay 0
};
SealReport seal_report();

}  // namespace draftsmith
