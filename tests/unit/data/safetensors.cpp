#include "files.hpp"

#include <tessera/data/safetensors.hpp>

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace tessera;
using data_test::error_of;
using tessera::index_t;

/// A file with this header and these bytes of data.
data_test::bytes file_of(std::string const& header, std::size_t data, std::uint64_t claimed) {
  data_test::bytes file;
  for (int shift = 0; shift < 64; shift += 8) file.push_back(static_cast<std::uint8_t>(claimed >> shift & 0xFF));
  file.insert(file.end(), header.begin(), header.end());
  for (std::size_t i = 0; i < data; ++i) file.push_back(static_cast<std::uint8_t>(i));
  return file;
}
data_test::bytes file_of(std::string const& header, std::size_t data) { return file_of(header, data, header.size()); }

template <class T>
std::span<std::byte const> bytes(std::vector<T> const& values) {
  return std::as_bytes(std::span(values));
}

std::string fault(data_test::bytes const& content) {
  const data_test::folder folder;
  const auto path = folder.write("a.safetensors", content);
  const std::string text = error_of([&] { safetensors_file{path}; });
  // Every error says which file.
  if (text != "no error") CHECK(text.starts_with("tessera: " + path.string()));
  return text;
}

bool says(std::string const& text, std::string const& words) {
  INFO(text);
  INFO(words);
  return text.find(words) != std::string::npos;
}

const std::string two_tensors =
    R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})";

}  // namespace

TEST_CASE("the bytes of a safetensors file are those of the format") {
  const data_test::folder folder;
  const auto path = folder.path() / "a.safetensors";
  const std::vector<safetensors_tensor> tensors{{"w", safetensors_type::f32, {1, 2}}, {"n", safetensors_type::u8, {}}};
  safetensors_writer out(path, tensors, {{"format", "pt"}});
  out.append(bytes(std::vector<float>{1, -2}));
  out.append(bytes(std::vector<std::uint8_t>{7}));
  out.finish();
  // CRC-32 of each tensor, which zlib gives too.
  std::string header =
      R"({"__metadata__":{"format":"pt","tessera.crc32.65536":"c38726564c667a2e"},"w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
      R"("n":{"dtype":"U8","shape":[],"data_offsets":[8,9]}})";
  header.append((8 - header.size() % 8) % 8, ' ');
  data_test::bytes wanted = file_of(header, 0);
  for (const int byte : {0x00, 0x00, 0x80, 0x3F, 0x00, 0x00, 0x00, 0xC0, 0x07})
    wanted.push_back(static_cast<std::uint8_t>(byte));
  CHECK(folder.read("a.safetensors") == wanted);
}

TEST_CASE("tensors of all element types come back as they were written") {
  const data_test::folder folder;
  const auto path = folder.path() / "a.safetensors";
  const std::vector<double> f64{0.1, -1e300};
  const std::vector<float> f32{1, 2, 3, 4, 5, 6};
  const std::vector<std::int64_t> i64{-1};
  const std::vector<std::int32_t> i32{1, -2};
  const std::vector<std::uint8_t> u8{200};
  const std::vector<std::uint8_t> halves{0, 60, 0, 192};
  const std::vector<safetensors_tensor> tensors{
      {"f64", safetensors_type::f64, {2}},    {"empty", safetensors_type::f32, {0, 3}},
      {"f32", safetensors_type::f32, {2, 3}}, {"i64", safetensors_type::i64, {1}},
      {"i32", safetensors_type::i32, {2}},    {"f16", safetensors_type::f16, {2}},
      {"bf16", safetensors_type::bf16, {2}},  {"u8", safetensors_type::u8, {}}};
  safetensors_writer out(path, tensors, {{"made", "by a \"test\""}});
  out.append(bytes(f64));
  out.append(bytes(f32));
  out.append(bytes(i64));
  out.append(bytes(i32));
  out.append(bytes(halves));
  out.append(bytes(halves));
  out.append(bytes(u8));
  out.finish();

  const safetensors_file in(path);
  CHECK(in.read<double>("f64") == f64);
  CHECK(in.read<float>("f32") == f32);
  CHECK(in.read<float>("empty").empty());
  CHECK(in.read<std::int64_t>("i64") == i64);
  CHECK(in.read<std::int32_t>("i32") == i32);
  CHECK(in.read<std::uint8_t>("u8") == u8);
  REQUIRE(in.tensors().size() == tensors.size());
  for (safetensors_tensor const& t : tensors) {
    CAPTURE(t.name);
    CHECK(in.at(t.name).extents == t.extents);
    CHECK(in.at(t.name).type == t.type);
  }
  std::vector<std::uint8_t> raw(2);
  in.read(in.at("bf16"), 2, std::as_writable_bytes(std::span(raw)));
  CHECK(raw == std::vector<std::uint8_t>{0, 192});
  CHECK(in.metadata() == std::map<std::string, std::string>{{"made", "by a \"test\""}});

  CHECK(in.find("none") == nullptr);
  CHECK(says(error_of([&] { in.at("none"); }), "has no tensor \"none\""));
  CHECK(says(error_of([&] { in.read<float>("f64"); }), "tensor \"f64\""));
  CHECK(says(error_of([&] { in.read(in.at("bf16"), 3, std::as_writable_bytes(std::span(raw))); }), "tensor \"bf16\""));
}

