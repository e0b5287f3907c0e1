// expect: tessera: a search takes one weight that layers share, all of them in the outermost chain; leave out tied<...>, or name the splits of this model by hand
#include "../world.hpp"

#include <tessera/layer/linear.hpp>
#include <tessera/plan/auto_parallel.hpp>

struct one;
struct other;
using two_ties = chain<linear<8, 8, tied<one>>, linear<8, 8, tied<other>>, linear<8, 8, tied<one>>, linear<8, 8, tied<other>>>;
static_assert(auto_parallel_search<two_ties, input<16, 8>, world, machine::shared_memory>::time > 0);
