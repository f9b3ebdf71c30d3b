// The plan of block-sparse attention: every visible pair is visited once, what is called full is, and what is
// written once lies apart.
#include "kernels/attention_plan.h"

#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace draftsmith::test {
namespace {

struct PlanCase {
  std::string name;
  std::int64_t heads, block_size;
  bool causal;
  std::vector<std::int64_t> documents;
  std::int64_t blocks_per_document = 0;
  std::int64_t window = 0;
  bool sorted = true;
};

void PrintTo(const PlanCase& at, std::ostream* out) { *out << at.name; }

struct Intervals {
  std::vector<std::int32_t> begin, end;
  std::int64_t context_rows = 0;
};

// Random anchors, of which the first is 0 and the last block of each document is invalid; or a prefill.
Intervals intervals_of(const PlanCase& at) {
  Intervals intervals;
  std::mt19937 random(7);
  for (const std::int64_t length : at.documents) {
    std::vector<std::int64_t> anchors{0};
    for (std::int64_t i = 1; i + 1 < at.blocks_per_document; ++i) {
      anchors.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(length)));
    }
    if (at.sorted) std::sort(anchors.begin(), anchors.end());
    anchors.push_back(-1);
    const std::int64_t blocks = at.block_size > 0 ? static_cast<std::int64_t>(anchors.size()) : length;
    for (std::int64_t block = 0; block < blocks; ++block) {
      for (std::int64_t offset = 0; offset < std::max<std::int64_t>(1, at.block_size); ++offset) {
        const std::int64_t end = at.block_size > 0 ? anchors[static_cast<std::size_t>(block)] : block + 1;
        const std::int64_t oldest = at.window > 0 ? end + offset - (at.window - 1) : 0;
        const std::int64_t begin =
            std::min(std::max<std::int64_t>(0, oldest), std::max<std::int64_t>(0, end));
        intervals.begin.push_back(static_cast<std::int32_t>(intervals.context_rows + begin));
        intervals.end.push_back(static_cast<std::int32_t>(end < 0 ? -1 : intervals.context_rows + end));
      }
    }
    intervals.context_rows += length;
  }
  return intervals;
}

class AttentionPlanTest : public testing::TestWithParam<PlanCase> {
 protected:
  static constexpr std::int32_t kForwardRows = 192;

  AttentionPlanTest() : intervals_(intervals_of(GetParam())) {
    budget_ = {.shape = {.query_heads = 2 * GetParam().heads,
                         .kv_heads = 2,
                         .head_dim = 64,
                         .block_size = GetParam().block_size,
                         .causal_in_block = GetParam().causal},
               .rows = static_cast<std::int64_t>(intervals_.begin.size()),
               .context_rows = intervals_.context_rows};
    plan_ = build_attention_plan(
        budget_, {{intervals_.begin.data(), budget_.rows}, {intervals_.end.data(), budget_.rows}},
        kForwardRows);
    capacity_ = plan_capacity(budget_, kForwardRows);
  }

  std::int64_t packed_rows() const { return budget_.rows * GetParam().heads; }

  // By the contract's text: does a packed row see a row of the context or of the blocks?
  bool sees(std::int64_t packed, KeySource source, std::int64_t key) const {
    const std::int64_t token = packed / GetParam().heads;
    const auto index = static_cast<std::size_t>(token);
    if (intervals_.end[index] < 0) return false;
    if (source == KeySource::context) return key >= intervals_.begin[index] && key < intervals_.end[index];
    const std::int64_t block = GetParam().block_size;
    return block > 0 && key / block == token / block && (!GetParam().causal || key <= token);
  }
  std::int64_t key_rows(KeySource source) const {
    return source == KeySource::context ? budget_.context_rows : GetParam().block_size > 0 ? budget_.rows : 0;
  }

  Intervals intervals_;
  AttentionBudget budget_;
  AttentionPlanArrays plan_;
  PlanCapacity capacity_;
};

