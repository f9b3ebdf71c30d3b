// The drafter and its loss as plain formulas for any scalar: double gives the value, complex<double> the
// derivative. Written from the published description (DFlash, arXiv 2602.06036), not from our code; documents
// are not packed here.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels/block_loss.h"
#include "model/shape.h"

namespace draftsmith::reference {

template <typename S>
using Rows = std::vector<std::vector<S>>;
template <typename S>
using NamedWeights = std::map<std::string, std::vector<S>>;

inline double real(double x) { return x; }
inline double real(const std::complex<double>& x) { return x.real(); }

// x [rows, k] times the transpose of w [n, k] (flat), plus bias when there is one.
template <typename S>
Rows<S> linear(const Rows<S>& x, const std::vector<S>& w, const std::vector<S>* bias = nullptr) {
  const std::size_t k = x.empty() ? 1 : x[0].size(), n = w.size() / k;
  Rows<S> y(x.size(), std::vector<S>(n));
  for (std::size_t r = 0; r < x.size(); ++r) {
    for (std::size_t j = 0; j < n; ++j) {
      S sum = bias ? (*bias)[j] : S(0);
      for (std::size_t i = 0; i < k; ++i) sum += x[r][i] * w[j * k + i];
      y[r][j] = sum;
    }
  }
  return y;
}

// RMSNorm of each run of weight.size() entries.
template <typename S>
Rows<S> rmsnorm(Rows<S> x, const std::vector<S>& weight, double epsilon) {
  const std::size_t n = weight.size();
  for (auto& row : x) {
    for (std::size_t first = 0; first < row.size(); first += n) {
      S squares(0);
      for (std::size_t i = 0; i < n; ++i) squares += row[first + i] * row[first + i];
      const S r = S(1) / std::sqrt(squares / static_cast<double>(n) + epsilon);
      for (std::size_t i = 0; i < n; ++i) row[first + i] *= r * weight[i];
    }
  }
  return x;
}

template <typename S>
Rows<S> rotate(Rows<S> x, const std::vector<std::int64_t>& positions, std::size_t head_dim, double theta) {
  const std::size_t half = head_dim / 2;
  for (std::size_t r = 0; r < x.size(); ++r) {
    for (std::size_t first = 0; first < x[r].size(); first += head_dim) {
      for (std::size_t i = 0; i < half; ++i) {
        const double angle =
            positions[r] * std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
        const S a = x[r][first + i], b = x[r][first + i + half];
        x[r][first + i] = a * std::cos(angle) - b * std::sin(angle);
        x[r][first + i + half] = b * std::cos(angle) + a * std::sin(angle);
      }
    }
  }
  return x;
}

struct Document {
  std::vector<std::int32_t> tokens;
  std::vector<std::uint8_t> loss_mask;
  std::vector<std::int32_t> anchors;
  Rows<double> features;  // [length, taps * width]
};

template <typename S>
struct Model {
  const DrafterShape& shape;
  const NamedWeights<S>& weights;
  const Rows<double>& embedding;
  const std::vector<S>& head;  // [vocabulary, width], flat

  const std::vector<S>& layer(std::int64_t i, const std::string& name) const {
    return weights.at("layers." + std::to_string(i) + "." + name);
  }
  const std::vector<S>* bias(std::int64_t i, const std::string& name) const {
    const auto found = weights.find("layers." + std::to_string(i) + "." + name + ".bias");
    return found == weights.end() ? nullptr : &found->second;
  }

  // One block of one document: y [block_size, width].
  Rows<S> block(const Document& document, std::int64_t anchor) const {
    Rows<S> features;
    for (const auto& row : document.features) features.emplace_back(row.begin(), row.end());
    const Rows<S> c =
        rmsnorm(linear(features, weights.at("fc.weight")), weights.at("hidden_norm.weight"), shape.epsilon);
    Rows<S> x;
    for (std::int64_t k = 0; k < shape.block_size; ++k) {
      const auto& row = embedding[k == 0 ? document.tokens[anchor] : shape.mask_token_id];
      x.emplace_back(row.begin(), row.end());
    }
    for (std::int64_t i = 0; i < shape.layers; ++i) {
      add(x, attention(i, rmsnorm(x, layer(i, "input_layernorm.weight"), shape.epsilon), c, anchor));
      add(x, mlp(i, rmsnorm(x, layer(i, "post_attention_layernorm.weight"), shape.epsilon)));
    }
    return rmsnorm(x, weights.at("norm.weight"), shape.epsilon);
  }

  static void add(Rows<S>& x, const Rows<S>& y) {
    for (std::size_t r = 0; r < x.size(); ++r) {
      for (std::size_t i = 0; i < x[r].size(); ++i) x[r][i] += y[r][i];
    }
  }

  Rows<S> mlp(std::int64_t i, const Rows<S>& u) const {
    Rows<S> gate = linear(u, layer(i, "mlp.gate_proj.weight"));
    const Rows<S> up = linear(u, layer(i, "mlp.up_proj.weight"));
    for (std::size_t r = 0; r < gate.size(); ++r) {
      for (std::size_t j = 0; j < gate[r].size(); ++j) gate[r][j] *= up[r][j] / (1.0 + std::exp(-gate[r][j]));
    }
    return linear(gate, layer(i, "mlp.down_proj.weight"));
  }

