#include <tessera/core/draw_svg.hpp>

#include <doctest/doctest.h>

namespace {

using namespace tessera;

struct dp : axis<2> {};
struct tp : axis<4> {};
using world = mesh<dp, tp>;
struct a : axis<2> {};
struct b : axis<2> {};
struct c : axis<2> {};
template <int Size>
struct of_size : axis<Size> {};

TEST_CASE("a matrix that is cut both ways, unevenly") {
  CHECK(draw<world, layout<row<dp>, column<tp>>>(shape<2>{{5, 6}}) ==
        "[dp,tp] of 5 x 6 on dp=2,tp=4\n"
        "\n"
        "       0..1   2..3   4   5\n"
        "     +------+------+---+---+\n"
        "0..2 | 0    | 1    | 2 | 3 |\n"
        "     +------+------+---+---+\n"
        "3..4 | 4    | 5    | 6 | 7 |\n"
        "     +------+------+---+---+\n");
}

TEST_CASE("axes cut one dimension in their order") {
  CHECK(draw<world, shard<0, tp, dp>>(shape<1>{{10}}) ==
        "[(tp*dp)] of 10 on dp=2,tp=4\n"
        "\n"
        "  0..1   2   3..4   5   6   7   8   9\n"
        "+------+---+------+---+---+---+---+---+\n"
        "| 0    | 4 | 1    | 5 | 2 | 6 | 3 | 7 |\n"
        "+------+---+------+---+---+---+---+---+\n");
}

TEST_CASE("ranks that hold nothing are listed") {
  CHECK(draw<world, shard<0, dp, tp>>(shape<1>{{5}}) ==
        "[(dp*tp)] of 5 on dp=2,tp=4\n"
        "\n"
        "  0   1   2   3   4\n"
        "+---+---+---+---+---+\n"
        "| 0 | 1 | 2 | 4 | 5 |\n"
        "+---+---+---+---+---+\n"
        "no elements on 3,6,7\n");
  CHECK(draw<world, column<dp>>(shape<2>{{0, 5}}) == "[-,dp] of 0 x 5 on dp=2,tp=4\nno elements on 0-7\n");
}

TEST_CASE("copies and terms") {
  CHECK(draw<world, column<tp>>(shape<2>{{2, 4}}) ==
        "[-,tp] of 2 x 4 on dp=2,tp=4\n"
        "\n"
        "       0     1     2     3\n"
        "     +-----+-----+-----+-----+\n"
        "0..1 | 0,4 | 1,5 | 2,6 | 3,7 |\n"
        "     +-----+-----+-----+-----+\n");
  CHECK(draw<world, partial<dp>>(shape<0>{}) ==
        "[] partial(dp) of a scalar on dp=2,tp=4\n"
        "\n"
        "+-----------+\n"
        "| 0-3 + 4-7 |\n"
        "+-----------+\n");
  CHECK(draw<mesh<a, b, c>, layout<partial<a, reduction::maximum>, partial<b>>>(shape<0>{}) ==
        "[] partial(a,max) partial(b) of a scalar on a=2,b=2,c=2\n"
        "\n"
        "+---------------------------+\n"
        "| max(0,1 + 2,3; 4,5 + 6,7) |\n"
        "+---------------------------+\n");
}

TEST_CASE("of more dimensions two are drawn, cut ones first") {
  CHECK(draw<world, layout<shard<0, dp>, shard<2, tp>>>(shape<3>{{3, 5, 4}}) ==
        "[dp,-,tp] of 3 x 5 x 4 on dp=2,tp=4\n"
        "\n"
        "       0   1   2   3\n"
        "     +---+---+---+---+\n"
        "0..1 | 0 | 1 | 2 | 3 |\n"
        "     +---+---+---+---+\n"
        "2    | 4 | 5 | 6 | 7 |\n"
        "     +---+---+---+---+\n"
        "dimension 1, not drawn: 0..4\n");
  CHECK(draw<mesh<a, b, c>, layout<shard<0, a>, shard<1, b>, shard<2, c>>>(shape<3>{{2, 2, 3}}) ==
        "[a,b,c] of 2 x 2 x 3 on a=2,b=2,c=2\n"
        "\n"
        "    0     1\n"
        "  +-----+-----+\n"
        "0 | 0,1 | 2,3 |\n"
        "  +-----+-----+\n"
        "1 | 4,5 | 6,7 |\n"
        "  +-----+-----+\n"
        "dimension 2, not drawn: 0..1 on 0,2,4,6, 2 on 1,3,5,7\n");
  CHECK(draw<mesh<>, replicated>(shape<4>{{1, 2, 3, 4}}) ==
        "[-,-,-,-] of 1 x 2 x 3 x 4 on one device\n"
        "\n"
        "       0..3\n"
        "     +------+\n"
        "0..2 | 0    |\n"
        "     +------+\n"
        "dimension 0, not drawn: 0\n"
        "dimension 1, not drawn: 0..1\n");
}

TEST_CASE("an image is the same drawing to scale, its terms hatched") {
  const std::string image = draw_svg<world, layout<shard<0, dp>, partial<tp>>>(shape<1>{{3}});
  const std::string body = image.substr(image.find("</style>"));
  CHECK(image.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"328\" height=\"116\" "));
  CHECK(image.find("prefers-color-scheme: dark") != std::string::npos);
  CHECK(body ==
        "</style>\n"
        "<defs><pattern id=\"hatch\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\">"
        "<path class=\"hatch\" d=\"M0 8L8 0\"/></pattern></defs>\n"
        "<rect x=\"0\" y=\"0\" width=\"328\" height=\"116\" class=\"paper\"/>\n"
        "<text x=\"16\" y=\"25\" font-size=\"13\" text-anchor=\"start\">[dp] partial(tp) of 3 on dp=2,tp=4</text>\n"
        "<text x=\"144\" y=\"50\" font-size=\"11\" text-anchor=\"middle\">0..1</text>\n"
        "<text x=\"264\" y=\"50\" font-size=\"11\" text-anchor=\"middle\">2</text>\n"
        "<rect x=\"64\" y=\"56\" width=\"160\" height=\"40\" class=\"block\" fill=\"hsl(0,70%,50%)\"/>\n"
        "<rect x=\"64\" y=\"56\" width=\"160\" height=\"40\" fill=\"url(#hatch)\"/>\n"
        "<text x=\"144\" y=\"81\" font-size=\"14\" text-anchor=\"middle\">0 + 1 + 2 + 3</text>\n"
        "<rect x=\"224\" y=\"56\" width=\"80\" height=\"40\" class=\"block\" fill=\"hsl(180,70%,50%)\"/>\n"
        "<rect x=\"224\" y=\"56\" width=\"80\" height=\"40\" fill=\"url(#hatch)\"/>\n"
        "<text x=\"264\" y=\"79\" font-size=\"9\" text-anchor=\"middle\">4 + 5 + 6 + 7</text>\n"
        "</svg>\n");
}

