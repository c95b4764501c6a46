// Verdicts on invented networks whose outputs round, jump, repeat or are random.
#include "penstock/measure/judge.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/measure/slow_runs.h"
#include "penstock/measure/variants.h"
#include "penstock/tensor/number.h"

namespace penstock::measure {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kWidth = 1000;

template <typename T>
Tensor tensor(DType dtype, const std::function<T(std::size_t)>& value) {
  auto made = Tensor::allocate(dtype, {1, kWidth});
  for (std::size_t i = 0; i < made.count(); ++i) made.as<T>()[i] = value(i);
  return made;
}

Tensor floats(const std::function<double(std::size_t)>& value) {
  return tensor<float>(DType::kF32, [&](auto i) { return static_cast<float>(value(i)); });
}

using Network = std::function<Tensor(const Tensor&)>;

/// One output of a function of one input.
class Computed final : public Reference {
 public:
  explicit Computed(Network network) : network_(std::move(network)) {}
  Result<std::vector<Tensor>> run(const frames::Frame& inputs) override {
    return std::vector<Tensor>{network_(inputs[0])};
  }

 private:
  Network network_;
};

/// y = f(x) elementwise.
Network elementwise(const std::function<double(double)>& f) {
  return [f](const Tensor& x) { return floats([&](auto i) { return f(x.as<float>()[i]); }); };
}

/// As a detector's classes beside the pixels of its boxes.
TEST(HiddenRows, AreThoseWithoutAValueLargerThanWhatMayDiffer) {
  auto boxes = Tensor::allocate(DType::kF32, {1, 3, 10});
  for (std::size_t i = 0; i < boxes.count(); ++i) boxes.as<float>()[i] = i < 10 ? 600 : 0.001F;
  EXPECT_EQ(find_hidden_rows({&boxes}, {}).hidden, 2U);
  EXPECT_EQ(find_hidden_rows({&boxes}, {}).rows, 3U);
  EXPECT_EQ(find_hidden_rows({&boxes}, {}).axis, 1U);
  boxes.as<float>()[29] = 0.1F;
  EXPECT_EQ(find_hidden_rows({&boxes}, {}).hidden, 1U);
  for (std::size_t i = 10; i < boxes.count(); ++i) boxes.as<float>()[i] = 0;
  EXPECT_EQ(find_hidden_rows({&boxes}, {}).hidden, 0U);
  auto classes = Tensor::allocate(DType::kF32, {1, 1000});
  for (std::size_t i = 0; i < classes.count(); ++i) classes.as<float>()[i] = i == 0 ? 1 : 1e-9F;
  EXPECT_EQ(find_hidden_rows({&classes}, {}).hidden, 0U);
  // As pixels beside chances, of one object.
  for (std::size_t i = 0; i < 4; ++i) classes.as<float>()[i] = 600;
  EXPECT_EQ(find_hidden_rows({&classes}, {}).hidden, 996U);
}

/// Evenly in (1, 2), others for each number.
std::vector<frames::Frame> some_frames(std::size_t count = 4) {
  std::vector<frames::Frame> all;
  for (std::size_t f = 0; f < count; ++f) {
    all.push_back({floats([&](auto i) {
      return 1 +
             std::fmod(static_cast<double>(i + 1) * 0.618034 + static_cast<double>(f) * 0.37, 1);
    })});
  }
  return all;
}

Judge judge_of(const Network& network, const std::vector<frames::Frame>& frames) {
  Computed reference(network);
  auto judge = Judge::create({{"y"}, {}, frames}, reference);
  EXPECT_TRUE(judge) << judge.error().message();
  return *std::move(judge);
}

/// What is found of a backend that computes `actual` instead.
OutputVerdict verdict_on(const Judge& judge, const std::vector<frames::Frame>& frames,
                         const Network& actual) {
  Trial trial(judge);
  for (std::size_t f = 0; f < frames.size(); ++f) {
    const auto value = actual(frames[f][0]);
    const Tensor* const values[] = {&value};
    trial.add(f, frames[f], values, judge.expected()[f]);
  }
  return trial.verdict().outputs.front();
}

TEST(Judge, AllowsWhatTheReferencesOwnRoundingGives) {
  // Near zero at x = 1.5: a difference of large numbers, of which no share is right to more.
  const auto ill = [](double offset) {
    return elementwise([=](double x) { return (1e4 * x - 1.5e4 + offset) * 1e-4; });
  };
  const auto frames = some_frames();
  const auto judge = judge_of(ill(0), frames);
  const auto& allowed = judge.allowances().front();
  EXPECT_GT(allowed.rounding, 5e-8);
  EXPECT_DOUBLE_EQ(allowed.tolerance.floor, 8 * allowed.rounding);
  EXPECT_LE(allowed.tolerance.floor, allowed.bf16 / 2);
  EXPECT_EQ(verdict_on(judge, frames, ill(0)).finding, Finding::kRight);
  EXPECT_EQ(verdict_on(judge, frames, ill(3e-3)).finding, Finding::kRight);
  EXPECT_EQ(verdict_on(judge, frames, ill(1)).finding, Finding::kWrong);
  EXPECT_THAT(explain(allowed), HasSubstr("8 times the reference's own rounding"));
}

/// y = x + state, which is half of the y before.
class Summing final : public Reference {
 public:
  Result<std::vector<Tensor>> run(const frames::Frame& inputs) override {
    const auto y = floats([&](auto i) { return inputs[0].template as<float>()[i] + state_; });
    state_ = y.as<float>()[0] / 2;
    return std::vector<Tensor>{y};
  }
  Status begin_sequence() override {
    state_ = 0;
    return {};
  }

