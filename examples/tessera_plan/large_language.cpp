#include "language.hpp"

std::vector<known_model> large_models_of_language() {
  using namespace planned;
  return {gpt_named<1024, 1024, 16, 24>("gpt2-medium", "355 million", 8),
          gpt_named<1024, 1280, 20, 36>("gpt2-large", "774 million", 4),
          gpt_named<1024, 1600, 25, 48>("gpt2-xl", "1.56 billion", 4),
          gpt_named<2048, 12288, 96, 96>("gpt3", "175 billion", 1)};
}
