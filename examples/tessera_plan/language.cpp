#include "language.hpp"

#include "bert.hpp"

std::vector<known_model> models_of_language() {
  using namespace planned;
  return {{"bert-large", "BERT-Large, 128 positions of which 20 are masked, a vocabulary of 30522", "sequences", 96, 2,
           ts::plan_devices<bert_large<30522>, ts::input<ts::dynamic, 128>>},
          {"bert-large-zh", "the same with a vocabulary of 21128", "sequences", 96, 2,
           ts::plan_devices<bert_large<21128>, ts::input<ts::dynamic, 128>>},
          gpt_named<1024, 768, 12, 12>("gpt2", "124 million", 16)};
}
