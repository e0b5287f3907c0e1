// Explains two plans of one model without running anything: prints the table of one and its C++ text, writes a page and
// a strategy file, and says where the other one differs from it.
//
// run: 1

#include <tessera/layer/activation.hpp>
#include <tessera/layer/linear.hpp>
#include <tessera/plan/explain_search.hpp>
#include <tessera/plan/machines/ascend_910_server.hpp>
#include <tessera/plan/strategy_file.hpp>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

namespace ts = tessera;

namespace {

// [plans]
struct dp : ts::axis<2> {};
struct tp : ts::axis<4> {};
using world = ts::mesh<dp, tp>;

template <class First, class Second, class Batch>
using mlp = ts::parallel<ts::chain<ts::linear<1024, 4096, First>,  //
                                   ts::gelu,                       //
                                   ts::residual<ts::linear<4096, 4096>>, ts::linear<4096, 1024, Second>>,
                         ts::input<512, 1024>, Batch>;
using copies = mlp<ts::no_split, ts::no_split, ts::data_parallel<dp, tp>>;
using pairs = mlp<ts::split_output<tp>, ts::split_input<tp>, ts::data_parallel<dp>>;
// [plans]

using server = ts::machine::ascend_910_server;

// [search]
struct serial : ts::chain<ts::linear<1024, 4096>, ts::gelu,
                          ts::residual<ts::linear<4096, 4096>>, ts::linear<4096, 1024>> {};
using search = ts::auto_parallel_search<serial, ts::input<512, 1024>, world, server>;
// [search]

}  // namespace

int main() {
  const auto folder = std::filesystem::temp_directory_path() / "tessera_explain";
  std::filesystem::create_directories(folder);

  // [explain]
  // With an optimizer that remembers one value of each element.
  const auto plan = ts::explain<pairs, world, server>({.remembered = 1});
  std::cout << plan.table();
  std::ofstream(folder / "plan.html") << plan.html();
  std::ofstream(folder / "plan.json") << plan.to_json().dump(1);
  // [explain]

  // [others]
  const auto found = ts::explain_search<search>();
  std::cout << found.table();
  std::ofstream(folder / "found.html") << found.html();
  // [others]

  // [spell]
  std::cout << "using pinned = " << ts::spell<pairs>() << ";\n";
  // [spell]

  // [strategy]
  ts::save_strategy<pairs, world>(folder / "strategy.json");
  ts::check_strategy<pairs, world>(folder / "strategy.json");  // throws where the program has another plan
  for (std::string const& line :
       ts::difference(ts::load_strategy(folder / "strategy.json"), ts::strategy_of<copies, world>()))
    std::cout << line << "\n";
  // [strategy]
}
