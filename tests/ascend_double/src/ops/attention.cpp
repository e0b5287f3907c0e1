#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "aclnnop/aclnn_flash_attention_score.h"
#include "aclnnop/aclnn_flash_attention_score_grad.h"
#include "elementwise.hpp"
#include "gemm.hpp"

using namespace ascend_double;

namespace {

using values = std::vector<float>;

constexpr std::int64_t repeats = 8;  // of each row's maximum and sum, in the tensors that hold them

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

struct arguments {
  aclTensor const *query, *key, *value;
  aclTensor const *shift, *drop_mask, *padding_mask, *mask;
  aclIntArray const* prefix;
  double scale, keep_probability;
  std::int64_t previous, next, heads;
  char const* layout;
  std::int64_t inner_precise, sparse_mode;
};

struct attention {
  tensor q, k, v;  // [batch, heads, length, width], and [batch, key heads, key length, width]
  std::optional<tensor> mask;
  float scale;
  std::int64_t previous, next, sparse_mode;

  std::int64_t batch() const { return q.shape[0]; }
  std::int64_t heads() const { return q.shape[1]; }
  std::int64_t key_head(std::int64_t head) const { return head / (heads() / k.shape[1]); }
  std::int64_t length() const { return q.shape[2]; }
  std::int64_t key_length() const { return k.shape[2]; }
  std::int64_t width() const { return q.shape[3]; }
  extents row_shape() const { return {batch(), heads(), length(), repeats}; }

  // Whether the mask as it is sparse_mode's to read hides a key; `dense` are the elements of a mask of all pairs.
  bool hides(std::vector<std::int64_t> const& dense, std::int64_t plane, std::int64_t row, std::int64_t column) const {
    if (!mask) return false;
    if (sparse_mode == 2) return column > row;
    if (sparse_mode == 3) return column > row + key_length() - length();
    if (sparse_mode == 0 && (row - column > previous || column - row > next)) return true;
    return dense[at((plane * length() + row) * key_length() + column)] != 0;
  }
};

// A tensor of any of the layouts as [batch, heads, length, width]: of so many heads, or of heads of `width`.
tensor by_heads(planner const& p, tensor const& x, std::string const& layout, std::int64_t heads, std::int64_t width) {
  auto arranged = x;
  auto arrange = [&](std::initializer_list<std::size_t> order) {
    std::size_t to = 0;
    for (auto from : order) {
      arranged.shape[to] = x.shape[from];
      arranged.strides[to++] = x.strides[from];
    }
  };
  if (layout == "BNSD" || layout == "BSND") {
    p.require(x.rank() == 4, "a tensor has not the 4 dimensions of inputLayout");
    if (layout == "BSND") arrange({0, 2, 1, 3});
    return arranged;
  }
  p.require(layout == "BSH" || layout == "SBH", "inputLayout is none of BSH, SBH, BSND and BNSD");
  p.require(x.rank() == 3, "a tensor has not the 3 dimensions of inputLayout");
  if (layout == "SBH") arrange({1, 0, 2});
  if (width == 0) width = x.shape[2] / heads;
  if (heads == 0) heads = x.shape[2] / std::max<std::int64_t>(width, 1);
  p.require(heads * width == x.shape[2], "the last extent is not a multiple of the heads");
  auto step = arranged.strides[2];
  arranged.shape = {arranged.shape[0], heads, arranged.shape[1], width};
  arranged.strides = {arranged.strides[0], width * step, arranged.strides[1], step};
  return arranged;
}

attention describe(planner& p, arguments const& a) {
  p.not_on(chip::ascend_910);
  if (!a.layout) throw refusal{null_parameter, "inputLayout is null"};
  p.require(!a.shift && !a.drop_mask && !a.padding_mask && !a.prefix && a.keep_probability == 1,
            "the double knows no shift, dropout, padding mask or prefix");
  p.require(a.sparse_mode >= 0 && a.sparse_mode <= 3, "the double knows the sparseModes 0 to 3");
  p.require(a.inner_precise == 0 || a.inner_precise == 1, "innerPrecise");
  p.require(a.heads > 0, "headNum is not positive");
  auto q = p.input(a.query, "query");
  auto k = p.input(a.key, "key", {q.type});
  auto v = p.input(a.value, "value", {q.type});
  attention result{by_heads(p, q, a.layout, a.heads, 0), {},         {},     std::nullopt,
                   static_cast<float>(a.scale),          a.previous, a.next, a.sparse_mode};
  p.require(result.heads() == a.heads, "headNum is not the heads of query");
  result.k = by_heads(p, k, a.layout, 0, result.width());
  result.v = by_heads(p, v, a.layout, 0, result.width());
  p.shape(result.v, "value", result.k.shape);
  p.require(result.k.shape[0] == result.batch() && result.k.shape[3] == result.width(),
            "query and key differ in batch or width");
  p.require(result.k.shape[1] > 0 && a.heads % result.k.shape[1] == 0, "the heads are not a multiple of those of key");
  p.require(result.key_length() > 0, "key is empty");
  result.mask = p.optional_input(a.mask, "attenMask", {ACL_BOOL, ACL_UINT8});
  p.require(a.sparse_mode == 0 || result.mask.has_value(), "sparseMode needs an attenMask");
  if (result.mask) {
    constexpr std::int64_t compressed = 2048;
    if (a.sparse_mode >= 2)
      p.shape(*result.mask, "attenMask", {compressed, compressed});
    else {
      extents pairs{result.batch(), result.heads(), result.length(), result.key_length()};
      auto const& shape = result.mask->shape;
      p.require((shape.size() == 2 || shape.size() == 4) && broadcast(shape, pairs) == pairs &&
                    shape.back() == pairs[3] && shape[shape.size() - 2] == pairs[2],
                "attenMask is not of all pairs");
    }
  }
  return result;
}

// What each head of each sample is computed from.
struct loaded {
  explicit loaded(attention const& a) : q(load<float>(a.q)), k(load<float>(a.k)), v(load<float>(a.v)) {
    if (a.mask && a.sparse_mode < 2)
      mask = load<std::int64_t>(*a.mask, {a.batch(), a.heads(), a.length(), a.key_length()});
  }
  values q, k, v;
  std::vector<std::int64_t> mask;
};

// Calls f(number of the head of all, where it begins in q, where its key begins in k).
template <class F>
void each_head(attention const& a, F f) {
  for (std::int64_t b = 0; b < a.batch(); ++b)
    for (std::int64_t h = 0; h < a.heads(); ++h) {
      auto plane = b * a.heads() + h;
      auto key_plane = b * a.k.shape[1] + a.key_head(h);
      f(plane, plane * a.length() * a.width(), key_plane * a.key_length() * a.width());
    }
}

// scale q k', minus infinity where hidden.
values scores(attention const& a, loaded const& from, std::int64_t plane, std::int64_t query, std::int64_t key) {
  values result(at(a.length() * a.key_length()));
  multiply({from.q.data() + query}, {from.k.data() + key, true}, a.length(), a.width(), a.key_length(), result.data());
  for (std::int64_t i = 0; i < a.length(); ++i)
    for (std::int64_t j = 0; j < a.key_length(); ++j) {
      auto& score = result[at(i * a.key_length() + j)];
      score = a.hides(from.mask, plane, i, j) ? -std::numeric_limits<float>::infinity() : score * a.scale;
    }
  return result;
}

}  // namespace

aclnnStatus aclnnFlashAttentionScoreGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value, const aclTensor* realShiftOptional,
    const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens,
    int64_t headNum, char* inputLayout, int64_t innerPrecise, int64_t sparseMode, const aclTensor* softmaxMaxOut,
    const aclTensor* softmaxSumOut, const aclTensor* softmaxOutOut, const aclTensor* attentionOutOut,
    uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan("aclnnFlashAttentionScore", workspaceSize, executor, [&](planner& p) {
    auto a = describe(p, {query, key, value, realShiftOptional, dropMaskOptional, paddingMaskOptional,
                          attenMaskOptional, prefixOptional, scaleValue, keepProb, preTokens, nextTokens, headNum,
                          inputLayout, innerPrecise, sparseMode});
    auto largest = p.output(softmaxMaxOut, "softmaxMaxOut", {ACL_FLOAT});
    auto sums = p.output(softmaxSumOut, "softmaxSumOut", {ACL_FLOAT});
    p.shape(largest, "softmaxMaxOut", a.row_shape());
    p.shape(sums, "softmaxSumOut", a.row_shape());
    p.optional_output(softmaxOutOut, "softmaxOutOut");  // nothing is written there
    auto y = by_heads(p, p.output(attentionOutOut, "attentionOutOut", {a.q.type}), inputLayout, headNum, 0);
    p.shape(y, "attentionOutOut", a.q.shape);
    return [=] {
      loaded from(a);
      values result(from.q.size()), maxima, totals;
      each_head(a, [&](std::int64_t plane, std::int64_t of_query, std::int64_t of_key) {
        auto weights = scores(a, from, plane, of_query, of_key);
        for (std::int64_t i = 0; i < a.length(); ++i) {
          auto* row = weights.data() + i * a.key_length();
          auto most = *std::max_element(row, row + a.key_length());
          // A row without a key that it sees gives zeros.
          if (std::isinf(most) && most < 0) most = std::numeric_limits<float>::lowest();
          float total = 0;
          for (std::int64_t j = 0; j < a.key_length(); ++j) total += row[j] = std::exp(row[j] - most);
          for (std::int64_t j = 0; j < a.key_length() && total != 0; ++j) row[j] /= total;
          maxima.insert(maxima.end(), at(repeats), most);
          totals.insert(totals.end(), at(repeats), total);
        }
        multiply({weights.data()}, {from.v.data() + of_key}, a.length(), a.key_length(), a.width(),
                 result.data() + of_query);
      });
      store(y, result);
      store(largest, maxima);
      store(sums, totals);
    };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnFlashAttentionScore)

aclnnStatus aclnnFlashAttentionScoreGradGetWorkspaceSize(
    const aclTensor* query, const aclTensor* keyIn, const aclTensor* value, const aclTensor* dy,
    const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional, const aclTensor* paddingMaskOptional,
    const aclTensor* attenMaskOptional, const aclTensor* softmaxMaxOptional, const aclTensor* softmaxSumOptional,
    const aclTensor* softmaxInOptional, const aclTensor* attentionInOptional, const aclIntArray* prefixOptional,
    double scaleValue, double keepProb, int64_t preTokens, int64_t nextTokens, int64_t headNum, char* inputLayout,
    int64_t innerPrecise, int64_t sparseMode, const aclTensor* dqOut, const aclTensor* dkOut, const aclTensor* dvOut,
    const aclTensor* dpseOut, uint64_t* workspaceSize, aclOpExecutor** executor) {
  return plan("aclnnFlashAttentionScoreGrad", workspaceSize, executor, [&](planner& p) {
    auto a = describe(p, {query, keyIn, value, pseShiftOptional, dropMaskOptional, paddingMaskOptional,
                          attenMaskOptional, prefixOptional, scaleValue, keepProb, preTokens, nextTokens, headNum,
                          inputLayout, innerPrecise, sparseMode});
    auto like = [&](tensor const& each, char const* name, tensor const& wanted) {
      auto heads = by_heads(p, each, inputLayout, wanted.shape[1], 0);
      p.shape(heads, name, wanted.shape);
      return heads;
    };
    types const same{a.q.type};
    auto gradient = like(p.input(dy, "dy", same), "dy", a.q);
    auto y = like(p.input(attentionInOptional, "attentionInOptional", same), "attentionInOptional", a.q);
    auto largest = p.input(softmaxMaxOptional, "softmaxMaxOptional", {ACL_FLOAT});
    auto sums = p.input(softmaxSumOptional, "softmaxSumOptional", {ACL_FLOAT});
    p.shape(largest, "softmaxMaxOptional", a.row_shape());
    p.shape(sums, "softmaxSumOptional", a.row_shape());
    p.optional_input(softmaxInOptional, "softmaxInOptional");
    auto dq = like(p.output(dqOut, "dqOut", same), "dqOut", a.q);
    auto dk = like(p.output(dkOut, "dkOut", same), "dkOut", a.k);
    auto dv = like(p.output(dvOut, "dvOut", same), "dvOut", a.v);
    p.optional_output(dpseOut, "dpseOut");
    return [=] {
      loaded from(a);
      auto of_y = load<float>(gradient), outputs = load<float>(y);
      auto maxima = load<float>(largest), totals = load<float>(sums);
      values of_q(from.q.size()), of_k(from.k.size()), of_v(from.v.size());
      values of_weights(at(a.length() * a.key_length()));
      each_head(a, [&](std::int64_t plane, std::int64_t of_query, std::int64_t of_key) {
        auto weights = scores(a, from, plane, of_query, of_key);
        for (std::int64_t i = 0; i < a.length(); ++i) {
          auto row = at((plane * a.length() + i) * repeats);
          for (std::int64_t j = 0; j < a.key_length(); ++j) {
            auto& weight = weights[at(i * a.key_length() + j)];
            weight = totals[row] == 0 ? 0 : std::exp(weight - maxima[row]) / totals[row];
          }
        }
        auto const* upstream = of_y.data() + of_query;
        multiply({weights.data(), true}, {upstream}, a.key_length(), a.length(), a.width(), of_v.data() + of_key, true);
        multiply({upstream}, {from.v.data() + of_key, true}, a.length(), a.width(), a.key_length(), of_weights.data());
        for (std::int64_t i = 0; i < a.length(); ++i) {
          float shared = 0;
          for (std::int64_t d = 0; d < a.width(); ++d)
            shared += upstream[i * a.width() + d] * outputs[at(of_query + i * a.width() + d)];
          for (std::int64_t j = 0; j < a.key_length(); ++j) {
            auto e = at(i * a.key_length() + j);
            weights[e] *= (of_weights[e] - shared) * a.scale;
          }
        }
        multiply({weights.data()}, {from.k.data() + of_key}, a.length(), a.key_length(), a.width(),
                 of_q.data() + of_query);
        multiply({weights.data(), true}, {from.q.data() + of_query}, a.key_length(), a.length(), a.width(),
                 of_k.data() + of_key, true);
      });
      store(dq, of_q);
      store(dk, of_k);
      store(dv, of_v);
    };
  });
}
ASCEND_DOUBLE_EXECUTE(aclnnFlashAttentionScoreGrad)
