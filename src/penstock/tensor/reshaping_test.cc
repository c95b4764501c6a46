// Each element keeps its meaning: an order of dimensions that fits is taken before a mere reshape.
#include "penstock/tensor/reshaping.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

using Sizes = std::vector<std::int64_t>;

TEST(InBracketsTest, WritesNumbersAsPythonsTuplesAreRead) {
  EXPECT_EQ(in_brackets(Sizes{}), "()");
  EXPECT_EQ(in_brackets(Sizes{3}), "(3)");
  EXPECT_EQ(in_brackets(Sizes{2, 0, 3}), "(2, 0, 3)");
}

TEST(ReshapingTest, ReshapesWhatLiesInTheOrder) {
  EXPECT_EQ(reshaping({1, 3, 4}, Sizes{3, 4}), ".reshape(1, 3, 4) gives it that shape");
  EXPECT_EQ(reshaping({3, 4}, Sizes{1, 3, 1, 4}), ".reshape(3, 4) gives it that shape");
  EXPECT_EQ(reshaping({}, Sizes{1, 1}), ".reshape(()) gives it that shape");
  EXPECT_EQ(reshaping({1}, Sizes{}), ".reshape(1) gives it that shape");
}

TEST(ReshapingTest, ReshapesWhatHasOtherSizes) {
  EXPECT_EQ(reshaping({2, 6}, Sizes{3, 4}), ".reshape(2, 6) gives it that shape");
  EXPECT_EQ(reshaping({2, 2}, Sizes{4}), ".reshape(2, 2) gives it that shape");
}

TEST(ReshapingTest, TransposesWhatHasTheSizesInAnotherOrder) {
  EXPECT_EQ(reshaping({3, 8, 9}, Sizes{8, 9, 3}),
            "its dimensions are in another order, numpy.ascontiguousarray(x.transpose(2, 0, 1)) "
            "puts them in this one");
}

TEST(ReshapingTest, AddsDimensionsOfOneBehindTheTranspose) {
  EXPECT_EQ(reshaping({1, 3, 8, 9}, Sizes{8, 9, 3}),
            "its dimensions are in another order, numpy.ascontiguousarray(x.transpose(2, 0, 1))"
            ".reshape(1, 3, 8, 9) puts them in this one");
  EXPECT_EQ(reshaping({3, 1, 8}, Sizes{8, 1, 3}),
            "its dimensions are in another order, numpy.ascontiguousarray(x.transpose(1, 2, 0))"
            ".reshape(3, 1, 8) puts them in this one");
}

TEST(ReshapingTest, LeavesEqualSizesInTheirOrder) {
  EXPECT_EQ(reshaping({3, 8, 8}, Sizes{8, 8, 3}),
            "its dimensions are in another order, numpy.ascontiguousarray(x.transpose(2, 0, 1)) "
            "puts them in this one");
  EXPECT_EQ(reshaping({1, 8, 8}, Sizes{8, 8, 1}), ".reshape(1, 8, 8) gives it that shape");
}

}  // namespace
}  // namespace penstock