TEST_P(AttentionPlanTest, BoundsHoldWhatRowsSeeAndCoresWhatAllOfThemSee) {
  for (std::int64_t packed = 0; packed < packed_rows(); ++packed) {
    const QueryTile& tile = plan_.tiles[static_cast<std::size_t>(packed / kQueryTileRows)];
    const bool valid = intervals_.end[static_cast<std::size_t>(packed / GetParam().heads)] >= 0;
    for (const KeySource source : {KeySource::context, KeySource::own}) {
      const IntervalBounds& bounds = source == KeySource::own ? tile.own : tile.context;
      for (std::int64_t key = 0; key < key_rows(source); ++key) {
        const auto row = static_cast<std::int32_t>(key);
        if (sees(packed, source, key)) {
          ASSERT_TRUE(bounds.sees_any(row, 1)) << packed << " " << key;
        } else if (valid && bounds.sees_any(row, 1)) {
          ASSERT_FALSE(bounds.sees_all(row, 1)) << packed << " " << key;
        }
      }
    }
  }
}

// Items of the backward pass against all pairs of a query tile and a key tile that somebody sees.
TEST_P(AttentionPlanTest, KeyItemsVisitEveryVisiblePairOnce) {
  std::map<std::tuple<KeySource, std::int32_t, std::int32_t>, int> visits;
  std::map<std::pair<KeySource, std::int32_t>, int> items;
  for (const KeyItem& item : plan_.items) {
    ++items[{item.source, item.tile}];
    for (std::int32_t g = item.first_group; g < item.last_group; ++g) {
      if (plan_.groups[static_cast<std::size_t>(g)].sees_tile(item.source, item.tile)) {
        ++visits[{item.source, item.tile, g}];
      }
    }
  }
  for (const auto& [place, count] : visits) EXPECT_EQ(count, 1);
  EXPECT_EQ(items.size(), static_cast<std::size_t>(capacity_.context_tiles + capacity_.own_tiles))
      << "tiles that nobody sees get their zeros from an item, too";
  for (const KeySource source : {KeySource::context, KeySource::own}) {
    for (std::int64_t packed = 0; packed < packed_rows(); ++packed) {
      for (std::int64_t key = 0; key < key_rows(source); ++key) {
        if (!sees(packed, source, key)) continue;
        ASSERT_EQ(visits.count({source, static_cast<std::int32_t>(key / kKeyTileRows),
                                static_cast<std::int32_t>(packed / kGroupRows)}),
                  1u);
        ASSERT_TRUE(plan_.groups[static_cast<std::size_t>(packed / kGroupRows)].sees_slice(
            source, static_cast<std::int32_t>(key / kKeySliceRows)));
      }
    }
  }
}

TEST_P(AttentionPlanTest, GradScoresOfGroupsAndSlicesLieApart) {
  std::set<std::int32_t> places;
  for (const QueryGroup& group : plan_.groups) {
    for (const KeySource source : {KeySource::own, KeySource::context}) {
      const TileRange& range = source == KeySource::own ? group.own : group.context;
      for (std::int32_t slice = range.first; slice < range.last; ++slice) {
        const std::int32_t place = group.place(source, slice);
        EXPECT_TRUE(places.insert(place).second);
        EXPECT_GE(place, group.offset);
        EXPECT_LT(place, group.offset + group.slices());
      }
    }
  }
  EXPECT_EQ(places.size(), static_cast<std::size_t>(plan_.counts.stored_slices));
}

TEST_P(AttentionPlanTest, PartsPartitionTheirTilesInOrder) {
  std::set<std::int32_t> parts;
  for (const SplitTile& split : plan_.splits) {
    ASSERT_GE(split.parts, 2);
    std::int32_t next = -1;
    for (std::int32_t i = 0; i < split.parts; ++i) {
      const auto item = std::find_if(plan_.items.begin(), plan_.items.end(), [&](const KeyItem& candidate) {
        return candidate.part == split.first_part + i;
      });
      ASSERT_NE(item, plan_.items.end());
      EXPECT_TRUE(parts.insert(item->part).second);
      EXPECT_EQ(item->source, KeySource::context);
      EXPECT_EQ(item->tile, split.tile);
      if (i > 0) {
        EXPECT_EQ(item->first_group, next);
      }
      EXPECT_GT(item->length(), 0);
      next = item->last_group;
    }
  }
  EXPECT_EQ(parts.size(), static_cast<std::size_t>(plan_.counts.parts));
}

TEST_P(AttentionPlanTest, EverythingFitsWhatTheBudgetPromised) {
  EXPECT_EQ(plan_.tiles.size(), static_cast<std::size_t>(capacity_.query_tiles));
  EXPECT_EQ(plan_.groups.size(), static_cast<std::size_t>(capacity_.groups));
  EXPECT_LE(plan_.counts.key_items, capacity_.key_items);
  EXPECT_LE(plan_.counts.parts, capacity_.parts);
  EXPECT_LE(plan_.counts.splits, capacity_.splits);
}