TEST_CASE("a byte that changed is an error that names the tensor, wherever it is read") {
  const data_test::folder folder;
  const auto path = folder.path() / "a.safetensors";
  constexpr std::size_t block = 65536;
  const std::vector<std::uint8_t> large(2 * block + 100, 5);
  const std::vector<std::uint8_t> small{1, 2, 3};
  const std::vector<safetensors_tensor> tensors{{"none", safetensors_type::u8, {0}},
                                                {"large", safetensors_type::u8, {2 * block + 100}},
                                                {"small", safetensors_type::u8, {3}}};
  safetensors_writer out(path, tensors, {});
  for (std::size_t at = 0; at < large.size(); at += 1000)  // pieces that blocks cut
    out.append(bytes(large).subspan(at, std::min<std::size_t>(1000, large.size() - at)));
  out.append(bytes(small));
  out.finish();
  const auto whole = folder.read("a.safetensors");
  const auto begin = static_cast<std::size_t>(safetensors_file(path).at("large").begin);
  const auto read = [&](char const* name, std::uint64_t first, std::size_t count) {
    const safetensors_file in(path);
    std::vector<std::byte> some(count);
    return error_of([&] { in.read(in.at(name), first, some); });
  };
  CHECK(safetensors_file(path).has_checksums());
  CHECK(safetensors_file(path).metadata().empty());
  for (const std::size_t flipped : {std::size_t{0}, block - 1, block, 2 * block + 99}) {
    CAPTURE(flipped);
    auto damaged = whole;
    damaged[begin + flipped] ^= 0x40;
    folder.write("a.safetensors", damaged);
    const std::size_t first = flipped / block * block;
    CHECK(says(read("large", 0, large.size()),
               "tensor \"large\" in " + path.string() + " is damaged: its bytes from " + std::to_string(first)));
    // Bytes beside it in its block, too, and none of others.
    CHECK(says(read("large", first + 7, 3), "tensor \"large\""));
    for (std::size_t other = 0; other < large.size(); other += block)
      if (other != first) CHECK(read("large", other, std::min(block, large.size() - other)) == "no error");
    CHECK(read("small", 1, 2) == "no error");
    CHECK(read("none", 0, 0) == "no error");
  }
  auto damaged = whole;
  damaged.back() ^= 1;
  folder.write("a.safetensors", damaged);
  CHECK(says(read("small", 0, 1), "tensor \"small\""));
  CHECK(read("large", 0, large.size()) == "no error");

  // A checksum itself.
  const std::string header(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(begin));
  const std::size_t sum = header.find("crc32.65536\":\"") + 14;
  damaged = whole;
  damaged[sum] = damaged[sum] == '0' ? '1' : '0';
  folder.write("a.safetensors", damaged);
  CHECK(says(read("large", 0, 1), "tensor \"large\""));
  damaged[sum] = 'x';
  folder.write("a.safetensors", damaged);
  CHECK(says(error_of([&] { safetensors_file{path}; }), "has checksums that are none of its tensors"));
  folder.write("a.safetensors", whole);
  CHECK(read("large", 0, large.size()) == "no error");

  // Files of others have none.
  folder.write("b.safetensors", file_of(two_tensors, 11));
  CHECK(!safetensors_file(folder.path() / "b.safetensors").has_checksums());
}

TEST_CASE("a file that is cut off anywhere is an error, inside the data one that names the tensor") {
  CHECK(fault(file_of(two_tensors, 11)) == "no error");
  const auto whole = file_of(two_tensors, 11);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    const std::string text = fault({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)});
    CHECK(says(text, "truncated"));
    if (size >= 8 + two_tensors.size())
      CHECK(says(text, size < 8 + two_tensors.size() + 8 ? "tensor \"a\"" : "tensor \"b\""));
  }
  CHECK(says(fault(file_of(two_tensors, 12)), "goes on after its last tensor"));
}

