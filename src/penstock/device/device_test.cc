// Forms of names that are read, those that are refused, and checks against the cpuset.
#include "penstock/device/device.h"

#include <thread>

#include <gtest/gtest.h>
#include <sched.h>

namespace penstock::device {
namespace {

std::string forms() {
  return "; write cpu:0, cpu:0-3, cpu:0+2, cuda:0, host:port/cpu:0 or oip://host:port";
}

std::string message_of(std::string_view text) {
  const auto device = parse_device(text);
  EXPECT_FALSE(device) << text;
  if (device) return to_string(*device);
  EXPECT_EQ(device.error().code, Code::kInvalidArgument);
  return device.error().message();
}

TEST(ParseDeviceTest, ReadsOneCpuRangesAndSums) {
  EXPECT_EQ(parse_device("cpu:3")->cpus, (std::vector{3}));
  EXPECT_EQ(parse_device("cpu:0-3")->cpus, (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(parse_device("cpu:4+0-1")->cpus, (std::vector{0, 1, 4}));
}

TEST(ParseDeviceTest, CountsACpuNamedTwiceOnce) {
  EXPECT_EQ(parse_device("cpu:0-2+1")->cpus, (std::vector{0, 1, 2}));
}

TEST(ParseDeviceTest, ReadsCudaAndRemoteDevices) {
  EXPECT_EQ(parse_device("cuda:1")->kind, Device::Kind::kCuda);
  EXPECT_EQ(parse_device("cuda:1")->index, 1);
  EXPECT_EQ(parse_device("worker.example:8001/cpu:0")->host, "worker.example:8001");
  EXPECT_EQ(parse_device("[::1]:8001/cuda:0")->host, "[::1]:8001");
}

TEST(DeviceTest, OnlyCpusWithoutAHostAreOfThisMachine) {
  EXPECT_TRUE(parse_device("cpu:0-3")->is_local_cpu());
  for (const char* text : {"cuda:0", "a:1/cpu:0", "a:1/cuda:0"}) {
    EXPECT_FALSE(parse_device(text)->is_local_cpu()) << text;
  }
}

TEST(ParseDeviceTest, PrintsWhatItReadInOneForm) {
  for (const char* text : {"cpu:0", "cpu:0-2+5", "cpu:0+2", "cuda:7", "a:1/cpu:0-3",
                           "oip://[::1]:8001", "oip://unix:/run/s.sock"}) {
    EXPECT_EQ(to_string(*parse_device(text)), text);
  }
  EXPECT_EQ(to_string(*parse_device("cpu:5+1+0+2")), "cpu:0-2+5");
}

TEST(ParseDeviceTest, ReadsAndPrintsManyCpus) {
  for (const char* text :
       {"cpu:0-255", "cpu:0-63+128-191", "cpu:64", "cpu:1000-2047", "cpu:65535"}) {
    EXPECT_EQ(to_string(*parse_device(text)), text);
  }
  const auto all = parse_device("cpu:0-255")->cpus;
  EXPECT_EQ(all.size(), 256U);
  EXPECT_EQ(all.back(), 255);
}

TEST(ParseDevicesTest, KeepsManyDevicesApart) {
  std::string text;
  for (int cpu = 0; cpu < 256; cpu += 4) {
    text += concat(cpu == 0 ? "" : ",", "cpu:", cpu, "-", cpu + 3);
  }
  auto devices = parse_devices(text);
  ASSERT_TRUE(devices);
  EXPECT_EQ(devices->size(), 64U);
  EXPECT_TRUE(check_disjoint(*devices));
  devices->push_back(*parse_device("cpu:255-256"));
  EXPECT_EQ(check_disjoint(*devices).error().message(),
            "device 'cpu:255-256': CPU 255 is in another device too; each may be in one");
}

TEST(ParseDeviceTest, SaysWhatItDoesNotUnderstand) {
  EXPECT_EQ(message_of("gpu:0"), "device 'gpu:0': unknown kind" + forms());
  EXPECT_EQ(message_of(""), "device '': unknown kind" + forms());
  EXPECT_EQ(message_of("cpu"), "device 'cpu': unknown kind" + forms());
  EXPECT_EQ(message_of("cpu:"),
            "device 'cpu:': expected a CPU number below 65536 or a range, found ''" + forms());
  EXPECT_EQ(message_of("cpu:a"),
            "device 'cpu:a': expected a CPU number below 65536 or a range, found 'a'" + forms());
  EXPECT_EQ(message_of("cpu:3-1"), "device 'cpu:3-1': range '3-1' ends before it begins" + forms());
  EXPECT_EQ(message_of("cuda:x"), "device 'cuda:x': expected a number, found 'x'" + forms());
  EXPECT_EQ(message_of("nohost/cpu:0"),
            "device 'nohost/cpu:0': expected host:port, found 'nohost'" + forms());
}

TEST(ParseDeviceTest, RefusesGarbageAndHugeNumbers) {
  for (const char* text : {"cpu:-1",
                           "cpu:0-",
                           "cpu:-",
                           "cpu:0+",
                           "cpu:+0",
                           "cpu:1.5",
                           "cpu: 1",
                           "cpu:0x1",
                           "cpu:99999999999999999999",
                           "cpu:0-4000000000",
                           "cpu:65536",
                           "cuda:",
                           "cuda:-1",
                           ":1/cpu:0",
                           "oip://",
                           "oip://a",
                           "oip://a:1/b",
                           "a:99999/cpu:0",
                           "a:1/",
                           "/cpu:0"}) {
    message_of(text);
  }
}

TEST(ParseDevicesTest, ReadsAList) {
  const auto devices = parse_devices("cpu:0-1,cpu:2+4");
  ASSERT_TRUE(devices);
  ASSERT_EQ(devices->size(), 2U);
  EXPECT_EQ((*devices)[1].cpus, (std::vector{2, 4}));
}

TEST(ParseDevicesTest, RefusesAnEmptyEntry) {
  const auto devices = parse_devices("cpu:0,,cpu:1");
  ASSERT_FALSE(devices);
  EXPECT_EQ(devices.error().message(),
            "device list 'cpu:0,,cpu:1': an entry is empty; write cpu:0,cpu:1 or all");
}

TEST(ParseDevicesTest, AllIsOneDevicePerInheritedCpu) {
  const auto devices = parse_devices("all");
  ASSERT_TRUE(devices);
  std::vector<int> cpus;
  for (const auto& device : *devices)
    cpus.insert(cpus.end(), device.cpus.begin(), device.cpus.end());
  EXPECT_EQ(cpus, inherited_cpus());
}

TEST(InheritedCpusTest, FollowsTheAffinityOfTheCallingThread) {
  std::thread([] {
    const int last = inherited_cpus().back();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(last, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(inherited_cpus(), (std::vector{last}));
  }).join();
}

TEST(CheckAvailableTest, AcceptsTheInheritedCpusAndWhatIsNotHere) {
  EXPECT_TRUE(check_available({{}, Device::Kind::kCpu, inherited_cpus(), 0}));
  EXPECT_TRUE(check_available(*parse_device("cuda:9")));
  EXPECT_TRUE(check_available(*parse_device("a:1/cpu:60000")));
}

TEST(CheckAvailableTest, NamesTheMissingCpusAndThoseThereAre) {
  std::thread([] {
    const int only = inherited_cpus().front();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(only, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    const auto status = check_available(*parse_device("cpu:60000-60001"));
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::kNotFound);
    EXPECT_EQ(status.error().message(),
              concat("device 'cpu:60000-60001': CPU 60000-60001 are not among those this process "
                     "may use: ",
                     only, "; 'penstock devices' lists them"));
  }).join();
}

}  // namespace
}  // namespace penstock::device
