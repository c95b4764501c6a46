// Chains on a fake device with memory of its own: its lanes, what is brought there and back.
#include "penstock/probe/chain.h"

#include <atomic>
#include <stdexcept>

#include <gtest/gtest.h>

#include "penstock/probe/link.h"
#include "tests/support/fake_accelerator.h"

namespace penstock::probe {
namespace {

class ChainTest : public ::testing::Test {
 protected:
  void SetUp() override {
    network_.input("x").stage("heavy", {"x"}, {"y"}, testing::unary([this](float x) {
                                seen_ = x;
                                return 2 * x + 1;
                              }));
    accelerator_->contexts = 3;
    accelerator_->take(network_, "heavy");
    network_.registry.add(accelerator_);
    job_.models.push_back({.name = "heavy", .file = "heavy.onnx", .backend = "accelerator"});
    job_.device = "cuda:0";
  }
  std::unique_ptr<Chain> compile() {
    auto chain = Chain::compile(network_.registry, job_, device::inherited_cpus());
    if (!chain) throw std::runtime_error(chain.error().message());
    return *std::move(chain);
  }

  std::atomic<float> seen_ = 0;  ///< What the model read last.
  std::shared_ptr<testing::FakeAccelerator> accelerator_ =
      std::make_shared<testing::FakeAccelerator>();
  testing::FakeNetwork network_;
  cost::Job job_;
};

TEST_F(ChainTest, EachLaneHasAFrameInProgress) {
  const auto chain = compile();
  EXPECT_EQ(chain->lanes(), 3U);
  ASSERT_TRUE(chain->bind(0));
  accelerator_->hold(0, true);
  ASSERT_TRUE(chain->run_all_lanes());
  accelerator_->wait_for(0, 3);
  accelerator_->hold(0, false);
  ASSERT_TRUE(chain->run_all_lanes());
  ASSERT_TRUE(chain->run());  // Waits for all of them.
  EXPECT_EQ(accelerator_->ended(0).size(), 1U + 3 + 3 + 1);
}

TEST_F(ChainTest, AnEngineThatComputesOnTheCallersThreadHasOneLane) {
  accelerator_->asynchronous = false;
  EXPECT_EQ(compile()->lanes(), 1U);
}

TEST_F(ChainTest, InputsAreBroughtThereAndOutputsBack) {
  const auto chain = compile();
  ASSERT_TRUE(chain->use_seed(7));
  ASSERT_TRUE(chain->run());
  const auto outputs = chain->outputs();
  ASSERT_TRUE(outputs) << outputs.error().message();
  ASSERT_TRUE(outputs->front().second.in_host_memory());
  EXPECT_EQ(outputs->front().first, "y");
  EXPECT_EQ(testing::value_of(outputs->front().second), 2 * seen_ + 1);
  EXPECT_NE(seen_, 0);
  EXPECT_EQ(accelerator_->memory_of(0).from_host, 1);
  EXPECT_EQ(accelerator_->memory_of(0).to_host, 1);
}

TEST_F(ChainTest, ARunThatFailsThereIsTheChainsError) {
  const auto chain = compile();
  ASSERT_TRUE(chain->bind(0));
  accelerator_->lose(0);
  const auto run = chain->run_all_lanes();
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().code, Code::kUnavailable);
}

TEST_F(ChainTest, CopiesAreTimedInTheDirectionThatIsAskedFor) {
  auto& memory = accelerator_->memory_of(0);
  const auto there = time_copies(memory, false);
  ASSERT_TRUE(there) << there.error().message();
  EXPECT_GT(there->latency_seconds, 0);
  EXPECT_GT(there->bytes_per_second, 0);
  EXPECT_EQ(memory.to_host, 0);
  ASSERT_TRUE(time_copies(memory, true));
  EXPECT_GT(memory.to_host, 0);
  accelerator_->lose(0);
  EXPECT_EQ(time_copies(memory, true).error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace penstock::probe
