// alone: defines what conv2d_case.hpp declares
#include "conv2d_case.hpp"

bool run_conv2d_with_groups(golden::teams& all, golden::test_case const& c, tessera::index_t groups) {
  switch (groups) {
    case 2: return golden::run_cuts<conv2d_case<2>, 'n', 'g'>(all, c);
    case 3: return golden::run_cuts<conv2d_case<3>, 'n', 'g'>(all, c);
    case 4: return golden::run_cuts<conv2d_case<4>, 'n', 'g'>(all, c);
    case 5: return golden::run_cuts<conv2d_case<5>, 'n', 'g'>(all, c);
    case 6: return golden::run_cuts<conv2d_case<6>, 'n', 'g'>(all, c);
    case 8: return golden::run_cuts<conv2d_case<8>, 'n', 'g'>(all, c);
    default: return false;
  }
}
