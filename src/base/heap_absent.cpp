// Built instead of heap.cpp under a sanitizer, which replaces operator new itself.
#include "base/heap.h"

namespace draftsmith {

NoHeapRegion::NoHeapRegion() = default;
NoHeapRegion::~NoHeapRegion() = default;
LibraryCall::LibraryCall() = default;
LibraryCall::~LibraryCall() = default;
HeapCounts heap_counts() { return {}; }

}  // namespace draftsmith
