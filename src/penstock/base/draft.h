// Draft: a file that is written beside its name, and has it once it is whole.
#pragma once

#include <filesystem>
#include <fstream>

namespace penstock {

/// Until commit() whoever opens the name finds what was there before, and that stays where nothing
/// is committed. Devices, pipes and links are written in place, and so is a file beside which none
/// can be made; of a file in place nothing stays that was not committed.
class Draft {
 public:
  /// Begins "NAME.part". Where it cannot be opened `!out()`, with the reason in errno.
  explicit Draft(std::filesystem::path name);
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;
  ~Draft();

  std::ofstream& out() { return out_; }
  /// \returns whether all was written, and has its name. Where not, the reason is in errno.
  bool commit();

 private:
  void give_up();

  std::filesystem::path name_;
  std::filesystem::path part_;  // What is written: name_ itself, in place.
  std::ofstream out_;
  bool begun_ = false;  // And neither committed nor given up.
};

}  // namespace penstock
