#include "found.hpp"

void train_on_4_ranks(settings const& s) {
  if (s.mesh == "tensor") return train_on_mesh<1, 4>(s);
  if (s.mesh == "both") return train_on_mesh<2, 2>(s);
  if (s.mesh == "auto") return train_as_found<4>(s);
  train_on_mesh<4, 1>(s);
}

void train_on_8_ranks(settings const& s) {
  if (s.mesh == "tensor") return train_on_mesh<1, 8>(s);
  if (s.mesh == "both") return train_on_mesh<2, 4>(s);
  if (s.mesh == "auto") return train_as_found<8>(s);
  train_on_mesh<8, 1>(s);
}
