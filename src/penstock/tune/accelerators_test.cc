// Which accelerators a build finds, by fake backends that have some, none, or name them alike.
#include "penstock/tune/accelerators.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fake_accelerator.h"

namespace penstock::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Has "cuda:0" and "cuda:1".
class Named : public testing::FakeAccelerator {
 public:
  explicit Named(std::string name) : name_(std::move(name)) {}
  std::vector<std::string> names{"fast 1", "fast 1"};  ///< Of its devices.
  std::string unavailable;

  [[nodiscard]] backend::Description describe() const override {
    return {name_, "1", "", unavailable, true};
  }
  [[nodiscard]] std::string device_name(const device::Device& device) const override {
    return names.at(static_cast<std::size_t>(device.index));
  }

 private:
  std::string name_;
};

class FindAcceleratorsTest : public ::testing::Test {
 protected:
  std::shared_ptr<Named> add(const std::string& name) {
    auto backend = std::make_shared<Named>(name);
    backends_.add(backend);
    return backend;
  }
  Result<std::vector<Accelerators>> find(const std::string& devices) {
    return find_accelerators(*device::parse_devices(devices), options_, backends_, notes_);
  }
  std::string refusal(const std::string& devices) {
    const auto found = find(devices);
    return found ? "" : found.error().message();
  }

  Options options_;
  backend::Registry backends_;
  std::vector<std::string> notes_;
};

TEST_F(FindAcceleratorsTest, PutsThoseThatAreAlikeTogether) {
  const auto backend = add("gpu");
  const auto alike = find("cuda:0,cuda:1");
  ASSERT_TRUE(alike) << alike.error().message();
  ASSERT_EQ(alike->size(), 1U);
  EXPECT_EQ(alike->front().devices.size(), 2U);
  EXPECT_EQ(alike->front().name, "fast 1");
  EXPECT_EQ(text_of(*alike), "cuda:0 fast 1 by gpu,cuda:1 fast 1 by gpu,");
  backend->names = {"fast 1", "slow 2"};
  EXPECT_EQ(find("cuda:0,cuda:1")->size(), 2U);
  backend->names = {"", ""};
  EXPECT_EQ(find("cuda:0,cuda:1")->size(), 2U) << "nobody says that they are alike";
}

TEST_F(FindAcceleratorsTest, RefusesADeviceThatNoBackendRuns) {
  EXPECT_THAT(refusal("cuda:0"), HasSubstr("device 'cuda:0': no backend that may be chosen"));
  const auto backend = add("gpu");
  backend->unavailable = "no such library";
  EXPECT_THAT(refusal("cuda:0"), HasSubstr("gpu: no such library"));
  backend->unavailable.clear();
  add("other");
  options_.backends = {"other"};
  const auto found = find("cuda:0");
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_THAT(found->front().ways, ElementsAre(Way{"other", {}}));
}

TEST_F(FindAcceleratorsTest, RefusesADeviceThatIsNotThere) {
  add("gpu")->lose(1);
  EXPECT_TRUE(find("cuda:0"));
  const auto message = refusal("cuda:0,cuda:1");
  EXPECT_THAT(message, HasSubstr("device 'cuda:1' is not there"));
  EXPECT_THAT(message, HasSubstr("gpu: device 'cuda:1' was lost"));
}

TEST_F(FindAcceleratorsTest, LeavesOutABackendThatHasNoneOfIt) {
  add("gpu");
  add("other")->lose(0);
  const auto found = find("cuda:0");
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_THAT(found->front().ways, ElementsAre(Way{"gpu", {}}));
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("left out on 'cuda:0'; other: ")));
}

}  // namespace
}  // namespace penstock::tune
