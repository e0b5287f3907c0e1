#include "optimizer_case.hpp"

#include <tessera/train/optimizer.hpp>

namespace {

using namespace tessera;

struct momentum_of_case {
  static momentum optimizer(golden::attributes const& given) {
    return {given.number("lr", 0), given.number("momentum", 0), given.number("dampening", 0),
            given.number("weight_decay", 0), given.is("nesterov")};
  }
  template <class State, class Expect>
  static void expect_state(golden::trial& t, std::string const& name, State const& state, Expect expect) {
    if (t.has(name + "_momentum_buffer")) expect(name + "_momentum_buffer", state.buffers.at(0));
  }
};

const golden::built here("sgd");

}  // namespace

// The first two dimensions of a parameter may be cut.
TEST_CASE("momentum equals the reference cases of stochastic gradient descent") {
  golden::run("sgd", golden::run_cuts<optimizer_case::steps<momentum_of_case>, 'a', 'b'>);
}
