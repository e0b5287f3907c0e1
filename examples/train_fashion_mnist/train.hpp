#pragma once

#include <tessera/data/dataset.hpp>

#include <cstdint>
#include <string>

/// What the command line asks for.
struct settings {
  std::string mesh = "data";
  std::string backend = "eigen";
  int ranks = 2;
  tessera::index_t epochs = 2;
  tessera::index_t batch = 256;
  double learning_rate = 0.01;
  std::uint64_t seed = 0;
  std::string data = "/usr/share/datasets/fashion-mnist";
  std::string checkpoint{};  // folder; empty: none are saved
  bool resume = false;
  bool bar = true;
};

// In two sources, because each mesh is a program of its own to the compiler: two compile at a time.
void train_on_1_rank(settings const&);
void train_on_2_ranks(settings const&);
void train_on_4_ranks(settings const&);
void train_on_8_ranks(settings const&);
