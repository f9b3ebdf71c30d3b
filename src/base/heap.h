// Counts heap use on device threads. Between taking and returning a slot our own code takes no heap; what the
// GEMM library takes inside its call is counted apart (STYLE.md, "Ownership and memory").
#pragma once

#include <cstdint>

namespace draftsmith {

// While one lives, every operator new of this thread counts as a violation, except below a LibraryCall.
class NoHeapRegion {
 public:
  NoHeapRegion();
  ~NoHeapRegion();
  NoHeapRegion(const NoHeapRegion&) = delete;
  NoHeapRegion& operator=(const NoHeapRegion&) = delete;
};

// Brackets a call into the GEMM library.
class LibraryCall {
 public:
  LibraryCall();
  ~LibraryCall();
  LibraryCall(const LibraryCall&) = delete;
  LibraryCall& operator=(const LibraryCall&) = delete;
};

struct HeapCounts {
  std::int64_t ours = 0;     // allocations by our code inside a NoHeapRegion: must stay 0
  std::int64_t library = 0;  // allocations by the GEMM library inside a NoHeapRegion
  bool watched = false;      // false in sanitizer builds, where operator new belongs to the sanitizer
};

// Sums over all threads since the process began.
HeapCounts heap_counts();

}  // namespace draftsmith