 private:
  double state_ = 0;
};

TEST(Judge, KeepsNoMemoryOfTheEngine) {
  const auto arena = std::make_shared<std::vector<float>>(kWidth, 1.5F);
  const auto judge = judge_of(
      [arena](const Tensor&) {
        return Tensor::view(DType::kF32, {1, kWidth}, arena->data(), arena);
      },
      some_frames());
  EXPECT_EQ(judge.expected().front().front().as<float>()[0], 1.5F);
  EXPECT_EQ(arena.use_count(), 1);
}

TEST(Judge, RunsEachSequenceFromItsBeginning) {
  Summing reference;
  ASSERT_TRUE(reference.run(some_frames(1)[0]));  // What was before is no part of it.
  const auto frames = some_frames();
  const auto judge = Judge::create({{"y"}, {}, frames}, reference);
  ASSERT_TRUE(judge) << judge.error().message();
  EXPECT_EQ(judge->expected()[0][0].as<float>()[0], frames[0][0].as<float>()[0]);
  const auto& allowed = judge->allowances().front();
  EXPECT_EQ(allowed.own_rate, 0);  // It does not differ from itself by more than rounding.
  EXPECT_GT(allowed.rounding, 0);
  EXPECT_LT(allowed.rounding, 1e-5);
}

TEST(Judge, RefusesWhatBf16Gives) {
  const auto frames = some_frames();
  for (const double scale : {1e-20, 1.0, 1e20}) {
    const auto network = elementwise([=](double x) { return scale * (x - 1.5); });
    const auto rounded = [&](const Tensor& x) { return network(rounded_to(DType::kBF16, x)); };
    EXPECT_EQ(verdict_on(judge_of(network, frames), frames, rounded).finding, Finding::kWrong);
  }
}

/// Of a network that says more of its output.
Judge judge_of(const Network& network, const std::vector<frames::Frame>& frames,
               const KnownOutput& known) {
  Computed reference(network);
  auto judge = Judge::create(
      {.outputs = {"y"}, .tolerance = {}, .frames = frames, .known = {known}}, reference);
  EXPECT_TRUE(judge) << judge.error().message();
  return *std::move(judge);
}

TEST(Judge, AllowsAnEngineToKeepMoreDigitsThanF16) {
  const auto frames = some_frames();
  const auto in = [](DType narrow) {
    return [narrow](const Tensor& x) {
      auto sums = rounded_to(narrow, x);
      for (auto& y : sums.as<float>()) y = y - 1.5F;
      return rounded_to(narrow, sums);
    };
  };
  const auto f32 = elementwise([](double x) { return x - 1.5; });
  const auto judge = judge_of(f32, frames, {.half = true});
  const auto& allowed = judge.allowances().front();
  EXPECT_LE(allowed.tolerance.floor, allowed.bf16 / 2);
  EXPECT_THAT(explain(allowed), HasSubstr("3 times what f16 gives"));
  EXPECT_EQ(verdict_on(judge, frames, in(DType::kF16)).finding, Finding::kRight);
  EXPECT_EQ(verdict_on(judge, frames, in(DType::kBF16)).finding, Finding::kWrong);
  // Of a network that does not compute in f16, it is a fault.
  EXPECT_EQ(verdict_on(judge_of(f32, frames), frames, in(DType::kF16)).finding, Finding::kWrong);
}

TEST(Judge, AllowsAnEngineToKeepMoreDigitsThanF16OfInputsOfF16) {
  const auto f16 = [](const Tensor& x, const std::function<double(double)>& f) {
    return tensor<std::uint16_t>(DType::kF16, [&](auto i) {
      const double number = number_from_bits(DType::kF16, x.as<std::uint16_t>()[i]);
      return static_cast<std::uint16_t>(bits_from_number(DType::kF16, f(number)));
    });
  };
  std::vector<frames::Frame> frames;
  for (const auto& frame : some_frames()) {
    frames.push_back({tensor<std::uint16_t>(DType::kF16, [&](auto i) {
      return static_cast<std::uint16_t>(bits_from_number(DType::kF16, frame[0].as<float>()[i]));
    })});
  }
  const auto rounds_twice = [&](const Tensor& x) {
    return f16(f16(x, [](double y) { return 1.7 * y; }), [](double y) { return 2.3 * y - 6; });
  };
  const auto rounds_once = [&](double offset) {
    return [&, offset](const Tensor& x) {
      return f16(x, [=](double y) { return 2.3 * 1.7 * y - 6 + offset; });
    };
  };
  const auto judge = judge_of(rounds_twice, frames, {.half = true});
  EXPECT_EQ(verdict_on(judge, frames, rounds_once(0)).finding, Finding::kRight);
  EXPECT_EQ(verdict_on(judge, frames, rounds_once(0.1)).finding, Finding::kWrong);
}

TEST(Judge, AllowsWhatLastBitsOfF16GiveOnTheWay) {
  // The inputs are rounded to f16 at once, so that rounding them before shows nothing.
  const auto frames = some_frames();
  const auto reads_half = [](double factor) {
    return [factor](const Tensor& x) {
      auto sums = rounded_to(DType::kF16, x);
      for (auto& y : sums.as<float>()) y = y * static_cast<float>(factor) - 1.5F;
      return sums;
    };
  };
  Computed reference(reads_half(1));
  const std::vector<KnownOutput> known{{.drawn = {}, .half = true}};
  Judge::Setting setting{.outputs = {"y"}, .tolerance = {}, .frames = frames, .known = known};
  const auto exact = elementwise([](double x) { return x - 1.5; });
  const auto without = Judge::create(setting, reference);
  ASSERT_TRUE(without) << without.error().message();
  EXPECT_NE(verdict_on(*without, frames, exact).finding, Finding::kRight);
  setting.half = [&]() -> Result<std::unique_ptr<Reference>> {
    return std::unique_ptr<Reference>(std::make_unique<Computed>(reads_half(1 + 0x1p-10)));
  };
  const auto judge = Judge::create(setting, reference);
  ASSERT_TRUE(judge) << judge.error().message();
  EXPECT_LE(judge->allowances().front().tolerance.floor, judge->allowances().front().bf16 / 2);
  EXPECT_EQ(verdict_on(*judge, frames, exact).finding, Finding::kRight);
  const auto narrow = [&](const Tensor& x) { return exact(rounded_to(DType::kBF16, x)); };
  EXPECT_EQ(verdict_on(*judge, frames, narrow).finding, Finding::kWrong);
}

/// Two outputs, each a function of one input.
class Twice final : public Reference {
 public:
  explicit Twice(Network network) : network_(std::move(network)) {}
  Result<std::vector<Tensor>> run(const frames::Frame& inputs) override {
    return std::vector<Tensor>{network_(inputs[0]), network_(inputs[0])};
  }