TEST_CASE("the names of templates are text in an image") {
  const std::string svg = draw_svg<mesh<of_size<2>>, row<of_size<2>>>(shape<1>{{4}});
  CHECK(svg.find("<title>[of_size&lt;2&gt;] of 4 on of_size&lt;2&gt;=2</title>") != std::string::npos);
  CHECK(svg.find(">[of_size&lt;2&gt;] of 4") != std::string::npos);
  CHECK(svg.find("of_size<") == std::string::npos);
  CHECK(detail::escape_xml("a & b") == "a &amp; b");
}

TEST_CASE("text that XML cannot hold is replaced in an image") {
  const std::string lost = "\xEF\xBF\xBD";
  for (const std::string whole : {"a\tb\n", "\xC3\xA9", "\xE2\x82\xAC", "\xED\x9F\xBF", "\xF0\x9F\x98\x80"})
    CHECK(detail::escape_xml(whole) == whole);
  CHECK(detail::escape_xml(std::string("a\x01<\x1F\0z", 6)) == "a" + lost + "&lt;" + lost + lost + "z");
  // A byte that continues nothing, overlong forms, a surrogate, U+FFFE, above U+10FFFF, cut short.
  CHECK(detail::escape_xml("\x80z") == lost + "z");
  CHECK(detail::escape_xml("\xC0\xAF") == lost + lost);
  CHECK(detail::escape_xml("\xED\xA0\x80") == lost + lost + lost);
  CHECK(detail::escape_xml("\xEF\xBF\xBE") == lost + lost + lost);
  CHECK(detail::escape_xml("\xF4\x90\x80\x80") == lost + lost + lost + lost);
  CHECK(detail::escape_xml("\xE2\x82") == lost + lost);
  CHECK(detail::escape_xml("\xC3<") == lost + "&lt;");
  const named_mesh<1> odd{{{2}}, {"a\x01"}};
  CHECK(draw_svg(odd, placements<1>{}, shape<1>{{4}}).find('\x01') == std::string::npos);
}

TEST_CASE("an image without terms or elements has neither hatching nor blocks") {
  const std::string whole = draw_svg<world, row<dp>>(shape<2>{{4, 4}});
  CHECK(whole.find("url(#hatch)") == std::string::npos);
  CHECK(whole.find(">0-3</text>") != std::string::npos);
  const std::string none = draw_svg<world, row<dp>>(shape<2>{{4, 0}});
  CHECK(none.find("class=\"block\"") == std::string::npos);
  CHECK(none.find(">no elements on 0-7</text>") != std::string::npos);
}

}  // namespace
