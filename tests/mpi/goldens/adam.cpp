#include "optimizer_case.hpp"

#include <tessera/train/adam.hpp>

namespace {

using namespace tessera;

template <class Optimizer>
struct adam_of_case {
  static Optimizer optimizer(golden::attributes const& given) {
    auto const& betas = given.list("betas");
    return {given.number("lr", 0), betas.at(0), betas.at(1), given.number("eps"), given.number("weight_decay")};
  }
  template <class State, class Expect>
  static void expect_state(golden::trial&, std::string const& name, State const& state, Expect expect) {
    expect(name + "_exp_avg", state.first.at(0));
    expect(name + "_exp_avg_sq", state.second.at(0));
  }
};

const golden::built here("adam");
const golden::built here_too("adamw");

}  // namespace

TEST_CASE("adam equals its reference cases") {
  golden::run("adam", golden::run_cuts<optimizer_case::steps<adam_of_case<adam>>, 'a', 'b'>);
}

TEST_CASE("adamw equals its reference cases") {
  golden::run("adamw", golden::run_cuts<optimizer_case::steps<adam_of_case<adamw>>, 'a', 'b'>);
}