 private:
  Network network_;
};

TEST(Judge, AllowsWhatF16GivesOnlyInOutputsThatComputeInIt) {
  const auto frames = some_frames();
  Twice reference(elementwise([](double x) { return x - 1.5; }));
  const std::vector<KnownOutput> known{{.drawn = {}, .half = true}, {}};
  const auto judge = Judge::create(
      {.outputs = {"narrow", "wide"}, .tolerance = {}, .frames = frames, .known = known},
      reference);
  ASSERT_TRUE(judge) << judge.error().message();
  const auto& allowed = judge->allowances();
  EXPECT_THAT(explain(allowed[0]), HasSubstr("3 times what f16 gives"));
  EXPECT_LT(allowed[1].tolerance.floor, allowed[0].tolerance.floor / 10);
}

TEST(Judge, SaysNothingOfRandomNumbers) {
  const auto frames = some_frames();
  const auto network = elementwise([](double x) { return x; });
  const auto judge = judge_of(network, frames, {.drawn = "node 'r' (RandomNormal)"});
  const auto wrong = elementwise([](double x) { return x + 1; });
  for (const auto& actual : {network, wrong}) {
    const auto verdict = verdict_on(judge, frames, actual);
    EXPECT_EQ(verdict.finding, Finding::kInconclusive);
    EXPECT_THAT(verdict.reason, HasSubstr("'y' depends on node 'r' (RandomNormal), which draws"));
  }
}

TEST(Judge, TellsTinyValuesFromZero) {
  const auto frames = some_frames();
  const auto judge = judge_of(elementwise([](double x) { return 1e-20 * x; }), frames);
  const auto zero = elementwise([](double) { return 0; });
  EXPECT_EQ(verdict_on(judge, frames, zero).finding, Finding::kWrong);
}

TEST(Judge, CannotTellFramesApartThatGiveTheSame) {
  const auto frames = some_frames();
  const auto saturated = elementwise([](double x) { return 1 / (1 + std::exp(-100 * x)); });
  const auto judge = judge_of(saturated, frames);
  const auto verdict = verdict_on(judge, frames, saturated);
  EXPECT_EQ(verdict.finding, Finding::kInconclusive);
  EXPECT_THAT(verdict.reason, HasSubstr("output 'y': different frames give"));
  const auto zero = elementwise([](double) { return 0; });
  EXPECT_EQ(verdict_on(judge, frames, zero).finding, Finding::kWrong);
}

TEST(Judge, SaysThatAllValuesAreNaN) {
  const auto frames = some_frames();
  const auto network = elementwise([](double) { return std::nan(""); });
  const auto verdict = verdict_on(judge_of(network, frames), frames, network);
  EXPECT_EQ(verdict.finding, Finding::kInconclusive);
  EXPECT_THAT(
      verdict.reason,
      HasSubstr("output 'y': all its values are NaN on these frames, so that the output of a "
                "wrong frame would pass too: give frames on which the network has numbers "
                "(--input)"));
}

TEST(Judge, IsInDoubtWhereAllFramesAreTheSame) {
  const auto silence = floats([](auto) { return 0; });
  const auto network = elementwise([](double x) { return 2 * x; });
  for (const std::size_t count : {1, 3}) {
    const std::vector<frames::Frame> frames(count, {silence});
    const auto verdict = verdict_on(judge_of(network, frames), frames, network);
    EXPECT_EQ(verdict.finding, Finding::kInconclusive);
    EXPECT_THAT(verdict.reason, HasSubstr("output 'y': all frames are the same"));
  }
}

TEST(Judge, TellsFramesThatAreTheSameFromFurtherOnes) {
  const std::vector<frames::Frame> frames(3, {floats([](auto) { return 0; })});
  const auto further = some_frames(1);
  const auto of = [&](const Network& network) {
    Computed reference(network);
    const auto judge = Judge::create(
        {.outputs = {"y"}, .tolerance = {}, .frames = frames, .further = further}, reference);
    return verdict_on(*judge, frames, network).finding;
  };
  EXPECT_EQ(of(elementwise([](double x) { return 2 * x; })), Finding::kRight);
  EXPECT_EQ(of(elementwise([](double) { return 1; })), Finding::kInconclusive);
}

TEST(Judge, TakesFramesThatAreTheSameWhereOthersWereSeenLater) {
  const std::vector<frames::Frame> silent(1, {floats([](auto) { return 0; })});
  const auto network = elementwise([](double x) { return 2 * x; });
  const auto judge = judge_of(network, silent);
  Trial trial(judge);
  for (const auto& frame : some_frames(2)) {
    const auto value = network(frame[0]);
    const Tensor* const values[] = {&value};
    trial.add(0, frame, values, {value});
  }
  EXPECT_EQ(trial.verdict().finding(), Finding::kRight);
}

TEST(Judge, TriesOneFrameInReverseOrder) {
  const auto frames = some_frames(1);
  const auto network = elementwise([](double x) { return x; });
  EXPECT_TRUE(judge_of(network, frames).allowances().front().told_apart);
  const auto constant = elementwise([](double) { return 1; });
  EXPECT_EQ(verdict_on(judge_of(constant, frames), frames, constant).finding,
            Finding::kInconclusive);
}

/// In how many hundredths an input lies: an integer that jumps at each bound.
Network hundredths(double offset) {
  return [=](const Tensor& x) {
    return tensor<std::int64_t>(DType::kI64, [&](auto i) {
      return static_cast<std::int64_t>(
          std::floor(100 * static_cast<double>(x.as<float>()[i]) + offset));
    });
  };
}

TEST(Judge, AllowsIntegersToJumpSeldom) {
  const auto frames = some_frames();
  const auto judge = judge_of(hundredths(0), frames);
  EXPECT_GT(judge.allowances().front().rate, 0);
  EXPECT_LE(judge.allowances().front().rate, 0.01);
  EXPECT_EQ(verdict_on(judge, frames, hundredths(1e-5)).finding, Finding::kRight);
  EXPECT_EQ(verdict_on(judge, frames, hundredths(0.1)).finding, Finding::kWrong);
}

/// Part of a number: it jumps, by 6 at most, in a few of a thousand values.
Network sevenths() {
  return elementwise([](double x) { return 1 + std::fmod(std::floor(2e3 * x), 7); });
}

/// As verdict_on(), where the judge looks again.
OutputVerdict second_verdict_on(const Judge& judge, const std::vector<frames::Frame>& frames,
                                const Network& right,
                                const std::function<Tensor(const Tensor&, std::size_t)>& actual) {
  Computed reference(right);
  Trial trial(judge);
  for (std::size_t f = 0; f < frames.size(); ++f) {
    const auto value = actual(frames[f][0], f);
    const Tensor* const values[] = {&value};
    trial.add(f, frames[f], values, {right(frames[f][0])});
  }
  trial.look_again(reference, {});
  return trial.verdict().outputs.front();
}

TEST(Judge, RefusesFewValuesThatLieFurtherThanAnyJump) {
  const auto frames = some_frames();
  const auto judge = judge_of(sevenths(), frames);
  const auto with = [&](float more) {
    return second_verdict_on(judge, frames, sevenths(), [&](const Tensor& x, std::size_t) {
      auto y = sevenths()(x);
      for (const std::size_t i : {100, 500, 900}) y.as<float>()[i] += more;
      return y;
    });
  };
  EXPECT_GT(judge.allowances().front().rate, 0.003);
  EXPECT_EQ(with(5).finding, Finding::kRight) << with(5).reason << explain(with(5));
  const auto far = with(500);
  EXPECT_EQ(far.finding, Finding::kWrong);
  EXPECT_THAT(far.reason, HasSubstr("the reference itself jumps in"));
}

TEST(Judge, RefusesAFrameOfManyThatHasAnothersOutput) {
  const auto frames = some_frames(200);
  const auto judge = judge_of(sevenths(), {frames.begin(), frames.begin() + 4});
  for (const std::size_t wrong : {3, 150, 199}) {
    const auto verdict = second_verdict_on(
        judge, frames, sevenths(),
        [&](const Tensor& x, std::size_t f) { return sevenths()(f == wrong ? frames[0][0] : x); });
    EXPECT_LT(verdict.mismatches * 100, verdict.values);
    EXPECT_EQ(verdict.finding, Finding::kWrong) << wrong << verdict.reason << explain(verdict);
  }
}

TEST(Judge, AllowsNoStepWhereIntegersAreClasses) {
  const auto frames = some_frames();
  const auto classes = [](int more) {
    return [=](const Tensor& x) {
      return tensor<std::uint8_t>(DType::kU8, [&](auto i) {
        return static_cast<std::uint8_t>(static_cast<int>(100 * x.as<float>()[i]) + more);
      });
    };
  };
  EXPECT_EQ(verdict_on(judge_of(classes(0), frames), frames, classes(1)).finding, Finding::kRight);
  const auto judge = judge_of(classes(0), frames, {.exact = true});
  EXPECT_EQ(verdict_on(judge, frames, classes(0)).finding, Finding::kRight);
  EXPECT_EQ(verdict_on(judge, frames, classes(1)).finding, Finding::kWrong);
}

TEST(Judge, AllowsNoStepWhereOneIsAllThatThereIs) {
  const auto frames = some_frames();
  const auto mask = [](bool inverted) {
    return [=](const Tensor& x) {
      return tensor<std::uint8_t>(DType::kU8, [&](auto i) {
        return static_cast<std::uint8_t>((x.as<float>()[i] > 1.5) != inverted ? 1 : 0);
      });
    };
  };
  const auto judge = judge_of(mask(false), frames);
  EXPECT_EQ(verdict_on(judge, frames, mask(false)).finding, Finding::kRight);
  EXPECT_EQ(verdict_on(judge, frames, mask(true)).finding, Finding::kWrong);
}

TEST(Judge, AllowsNoIntegerToDifferThatNeverJumps) {
  const auto frames = some_frames();
  const auto places = [](std::int64_t wrong) {
    return [=](const Tensor& x) {
      const bool high = x.as<float>()[0] > 1.7;
      return tensor<std::int64_t>(DType::kI64, [&](auto i) {
        return static_cast<std::int64_t>(i) + (high ? 1 : 0) + (i == 7 ? wrong : 0);
      });
    };
  };
  const auto judge = judge_of(places(0), frames);
  EXPECT_EQ(judge.allowances().front().rate, 0);
  EXPECT_EQ(verdict_on(judge, frames, places(0)).finding, Finding::kRight);
  EXPECT_EQ(verdict_on(judge, frames, places(1)).finding, Finding::kWrong);
}

TEST(Judge, IsInDoubtWhereTheReferenceItselfJumps) {
  // What the last bits say is as good as random.
  const auto last_bits = [](const Tensor& x) {
    return tensor<std::int64_t>(DType::kI64, [&](auto i) {
      return static_cast<std::int64_t>(std::fmod(x.as<float>()[i] * 0x1p23, 4));
    });
  };
  const auto frames = some_frames();
  const auto judge = judge_of(last_bits, frames);
  EXPECT_GT(judge.allowances().front().own_rate, 0.5);
  EXPECT_EQ(judge.allowances().front().rate, 0.01);
  EXPECT_EQ(verdict_on(judge, frames, last_bits).finding, Finding::kRight);
  const auto other = [&](const Tensor& x) { return last_bits(with_last_bits_changed({x}, 9)[0]); };
  const auto verdict = verdict_on(judge, frames, other);
  EXPECT_EQ(verdict.finding, Finding::kInconclusive);
  EXPECT_THAT(verdict.reason, HasSubstr("the reference itself differs in"));
}

TEST(Judge, LooksAgainAtFramesInWhichManyValuesJumpAtOnce) {
  // As where two boxes of nearly one score change places: in few frames, but with all their values.
  const auto frames = some_frames(10);
  const auto moved = [](const Tensor& x) {
    return floats([&](auto i) { return x.as<float>()[i < 300 ? 299 - i : i]; });
  };
  const auto with_tie_at = [&](float score) {
    return [=](const Tensor& x) { return x.as<float>()[0] == score ? moved(x) : x; };
  };
  const float tie = frames[7][0].as<float>()[0];
  const auto sorted = [=](const Tensor& x) {
    return x.as<float>()[0] > tie && x.as<float>()[0] < tie + 1e-5F ? moved(x) : x;
  };
  Computed reference(sorted);
  auto judge = Judge::create({{"y"}, {}, std::span(frames).first(4)}, reference);
  ASSERT_TRUE(judge) << judge.error().message();
  EXPECT_EQ(judge->allowances().front().own_rate, 0);
  const auto verdict_of = [&](const Network& actual) {
    Trial trial(*judge);
    for (std::size_t f = 0; f < frames.size(); ++f) {
      const auto value = actual(frames[f][0]);
      const Tensor* const values[] = {&value};
      trial.add(f, frames[f], values, *reference.run(frames[f]));
    }
    EXPECT_EQ(trial.verdict().finding(), Finding::kWrong);
    trial.look_again(reference, {});
    return trial.verdict();
  };
  const auto at_the_tie = verdict_of(with_tie_at(tie));
  EXPECT_EQ(at_the_tie.finding(), Finding::kInconclusive);
  EXPECT_THAT(at_the_tie.outputs.front().reason, HasSubstr("frame 7: output 'y': 300 of 1000"));
  const float no_tie = frames[6][0].as<float>()[0];
  EXPECT_EQ(verdict_of(with_tie_at(no_tie)).finding(), Finding::kWrong);
  const auto larger = elementwise([](double x) { return 1.01 * x; });
  EXPECT_EQ(verdict_of(larger).finding(), Finding::kWrong);
}

TEST(Judge, MeasuresNothingMoreOnceStopped) {
  std::size_t runs = 0;
  Computed reference([&](const Tensor& x) {
    ++runs;
    return x;
  });
  const auto frames = some_frames();
  Judge::Setting setting{{"y"}, {}, frames};
  setting.stopped = [&] { return runs >= frames.size() + 2; };
  const auto judge = Judge::create(setting, reference);
  ASSERT_TRUE(judge) << judge.error().message();
  EXPECT_EQ(runs, frames.size() + 2);
}

/// Never ends on frames for which `ends` does not hold: then its limit ends it, or the test fails.
class MayNotEnd final : public Reference {
 public:
  using Ends = std::function<bool(const frames::Frame&)>;
  explicit MayNotEnd(Ends ends) : ends_(std::move(ends)) {}
  Result<std::vector<Tensor>> run(const frames::Frame& inputs) override {
    if (ends_(inputs)) return std::vector<Tensor>{inputs[0]};
    EXPECT_TRUE(limit_) << "nothing ends this run";
    ++ended_;
    return make_error(Code::kCancelled, "ended");
  }
  void limit_runs(Limit limit) override { limit_ = limit; }
  [[nodiscard]] std::size_t ended() const { return ended_; }