  bool sees_context(std::int64_t i, std::int64_t anchor, std::int64_t k, std::int64_t position) const {
    return position < anchor && (!shape.sliding(i) || anchor + k - position < shape.sliding_window);
  }
  bool sees_own(std::int64_t i, std::int64_t k, std::int64_t other) const {
    return !(shape.sliding(i) && shape.causal_in_sliding_layers) || other <= k;
  }

  Rows<S> attention(std::int64_t i, const Rows<S>& h, const Rows<S>& c, std::int64_t anchor) const {
    std::vector<std::int64_t> context_at, block_at;
    for (std::size_t p = 0; p < c.size(); ++p) context_at.push_back(static_cast<std::int64_t>(p));
    for (std::int64_t k = 0; k < shape.block_size; ++k) block_at.push_back(anchor + k);
    const auto heads = [&](const Rows<S>& rows, const std::string& name,
                           const std::vector<std::int64_t>& at) {
      const Rows<S> projected = linear(rows, layer(i, "self_attn." + name + "_proj.weight"),
                                       bias(i, "self_attn." + name + "_proj"));
      if (name == "v") return projected;
      return rotate(rmsnorm(projected, layer(i, "self_attn." + name + "_norm.weight"), shape.epsilon), at,
                    shape.head_dim, shape.rope.theta);
    };
    const Rows<S> q = heads(h, "q", block_at), ck = heads(c, "k", context_at), bk = heads(h, "k", block_at);
    const Rows<S> cv = heads(c, "v", context_at), bv = heads(h, "v", block_at);
    Rows<S> out(h.size(), std::vector<S>(shape.query_width(), S(0)));
    for (std::int64_t k = 0; k < shape.block_size; ++k) {
      for (std::int64_t head = 0; head < shape.query_heads; ++head)
        attend(i, anchor, k, head, q, ck, bk, cv, bv, out);
    }
    return linear(out, layer(i, "self_attn.o_proj.weight"), bias(i, "self_attn.o_proj"));
  }

  void attend(std::int64_t i, std::int64_t anchor, std::int64_t k, std::int64_t head, const Rows<S>& q,
              const Rows<S>& ck, const Rows<S>& bk, const Rows<S>& cv, const Rows<S>& bv,
              Rows<S>& out) const {
    const std::int64_t d = shape.head_dim, kv = head / (shape.query_heads / shape.kv_heads);
    S total(0);
    const auto visit = [&](const std::vector<S>& key, const std::vector<S>& value) {
      S score(0);
      for (std::int64_t j = 0; j < d; ++j) score += q[k][head * d + j] * key[kv * d + j];
      const S p = std::exp(score / std::sqrt(static_cast<double>(d)));  // small scores: no maximum is needed
      total += p;
      for (std::int64_t j = 0; j < d; ++j) out[k][head * d + j] += p * value[kv * d + j];
    };
    for (std::size_t p = 0; p < ck.size(); ++p) {
      if (sees_context(i, anchor, k, static_cast<std::int64_t>(p))) visit(ck[p], cv[p]);
    }
    for (std::int64_t other = 0; other < shape.block_size; ++other) {
      if (sees_own(i, k, other)) visit(bk[other], bv[other]);
    }
    for (std::int64_t j = 0; j < d; ++j) out[k][head * d + j] /= total;
  }
};

// Sum of w * CE over all blocks of the document, undivided; weights w take no part in the derivative.
template <typename S>
S loss_numerator(const Model<S>& model, const LossSettings& loss, const Document& document) {
  const std::int64_t size = model.shape.block_size;
  S total(0);
  for (const std::int32_t anchor : document.anchors) {
    const Rows<S> y = model.block(document, anchor);
    const Rows<S> logits = linear(y, model.head);
    std::vector<std::int64_t> slots;
    std::vector<S> nll;
    for (std::int64_t k = 1; k < size; ++k) {
      const std::size_t at = static_cast<std::size_t>(anchor + k);
      if (at >= document.tokens.size() || !document.loss_mask[at]) continue;
      S sum(0);
      for (const S& logit : logits[k]) sum += std::exp(logit);
      slots.push_back(k);
      nll.push_back(std::log(sum) - logits[k][document.tokens[at]]);
    }
    for (std::size_t n = 0; n < slots.size(); ++n) {
      double weight = 0;
      if (loss.kind == LossKind::dflash) {
        weight = loss.gamma == 0 ? 1.0 : std::exp(-static_cast<double>(slots[n] - 1) / loss.gamma);
      } else {
        double prefix = 1;
        for (std::size_t j = 0; j < slots.size(); ++j) {
          prefix *= (1 - loss.alpha) * std::exp(-real(nll[j])) + loss.alpha;
          if (j >= n) weight += prefix;
        }
      }
      total += weight * nll[n];
    }
  }
  return total;
}

}  // namespace draftsmith::reference
