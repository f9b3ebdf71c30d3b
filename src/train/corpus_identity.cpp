#include "train/corpus_identity.h"

#include <algorithm>
#include <span>

#include "data/checksum.h"

namespace draftsmith {

CorpusIdentity identify(const Corpus& corpus) { return identify(corpus, corpus.size()); }

CorpusIdentity identify(const Corpus& corpus, std::int64_t documents) {
  CorpusIdentity identity{.documents = std::min(documents, corpus.size())};
  std::uint32_t checksum = 0;
  for (std::int64_t document = 0; document < identity.documents; ++document) {
    const DocumentView view = corpus[document];
    identity.tokens += std::ssize(view.ids);
    checksum = crc32c(std::as_bytes(view.ids), checksum);
    checksum = crc32c(std::as_bytes(view.loss_mask), checksum);
  }
  identity.checksum = checksum;
  return identity;
}

JsonValue identity_json(const CorpusIdentity& identity) {
  return {JsonObject{
      {"documents", {identity.documents}}, {"tokens", {identity.tokens}}, {"checksum", {identity.checksum}}}};
}

CorpusIdentity read_identity(const JsonFields& fields) {
  return {.documents = fields.integer("documents", {}),
          .tokens = fields.integer("tokens", {}),
          .checksum = fields.integer("checksum", {})};
}

bool comparable(const std::optional<CorpusIdentity>& a, const std::optional<CorpusIdentity>& b) {
  return !a || !b || *a == *b;
}

}  // namespace draftsmith
