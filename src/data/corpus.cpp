#include "data/corpus.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace draftsmith {
namespace {

bool has_adjacent_supervised(const std::vector<std::uint8_t>& loss_mask) {
  return std::adjacent_find(loss_mask.begin(), loss_mask.end(), [](std::uint8_t a, std::uint8_t b) {
           return a == 1 && b == 1;
         }) != loss_mask.end();
}

}  // namespace

std::size_t DocumentView::answer_begin() const {
  std::size_t end = ids.size();
  while (end > 0 && loss_mask[end - 1] == 0) --end;
  while (end > 0 && loss_mask[end - 1] == 1) --end;
  return end;
}

std::span<const std::int32_t> DocumentView::answer() const {
  const std::size_t begin = answer_begin();
  const auto supervised = loss_mask.subspan(begin);
  return ids.subspan(begin, std::find(supervised.begin(), supervised.end(), 0) - supervised.begin());
}

void Corpus::append(Document document, std::int64_t max_tokens) {
  DRAFTSMITH_CHECK(document.ids.size() == document.loss_mask.size(), "the mask has one entry a token");
  ++counts_.read;
  if (static_cast<std::int64_t>(document.ids.size()) > max_tokens) {
    document.ids.resize(max_tokens);
    document.loss_mask.resize(max_tokens);
    ++counts_.truncated;
  }
  if (!has_adjacent_supervised(document.loss_mask)) {
    ++counts_.skipped;
    return;
  }
  counts_.tokens += static_cast<std::int64_t>(document.ids.size());
  counts_.supervised_tokens +=
      std::accumulate(document.loss_mask.begin(), document.loss_mask.end(), std::int64_t{0});
  ids_.insert(ids_.end(), document.ids.begin(), document.ids.end());
  loss_mask_.insert(loss_mask_.end(), document.loss_mask.begin(), document.loss_mask.end());
  offsets_.push_back(static_cast<std::int64_t>(ids_.size()));
  names_.push_back(std::move(document.id));
  domain_indices_.push_back(domain_index(document.domain));
  lines_.push_back(document.line);
}

void Corpus::require_usable(const std::string& name) const {
  if (size() == 0) {
    throw Error(name + ": has no usable conversation: of " + std::to_string(counts_.read) + " read, " +
                std::to_string(counts_.skipped) + " have fewer than two adjacent supervised tokens (" +
                std::to_string(counts_.truncated) +
                " were truncated); give conversations with assistant answers, or raise data.max_length");
  }
  if (counts_.supervised_tokens == counts_.tokens) {
    throw Error(name + ": every one of its " + std::to_string(counts_.tokens) +
                " tokens is supervised; prompts must not be, so the mask cannot be right");
  }
}

DocumentView Corpus::operator[](std::int64_t index) const {
  DRAFTSMITH_CHECK(index >= 0 && index < size(), "the document must exist");
  const std::int64_t begin = offsets_[index];
  const std::int64_t count = offsets_[index + 1] - begin;
  return {.ids = std::span(ids_).subspan(begin, count),
          .loss_mask = std::span(loss_mask_).subspan(begin, count),
          .id = names_[index],
          .domain = domains_[domain_indices_[index]],
          .line = lines_[index]};
}

std::int32_t Corpus::domain_index(const std::string& domain) {
  const auto index = std::find(domains_.begin(), domains_.end(), domain) - domains_.begin();
  if (index == std::ssize(domains_)) domains_.push_back(domain);
  return static_cast<std::int32_t>(index);
}

}  // namespace draftsmith
