#include "base/heap.h"

#include <new>
#include <thread>

#include <gtest/gtest.h>

namespace draftsmith {
namespace {

// A direct call, which the compiler may not leave out as it may a new expression.
void take_heap() { ::operator delete(::operator new(16)); }

TEST(Heap, CountsWhatIsTakenInsideARegionAndApartWhatALibraryTakes) {
  if (!heap_counts().watched) GTEST_SKIP() << "the sanitizer owns operator new";
  const HeapCounts before = heap_counts();
  take_heap();
  EXPECT_EQ(heap_counts().ours, before.ours);
  {
    const NoHeapRegion region;
    take_heap();
    const LibraryCall call;
    take_heap();
  }
  EXPECT_EQ(heap_counts().ours, before.ours + 1);
  EXPECT_EQ(heap_counts().library, before.library + 1);
}

TEST(Heap, ARegionIsOfItsThreadOnly) {
  if (!heap_counts().watched) GTEST_SKIP() << "the sanitizer owns operator new";
  const HeapCounts before = heap_counts();
  std::thread other(take_heap);
  {
    const NoHeapRegion region;  // of this thread; the other one runs beside it
    other.join();
  }
  EXPECT_EQ(heap_counts().ours, before.ours);
}

}  // namespace
}  // namespace draftsmith
