// Says whether two sets of documents are the same, token for token: a run goes on only with the data that it began
// with, and scores are compared only where they were measured on the same conversations.
#pragma once

#include <cstdint>
#include <optional>

#include "data/corpus.h"
#include "data/json.h"
#include "data/json_fields.h"

namespace draftsmith {

struct CorpusIdentity {
  std::int64_t documents = 0;
  std::int64_t tokens = 0;
  std::int64_t checksum = 0;  // CRC-32C of ids and masks

  bool operator==(const CorpusIdentity&) const = default;
};

CorpusIdentity identify(const Corpus& corpus);
// Of the first `documents`, or of all where there are fewer.
CorpusIdentity identify(const Corpus& corpus, std::int64_t documents);

// As files hold it.
JsonValue identity_json(const CorpusIdentity& identity);
// Throws Error for what is missing or of a wrong type.
CorpusIdentity read_identity(const JsonFields& fields);

// Whether scores on the two can be compared. An older draftsmith did not say what it scored: that counts as the same.
bool comparable(const std::optional<CorpusIdentity>& a, const std::optional<CorpusIdentity>& b);

}  // namespace draftsmith
