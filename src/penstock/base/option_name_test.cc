// Each option's name in the words of the program and in those of Python.
#include "penstock/base/option_name.h"

#include <set>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "penstock/base/error.h"

namespace penstock {
namespace {

/// Speaks a language to the end of a test.
class Speaks {
 public:
  explicit Speaks(Language spoken) : before_(language()) { set_language(spoken); }
  ~Speaks() { set_language(before_); }
  Speaks(const Speaks&) = delete;
  Speaks& operator=(const Speaks&) = delete;

 private:
  Language before_;
};

Error message() {
  return invalid_argument("'--constant constants': fix it (", OptionName::kConstants,
                          "), or allow ", OptionName::kAllowNativeCode);
}

TEST(OptionNameTest, TheProgramsWordsUntilAnotherLanguageIsSet) {
  EXPECT_EQ(language(), Language::kProgram);
  EXPECT_EQ(message().message(),
            "'--constant constants': fix it (--constant), or allow --allow-native-code");
  EXPECT_EQ(example_of_constant("rate"), "--constant rate=VALUE");
  EXPECT_EQ(example_of_backend_option("fake", "KEY"), "--backend-option fake:KEY=...");
  EXPECT_EQ(in_words_of_caller("a", "b"), "a");
}

TEST(OptionNameTest, PythonsWordsAndTheUsersOwnAsTheyAre) {
  const Speaks python(Language::kPython);
  EXPECT_EQ(message().message(),
            "'--constant constants': fix it (constants), or allow allow_native_code=True");
  EXPECT_EQ(example_of_constant("rate"), "constants={'rate': VALUE}");
  EXPECT_EQ(example_of_backend_option("fake", "KEY"), "backend_options={'fake': {'KEY': ...}}");
  EXPECT_EQ(in_words_of_caller("a", "b"), "b");
}

TEST(OptionNameTest, EachOptionHasNamesOfItsOwn) {
  std::set<std::string_view> of_program;
  for (std::size_t i = 0; i < kOptionNames; ++i) {
    const auto option = static_cast<OptionName>(i);
    EXPECT_TRUE(of_program.insert(name_of(option)).second) << name_of(option);
    const Speaks python(Language::kPython);
    EXPECT_FALSE(name_of(option).empty());
    EXPECT_EQ(name_of(option).find("--"), std::string_view::npos) << name_of(option);
  }
}

}  // namespace
}  // namespace penstock