TEST_CASE("a file that is no safetensors file is an error") {
  CHECK(says(error_of([] { safetensors_file{"/nowhere/a.safetensors"}; }), "cannot open /nowhere/a.safetensors"));
  CHECK(says(fault(file_of("{}", 0, 100'000'001)), "claims a header of 100000001 bytes"));
  CHECK(says(fault(file_of("{}", 0, ~std::uint64_t{0})), "claims a header of 18446744073709551615 bytes"));
  CHECK(says(fault(file_of("{", 0)), "no JSON object"));
  CHECK(says(fault(file_of("[]", 0)), "no JSON object"));
  CHECK(says(fault(file_of("PK\x03\x04", 0)), "no JSON object"));
  CHECK(says(fault(file_of(std::string(100'000, '['), 0)), "no JSON object"));
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  CHECK(says(fault(file_of(R"({"w":{"dtype":"F32","shape":)" + deep + R"(,"data_offsets":[0,8]}})", 8)),
             "nested in more than 32 levels"));
  CHECK(says(fault(file_of("\xEF\xBB\xBF{}", 0)), "byte order mark"));
  CHECK(says(fault(file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                           R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                           1)),
             "it has \"a\" twice"));
  CHECK(says(fault(file_of(R"({"w":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1)), "twice"));
  const std::string many = R"({"w":{"dtype":"F32","shape":[-1)" + [] {
    std::string list;
    for (int i = 0; i < 10'000; ++i) list += ",1";
    return list;
  }() + R"(],"data_offsets":[0,8]}})";
  const std::string cut_off = fault(file_of(many, 8));
  CHECK(says(cut_off, "shape [-1,1,"));
  CHECK(cut_off.size() < 500);
  CHECK(says(fault(file_of(R"({"__metadata__":{"a":1}})", 0)), "metadata \"a\""));
  CHECK(says(fault(file_of(R"({"__metadata__":3})", 0)), "metadata"));
  CHECK(fault(file_of("{}", 0)) == "no error");
}

TEST_CASE("a tensor that makes no sense is an error that names it") {
  const auto with = [](std::string const& tensor, std::size_t data = 8) {
    return fault(file_of("{\"w\":" + tensor + "}", data));
  };
  CHECK(with(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})") == "no error");
  for (auto const& row : std::vector<std::pair<std::string, std::string>>{
           {R"(3)", "without dtype"},
           {R"({"shape":[2],"data_offsets":[0,8]})", "without dtype"},
           {R"({"dtype":5,"shape":[2],"data_offsets":[0,8]})", "without dtype"},
           {R"({"dtype":"F8","shape":[2],"data_offsets":[0,8]})", "elements F8"},
           {R"({"dtype":"F32","data_offsets":[0,8]})", "without shape"},
           {R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})", "shape [-2]"},
           {R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})", "shape [2.0]"},
           {R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]})", "shape [18446744073709551615]"},
           {R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]})", "more elements than"},
           {R"({"dtype":"F32","shape":[2]})", "without data_offsets"},
           {R"({"dtype":"F32","shape":[2],"data_offsets":[0]})", "data_offsets [0]"},
           {R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})", "data_offsets [8,0]"},
           {R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})", "data_offsets [0,8]"},
           {R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})", "at byte 4"}}) {
    CAPTURE(row.first);
    const std::string text = with(row.first);
    CHECK(says(text, "tensor \"w\""));
    CHECK(says(text, row.second));
  }
}

TEST_CASE("tensors that overlap or leave gaps are an error") {
  const auto two = [](std::string const& a, std::string const& b) {
    return fault(file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + a +
                             R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}",
                         8));
  };
  CHECK(two("[0,4]", "[4,8]") == "no error");
  CHECK(two("[4,8]", "[0,4]") == "no error");
  CHECK(says(two("[0,4]", "[3,7]"), "tensor \"b\" at byte 3"));
  CHECK(says(two("[0,4]", "[5,9]"), "tensor \"b\" at byte 5"));
  CHECK(says(two("[0,4]", "[0,4]"), "tensor \"b\" at byte 0"));
}

TEST_CASE("a writer refuses what would be no safetensors file") {
  const data_test::folder folder;
  const auto path = folder.path() / "a.safetensors";
  const auto write = [&](std::vector<safetensors_tensor> const& tensors, std::size_t data) {
    return error_of([&] {
      safetensors_writer out(path, tensors);
      out.append(bytes(std::vector<std::uint8_t>(data)));
      out.finish();
    });
  };
  const safetensors_tensor w{"w", safetensors_type::u8, {2}};
  CHECK(write({w}, 2) == "no error");
  CHECK(says(write({w, w}, 4), "two tensors \"w\""));
  CHECK(says(write({{"__metadata__", safetensors_type::u8, {2}}}, 2), "__metadata__"));
  CHECK(says(write({{"\xFF", safetensors_type::u8, {2}}}, 2), "no text"));
  CHECK(says(write({w}, 3), "1 bytes more"));
  CHECK(says(write({w}, 1), "1 bytes fewer"));
  CHECK(says(error_of([&] { safetensors_writer(folder.path() / "none" / "a.safetensors", {}); }), "cannot create"));
}
