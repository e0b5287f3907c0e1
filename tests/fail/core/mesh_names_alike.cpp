// expect: tessera: two axes of this mesh have the same name but for their namespaces, so text cannot tell them apart; rename one of the tags
#include <tessera/core/layout_text.hpp>

namespace inner {
struct dp : tessera::axis<2> {};
}  // namespace inner
struct dp : tessera::axis<2> {};
const auto text = to_string(tessera::named<tessera::mesh<dp, inner::dp>>());
