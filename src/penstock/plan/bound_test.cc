// Bound inputs of a small plan: as JSON, with wrong fields, and against tensors that are sent.
#include "penstock/plan/bound.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/plan/plan_json.h"
#include "penstock/plan/test_plans.h"
#include "penstock/tensor/npy.h"
#include "tests/support/temporary_folder.h"

namespace penstock::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Type list_of(std::int64_t size) {
  return Type::tensor(DType::kI64, std::vector<Dim>{Dim{.size = size}});
}

Plan plan_with(BoundInput input) {
  Plan plan = chain();
  plan.bound_inputs.push_back(std::move(input));
  return plan;
}

Tensor ids(std::vector<std::int64_t> values) {
  Tensor tensor = Tensor::allocate(DType::kI64, {static_cast<std::int64_t>(values.size())});
  std::ranges::copy(values, tensor.as<std::int64_t>().begin());
  return tensor;
}

TEST(BoundInputsOfPlans, AreWrittenAndReadAgain) {
  const Plan plan = plan_with({"ids", list_of(2), "[1, 2]", ""});
  const auto text = to_json(plan);
  const auto again = from_json(text);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(again->bound_inputs, plan.bound_inputs);
  EXPECT_EQ(to_json(*again), text);
  EXPECT_EQ(to_json(chain()).find("bound_inputs"), std::string::npos);
}

TEST(BoundInputsOfPlans, AreChecked) {
  const auto said = [](const BoundInput& input) {
    return join(violations(plan_with(input)), "; ");
  };
  EXPECT_EQ(said({"ids", list_of(2), "[1, 2]", ""}), "");
  EXPECT_THAT(said({"x", list_of(2), "[1, 2]", ""}), HasSubstr("is listed among the inputs"));
  EXPECT_THAT(said({"ids", list_of(2), "", ""}), HasSubstr("'value' or 'file', found neither"));
  EXPECT_THAT(said({"ids", list_of(2), "1", "bound/0.npy"}), HasSubstr("found both"));
  EXPECT_THAT(said({"ids", list_of(Dim::kOpen), "1", ""}), HasSubstr("of fixed shape"));
  EXPECT_THAT(said({"ids", list_of(2), "", "../0.npy"}), HasSubstr("bound input 'ids': file"));
  EXPECT_THAT(said({"ids", list_of(std::int64_t{1} << 50), "1", ""}), HasSubstr("expected a file"));
}

TEST(BoundInputsOfPlans, ServeWhoSendsTheValueOnly) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_npy(ids({3, 4, 5}), folder.path() / "0.npy"));
  Plan plan = plan_with({"ids", list_of(2), "[1, 2]", ""});
  plan.bound_inputs.push_back({"more", list_of(3), "", "0.npy"});
  const auto bound = read_bound_values(plan, folder.path());
  ASSERT_TRUE(bound) << bound.error().message();
  EXPECT_TRUE(check_bound(*bound, "ids", ids({1, 2})));
  EXPECT_TRUE(check_bound(*bound, "more", ids({3, 4, 5})));
  const auto message = [&](const std::string& name, const Tensor& sent) {
    return check_bound(*bound, name, sent).error().message();
  };
  EXPECT_EQ(message("ids", ids({1, 3})),
            "input 'ids': bound when the model was split: expected [1, 2], found [1, 3]; leave it "
            "out, or split the model again without binding it");
  EXPECT_THAT(message("ids", ids({1})), HasSubstr("expected i64[2], found i64[1]"));
  EXPECT_THAT(message("ids", Tensor::allocate(DType::kF32, {2})), HasSubstr("found f32[2]"));
}

TEST(BoundInputsOfPlans, NameAValueThatIsNone) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_npy(ids({3}), folder.path() / "0.npy"));
  const auto text = read_bound_values(plan_with({"ids", list_of(2), "[1]", ""}), folder.path());
  ASSERT_FALSE(text);
  EXPECT_THAT(text.error().message(), HasSubstr("input 'ids': expected i64[2], found 1 value"));
  const auto file = read_bound_values(plan_with({"ids", list_of(2), "", "0.npy"}), folder.path());
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().message(), HasSubstr("input 'ids': expected i64[2], found i64[1]"));
}

}  // namespace
}  // namespace penstock::plan
