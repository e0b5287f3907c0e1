#include <tessera/data/idx.hpp>

#include "files.hpp"

using data_test::bytes;
using data_test::error_of;
using data_test::idx;
using tessera::read_idx;

namespace {

std::string refusal(std::filesystem::path const& path) {
  return error_of([&] { read_idx(path); });
}

}  // namespace

TEST_CASE("an IDX file is read alike with and without gzip, whatever its name") {
  const data_test::folder folder;
  const bytes content = idx({2, 1, 3}, {1, 2, 3, 250, 251, 252});
  for (auto const& path : {folder.write("plain.gz", content), folder.write_gzip("packed", content)}) {
    const tessera::idx_file file = read_idx(path);
    CHECK(file.extents == std::vector<tessera::index_t>{2, 1, 3});
    CHECK(file.bytes == bytes{1, 2, 3, 250, 251, 252});
  }
}

TEST_CASE("an IDX file longer than the reader's pieces comes whole") {
  const data_test::folder folder;
  bytes elements(5'000'011);
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<std::uint8_t>(i * 2654435761u >> 13);
  const auto path = folder.write_gzip("long", idx({5'000'011}, elements));
  CHECK(read_idx(path).bytes == elements);
}

TEST_CASE("an IDX file of no elements is not an error") {
  const data_test::folder folder;
  const tessera::idx_file file = read_idx(folder.write("none", idx({0, 28}, {})));
  CHECK(file.extents == std::vector<tessera::index_t>{0, 28});
  CHECK(file.bytes.empty());
}

TEST_CASE("what is wrong with an IDX file is said, with the file's name") {
  const data_test::folder folder;

  SUBCASE("missing") {
    const auto path = folder.path() / "absent";
    CHECK(refusal(path) == "tessera: cannot open " + path.string() +
                               " (No such file or directory); wanted an IDX file, gzipped or not; check the path and "
                               "its permissions");
  }
  SUBCASE("a folder") {
    CHECK(refusal(folder.path()).starts_with("tessera: cannot read " + folder.path().string() + " (Is a directory)"));
  }
  SUBCASE("empty") {
    const auto path = folder.write("empty", {});
    CHECK(refusal(path) == "tessera: " + path.string() +
                               " is truncated: it holds 0 bytes; wanted an IDX header of at least 8; fetch the file "
                               "again");
  }
  SUBCASE("truncated in its header") {
    bytes content = idx({2, 3}, {});
    content.resize(10);
    const auto path = folder.write("short", content);
    CHECK(refusal(path) == "tessera: " + path.string() +
                               " is truncated inside its header; wanted 2 extents of 4 bytes each; fetch the file "
                               "again");
  }
  SUBCASE("truncated in its elements") {
    const auto path = folder.write_gzip("short", idx({2, 3}, {1, 2, 3, 4, 5}));
    CHECK(refusal(path) == "tessera: " + path.string() +
                               " is truncated: it holds 5 elements; wanted 6 as its header says; fetch the file again");
  }
  SUBCASE("a header that claims far more than there is") {
    const auto path = folder.write("claims", idx({4'000'000'000u, 2'000'000'000u}, bytes(3'000'000)));
    CHECK(refusal(path) == "tessera: " + path.string() +
                               " is truncated: it holds 3000000 elements; wanted 8000000000000000000 as its header "
                               "says; fetch the file again");
  }
  SUBCASE("extents whose product overflows") {
    const auto path = folder.write("overflow", idx({4'000'000'000u, 4'000'000'000u}, {1}));
    CHECK(refusal(path) == "tessera: " + path.string() +
                               " claims more elements than 63 bits can count; wanted extents whose product fits; the "
                               "header is damaged: fetch the file again");
  }
  SUBCASE("a gzip stream cut short") {
    folder.write_gzip("whole", idx({100}, bytes(100, 7)));
    bytes packed = folder.read("whole");
    packed.resize(packed.size() - 9);
    const auto path = folder.write("cut", packed);
    CHECK(refusal(path) == "tessera: " + path.string() +
                               " ends in the middle of its gzip stream; wanted a complete gzip file; fetch the file "
                               "again");
  }
  SUBCASE("a gzip stream whose checksum is wrong") {
    folder.write_gzip("whole", idx({4}, {1, 2, 3, 4}));
    bytes packed = folder.read("whole");
    packed[packed.size() - 8] ^= 1;
    const auto path = folder.write("corrupt", packed);
    CHECK(refusal(path) == "tessera: " + path.string() + " is corrupt (" + path.string() +
                               ": incorrect data check); wanted an intact gzip stream; fetch the file again");
  }
  SUBCASE("another format") {
    const auto path = folder.write("png", {0x89, 'P', 'N', 'G', 0, 0, 0, 0});
    CHECK(refusal(path) == "tessera: " + path.string() +
                               " starts with the bytes 137, 80; wanted an IDX file, which starts with 0, 0; give a "
                               "file of the MNIST format");
  }
  SUBCASE("another element type") {
    bytes content = idx({1}, {0, 0, 0, 0});
    content[2] = 13;
    const auto path = folder.write("float", content);
    CHECK(refusal(path) == "tessera: " + path.string() +
                               " holds elements of IDX type 13; wanted type 8 (unsigned bytes); convert the file to "
                               "unsigned bytes");
  }
  SUBCASE("no dimensions, or too many") {
    const auto path = folder.write("scalar", idx({}, {1}));
    CHECK(refusal(path) ==
          "tessera: " + path.string() + " has 0 dimensions; wanted 1 to 6; give a file of images or labels");
    CHECK(refusal(folder.write("deep", idx({1, 1, 1, 1, 1, 1, 1}, {1}))).find("has 7 dimensions") != std::string::npos);
  }
  SUBCASE("bytes after the last element") {
    const auto path = folder.write("trailing", idx({2}, {1, 2, 3}));
    CHECK(refusal(path) == "tessera: " + path.string() +
                               " goes on after its last element; wanted no bytes after the 2 elements of its header; "
                               "fetch the file again");
  }
}
