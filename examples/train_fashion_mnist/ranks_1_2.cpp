#include "found.hpp"

void train_on_1_rank(settings const& s) {
  if (s.mesh == "auto") return train_as_found<1>(s);
  train_on_mesh<1, 1>(s);
}

void train_on_2_ranks(settings const& s) {
  if (s.mesh == "tensor") return train_on_mesh<1, 2>(s);
  if (s.mesh == "auto") return train_as_found<2>(s);
  train_on_mesh<2, 1>(s);
}
