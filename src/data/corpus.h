// Tokenized conversations in flat memory: one array of ids, one of mask bytes, and where each document
// starts. Filled by one thread; constant, and read by any, afterwards.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace draftsmith {

// One document. The views live as long as the corpus and until the next append().
struct DocumentView {
  std::span<const std::int32_t> ids;
  std::span<const std::uint8_t> loss_mask;  // [ids]: 1 where the token is supervised
  std::string_view id;                      // the data set's own name for it, or "FILE:LINE"
  std::string_view domain;                  // empty when the data set gives none
  std::int64_t line = 0;                    // of the data set's file

  // The last answer is the last run of supervised tokens (cut by truncation, perhaps); its prompt is all
  // before it and ends with the generation prompt.
  std::span<const std::int32_t> prompt() const { return ids.first(answer_begin()); }
  std::span<const std::int32_t> answer() const;

 private:
  std::size_t answer_begin() const;
};

// What became of the lines of a data set.
struct CorpusCounts {
  std::int64_t read = 0;     // conversations in the file
  std::int64_t skipped = 0;  // fewer than two adjacent supervised tokens after truncation
  std::int64_t truncated = 0;
  std::int64_t tokens = 0;             // of the documents that were kept
  std::int64_t supervised_tokens = 0;  // among them
};

class Corpus {
 public:
  // A document as append() takes it; both vectors have one entry a token.
  struct Document {
    std::vector<std::int32_t> ids;
    std::vector<std::uint8_t> loss_mask;
    std::string id;
    std::string domain;
    std::int64_t line = 0;
  };

  // Cuts the document to `max_tokens`, then keeps it if two adjacent tokens are supervised; either way it is
  // counted.
  void append(Document document, std::int64_t max_tokens);

  // Throws Error when no document is left or when every token of all of them is supervised: either way
  // the mask is wrong. `name` is the data set's.
  void require_usable(const std::string& name) const;

  std::int64_t size() const { return static_cast<std::int64_t>(names_.size()); }
  DocumentView operator[](std::int64_t index) const;
  const CorpusCounts& counts() const { return counts_; }
  const std::vector<std::string>& domains() const { return domains_; }  // in order of first appearance

 private:
  std::int32_t domain_index(const std::string& domain);

  std::vector<std::int32_t> ids_;
  std::vector<std::uint8_t> loss_mask_;
  std::vector<std::int64_t> offsets_{0};  // [documents + 1]
  std::vector<std::string> names_;
  std::vector<std::int32_t> domain_indices_;
  std::vector<std::int64_t> lines_;
  std::vector<std::string> domains_;
  CorpusCounts counts_;
};

}  // namespace draftsmith