TEST_P(AttentionPlanTest, OrdersArePermutationsLongestFirst) {
  const auto expect_order = [](const std::vector<std::int32_t>& order, const auto& length) {
    EXPECT_EQ(std::set<std::int32_t>(order.begin(), order.end()).size(), order.size());
    for (std::size_t i = 1; i < order.size(); ++i) EXPECT_GE(length(order[i - 1]), length(order[i]));
  };
  expect_order(plan_.group_order,
               [&](std::int32_t g) { return plan_.groups[static_cast<std::size_t>(g)].slices(); });
  expect_order(plan_.forward_order, [&](std::int32_t item) {
    QueryTile all;
    for (std::int32_t i = item * 3; i < std::min(item * 3 + 3, capacity_.query_tiles); ++i) {
      all.include(plan_.tiles[static_cast<std::size_t>(i)]);
    }
    return all.context.tiles(kKeyTileRows).count();
  });
  for (std::size_t i = 1; i < plan_.items.size(); ++i) {
    EXPECT_GE(plan_.items[i - 1].length(), plan_.items[i].length());
  }
}

TEST_P(AttentionPlanTest, AForwardPlanIsThePartThatForwardNeeds) {
  AttentionBudget forward = budget_;
  forward.gradients = false;
  const AttentionPlanArrays plan = build_attention_plan(
      forward, {{intervals_.begin.data(), budget_.rows}, {intervals_.end.data(), budget_.rows}},
      kForwardRows);
  EXPECT_EQ(plan.tiles, plan_.tiles);
  EXPECT_EQ(plan.forward_order, plan_.forward_order);
  EXPECT_EQ(plan_capacity(forward, kForwardRows).key_items, 0);
  EXPECT_TRUE(plan.items.empty());
}

const std::vector<PlanCase> kCases{
    {"OneDocument", 4, 16, false, {700}, 40},
    {"TwoDocuments", 2, 8, true, {333, 70}, 30},
    {"OneTokenDocuments", 4, 4, false, {1, 1, 130}, 9},
    {"OddBlock", 5, 17, true, {300}, 12},
    {"LargestBlock", 1, 32, false, {257}, 11},
    {"Window", 4, 16, true, {900}, 40, 100},
    {"WindowOfOne", 2, 16, true, {200}, 20, 1},
    {"Unsorted", 4, 16, false, {700}, 40, 0, false},
    {"Split", 8, 32, false, {257}, 70},
    {"Prefill", 4, 0, false, {1, 300, 140}},
    {"PrefillWindow", 2, 0, false, {400}, 0, 90},
};
INSTANTIATE_TEST_SUITE_P(Cases, AttentionPlanTest, testing::ValuesIn(kCases),
                         [](const auto& param) { return param.param.name; });

TEST(AttentionPlanRuleTest, LongItemsAreSplitEvenlyAndShortOnesAreWhole) {
  EXPECT_EQ(part_length(1536, 8), 24);  // 24 tiles of 64 groups on average
  EXPECT_EQ(part_length(10, 8), kShortestPart);
  EXPECT_EQ(part_count(128, 24), 5);
  EXPECT_EQ(part_count(24, 24), 1);
  EXPECT_EQ(part_count(0, 24), 1);
  EXPECT_EQ(part_begin(3, 10, 0, 4), 3);
  EXPECT_EQ(part_begin(3, 10, 4, 4), 13);
}

// No split of any number of items exceeds the parts that a plan has room for.
TEST(AttentionPlanRuleTest, PartsNeverExceedTheirCapacity) {
  for (const std::int64_t kv_heads : {1, 2, 3, 8, 16}) {
    const PlanCapacity capacity =
        plan_capacity({.shape = {.query_heads = kv_heads, .kv_heads = kv_heads, .head_dim = 64},
                       .rows = 1,
                       .context_rows = 1},
                      64);
    for (std::int32_t tiles = 1; tiles < 700; tiles += 9) {
      for (std::int32_t length = 1; length < 600; length += 7) {
        const std::int32_t part = part_length(static_cast<std::int64_t>(tiles) * length, kv_heads);
        const std::int32_t count = part_count(length, part);
        if (count > 1) {
          ASSERT_LE(tiles * count, capacity.parts) << kv_heads << " " << tiles << " " << length;
        }
      }
    }
  }
}

}  // namespace
}  // namespace draftsmith::test
