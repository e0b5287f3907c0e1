#include "on_mesh.hpp"

void train_on_1_rank(settings const& s) { train_on_mesh<1, 1>(s); }
