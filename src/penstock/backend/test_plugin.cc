// The plugins of registry_test: one good, the others each wrong in one way (see CMakeLists.txt).
#include "penstock/backend/backend.h"

namespace {

using namespace penstock;  // NOLINT(google-build-using-namespace): a test

class Nothing final : public backend::Backend {
 public:
  [[nodiscard]] backend::Description describe() const override {
    backend::Description description;
    description.name = "nothing";
    return description;
  }
  [[nodiscard]] std::string rules() const override { return {}; }
  Result<std::unique_ptr<backend::Executable>> compile(const backend::CompileRequest&) override {
    return make_error(Code::kUnimplemented, "backend 'nothing' compiles nothing");
  }
};

}  // namespace

#if defined(TEST_PLUGIN_GOOD)
PENSTOCK_PLUGIN("nothing", Nothing)
#elif defined(TEST_PLUGIN_ABI) || defined(TEST_PLUGIN_BUILD)
#ifdef TEST_PLUGIN_ABI
constexpr int kVersion = 999;
constexpr const char* kBuiltAs = nullptr;
#else
constexpr int kVersion = backend::kAbiVersion;
constexpr const char* kBuiltAs = "another compiler";
#endif
extern "C" __attribute__((visibility("default"))) const backend::PluginEntry* penstock_plugin() {
  static const backend::PluginEntry kEntry{kVersion, kBuiltAs, "nothing",
                                           []() -> backend::Backend* { return new Nothing(); }};
  return &kEntry;
}
#endif
