#include "../world.hpp"

#include <tessera/backend/eigen.hpp>
#include <tessera/op/elementwise.hpp>
#include <tessera/op/matmul.hpp>
#include <tessera/op/reduce.hpp>
#include <tessera/redistribute/to.hpp>

// What may be done with partial sums, beside the programs of this folder that must not compile.
using real = unbuilt_context<world, eigen>;
template <int Rank, class Layout = replicated>
using of = sharded<float, Rank, Layout, real>;
using part = of<2, partial<tp>>;

part sum(part const& a, part const& b) { return a + b; }
part difference(part const& a, part const& b) { return a - b; }
part product(part const& a, of<2> const& b) { return a * b; }
part quotient(part const& a, of<2> const& b) { return a / b; }
part scaled(part const& a) { return op::scale(a, 2); }
part matrix_product(of<2, column<tp>> const& a, of<2, row<tp>> const& b) { return op::matmul(a, b); }
part matrix_product(part const& a, of<2> const& b) { return op::matmul(a, b); }
of<2> reduced(part const& a) { return a | to<replicated>; }
of<2, row<tp>> scattered(part const& a) { return a | to<row<tp>>; }
of<0, partial<tp>> sum(part const& a) { return op::reduce_sum(a); }
of<0, partial<tp, reduction::maximum>> maximum(of<2, row<tp>> const& a) { return op::reduce_max(a); }
void with_bias(part& a, of<1> const& bias) { op::add_bias_once(a, bias); }