 private:
  Ends ends_;
  Limit limit_;
  std::size_t ended_ = 0;
};

TEST(Judge, RefusesAFrameThatDoesNotEnd) {
  const auto frames = some_frames();
  MayNotEnd reference([](const auto&) { return false; });
  Judge::Setting setting{{"y"}, {}, frames};
  setting.longest_run = std::chrono::seconds(90);
  const auto judge = Judge::create(setting, reference);
  ASSERT_FALSE(judge);
  EXPECT_TRUE(is_endless_run(judge.error()));
  EXPECT_THAT(judge.error().message(), HasSubstr("a frame did not end within 90 s"));
  EXPECT_EQ(reference.ended(), 1U);
}

TEST(Judge, GivesUpChangedFramesThatDoNotEndInBothLooks) {
  const auto frames = some_frames();
  const auto is_given = [&](const frames::Frame& frame) {
    return std::ranges::any_of(frames, [&](const auto& one) { return same_values(one, frame); });
  };
  MayNotEnd reference(is_given);
  const auto make_other = [&]() -> Result<std::unique_ptr<Reference>> {
    return std::unique_ptr<Reference>(
        std::make_unique<MayNotEnd>([](const auto&) { return false; }));
  };
  Judge::Setting setting{{"y"}, {}, frames};
  setting.others = {make_other};
  const auto judge = Judge::create(setting, reference);
  ASSERT_TRUE(judge) << judge.error().message();
  Trial trial(*judge);
  for (std::size_t f = 0; f < frames.size(); ++f) {
    const auto wrong = floats([](auto) { return 9; });
    const Tensor* const values[] = {&wrong};
    trial.add(f, frames[f], values, judge->expected()[f]);
  }
  const auto before = reference.ended();
  trial.look_again(reference, setting.others);
  EXPECT_EQ(reference.ended(), before + 1) << "the second look asks no more";
  EXPECT_EQ(trial.verdict().finding(), Finding::kWrong);
}

TEST(Judge, RefusesAnotherShapeOrType) {
  const auto frames = some_frames();
  const auto network = elementwise([](double x) { return x; });
  const auto judge = judge_of(network, frames);
  const auto narrow = [](const Tensor&) { return Tensor::allocate(DType::kF32, {1, 2}); };
  EXPECT_EQ(verdict_on(judge, frames, narrow).finding, Finding::kWrong);
  EXPECT_EQ(verdict_on(judge, frames, hundredths(0)).finding, Finding::kWrong);
}

TEST(Judge, TakesNanForNanOnly) {
  const auto some_nan = elementwise([](double x) { return x > 1.9 ? std::nan("") : x; });
  const auto frames = some_frames();
  const auto judge = judge_of(some_nan, frames);
  EXPECT_EQ(verdict_on(judge, frames, some_nan).finding, Finding::kRight);
  const auto no_nan = elementwise([](double x) { return x; });
  EXPECT_EQ(verdict_on(judge, frames, no_nan).finding, Finding::kWrong);
}

TEST(Variants, TheFramesThatSayTheMostDifferAndAreNotSilent) {
  const frames::Frame silent{floats([](auto) { return 0; })};
  auto frames = some_frames(3);
  frames.insert(frames.begin(), 5, silent);
  frames.push_back(frames.back());  // 0 to 4 are silent, 7 and 8 the same.
  EXPECT_THAT(telling_frames(frames, 3, false),
              testing::UnorderedElementsAre(5, 6, testing::AnyOf(7, 8)));
  EXPECT_THAT(telling_frames(frames, 2, true), testing::ElementsAre(5, 6));
  EXPECT_THAT(telling_frames(frames, 6, true), testing::ElementsAre(3, 4, 5, 6, 7, 8));
  const std::vector<frames::Frame> silence(3, silent);
  EXPECT_THAT(telling_frames(silence, 2, false), testing::SizeIs(2));
  EXPECT_THAT(telling_frames(silence, 9, true), testing::ElementsAre(0, 1, 2));
  EXPECT_TRUE(telling_frames({}, 4, false).empty());
  EXPECT_TRUE(telling_frames({}, 4, true).empty());
}

TEST(Variants, TheFramesThatSayTheMostComeFirstAndNoneIsLost) {
  const frames::Frame silent{floats([](auto) { return 0; })};
  auto frames = some_frames(2);
  frames.insert(frames.begin(), 5, silent);
  for (const bool sequence : {false, true}) {
    const auto ordered = with_telling_first(frames, 2, sequence);
    ASSERT_EQ(ordered.size(), 7U);
    EXPECT_TRUE(same_values(ordered[0], frames[5]) || same_values(ordered[0], frames[6]));
    EXPECT_FALSE(same_values(ordered[1], silent));
    EXPECT_TRUE(same_values(ordered[2], silent) && same_values(ordered[6], silent));
  }
}

TEST(Variants, ChangeSeveralLastBitsWithoutASign) {
  constexpr float kSmallest = std::numeric_limits<float>::denorm_min();
  const auto x = floats([](auto i) { return i % 2 == 0 ? -1.0 : 2.0 * kSmallest; });
  const auto changed = with_last_bits_changed({x}, 1, {.units = 8})[0];
  for (std::size_t i = 0; i < x.count(); ++i) {
    const float is = changed.as<float>()[i];
    if (i % 2 == 0) {
      EXPECT_THAT(is, testing::AnyOf(-1 - 0x1p-20F, -1 + 0x1p-21F));
    } else {
      EXPECT_THAT(is, testing::AnyOf(2 * kSmallest, 10 * kSmallest));
    }
  }
}

TEST(Variants, ChangeLastBitsOfWideFloatsAlone) {
  const auto x = floats([](auto i) { return 1.0 + static_cast<double>(i); });
  const auto half = tensor<std::uint16_t>(DType::kF16, [](auto) {
    return static_cast<std::uint16_t>(bits_from_number(DType::kF16, 3));
  });
  const auto changed = with_last_bits_changed({half, x}, 1, {.wide = true});
  EXPECT_TRUE(same_values({changed[0]}, {half}));
  EXPECT_TRUE(same_values({changed[1]}, with_last_bits_changed({x}, 1)));
  EXPECT_FALSE(same_values({with_last_bits_changed({half, x}, 1)[0]}, {half}));
}

TEST(Variants, ChangeLastBitsAndNoZero) {
  auto x = floats([](auto i) { return static_cast<double>(i) - 500; });
  x.as<float>()[0] = std::numeric_limits<float>::infinity();
  const auto changed = with_last_bits_changed({x}, 1)[0];
  std::size_t larger = 0;
  for (std::size_t i = 0; i < x.count(); ++i) {
    const float was = x.as<float>()[i], is = changed.as<float>()[i];
    if (i == 0 || i == 500) {
      EXPECT_EQ(is, was);
    } else {
      EXPECT_THAT(is, testing::AnyOf(std::nextafter(was, 1e9F), std::nextafter(was, -1e9F)));
      larger += std::fabs(is) > std::fabs(was) ? 1 : 0;
    }
  }
  EXPECT_NEAR(static_cast<double>(larger), 499, 80);
}

}  // namespace
}  // namespace penstock::measure
