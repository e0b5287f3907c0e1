#pragma once

#include <tuple>

#include "../double.hpp"

// What operators that work element by element share.
namespace ascend_double {

inline types const floating_or_double{ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_DOUBLE};
inline types const numbers{ACL_FLOAT, ACL_FLOAT16, ACL_BF16,  ACL_DOUBLE, ACL_INT8,
                           ACL_INT16, ACL_INT32,   ACL_INT64, ACL_UINT8,  ACL_BOOL};

/// Calls f with a value of the type that elements of `type` are computed in.
template <class F>
void in_type_of(aclDataType type, F f) {
  if (type == ACL_DOUBLE) return f(double{});
  if (is_floating(type)) return f(float{});
  f(std::int64_t{});
}

/// Refuses an output that would lose what `result` is: floating to integral, numbers to truth.
inline void stores(planner const& p, aclDataType result, tensor const& out) {
  p.require(is_floating(out.type) || !is_floating(result), "a floating result in an output of integers");
  p.require(out.type != ACL_BOOL || result == ACL_BOOL, "numbers in an output of BOOL");
}

/// Refuses unless all broadcast to exactly the shape of `out`.
template <class... Of>
void broadcasts(planner const& p, tensor const& out, Of const&... of) {
  std::optional<extents> shape = extents{};
  for (auto const* each : {&of...}) {
    shape = broadcast(*shape, each->shape);
    p.require(shape.has_value(), "the operands do not broadcast");
  }
  p.shape(out, "out", *shape);
}

/// Of a tensor and a number: the tensor's own type unless the number alone is floating.
inline aclDataType promote(tensor const& x, scalar const& by) {
  if (is_floating(by.type) && !is_floating(x.type)) return ACL_FLOAT;
  return x.type == ACL_BOOL ? by.type : x.type;
}

template <class T>
T value_of(scalar const& number) {
  if constexpr (std::is_same_v<T, std::int64_t>)
    return number.integer;
  else
    return static_cast<T>(number.real);
}

/// out = f(of...), of operands that broadcast to out, each converted to `in`. f takes and gives values of one type.
template <class F, class... Of>
std::function<void()> elementwise(tensor const& out, aclDataType in, F f, Of const&... of) {
  return [=] {
    in_type_of(in, [&]<class T>(T) {
      auto values = std::tuple(load<T>(of, out.shape)...);
      auto& first = std::get<0>(values);
      std::apply(
          [&](auto&... operand) {
            for (std::size_t i = 0; i < first.size(); ++i) first[i] = static_cast<T>(f(operand[i]...));
          },
          values);
      store(out, first);
    });
  };
}

/// to = from, of one shape.
inline void copy(tensor const& from, tensor const& to) {
  auto whole = !is_floating(from.type) && !is_floating(to.type);
  if (whole) return store(to, load<std::int64_t>(from, to.shape));
  store(to, load<double>(from, to.shape));
}

}  // namespace ascend_double
