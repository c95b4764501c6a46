// The system refuses every thread, for root too.
#pragma once

#include <cstddef>

#include <pthread.h>

namespace penstock {

/// While it lives no thread can be made: none has room for its stack.
class NoMoreThreads {
 public:
  NoMoreThreads() {
    constexpr std::size_t kMoreThanThereIs = std::size_t{1} << 60U;  // Of any address space.
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    pthread_getattr_default_np(&huge);
    pthread_attr_setstacksize(&huge, kMoreThanThereIs);
    pthread_setattr_default_np(&huge);
    pthread_attr_destroy(&huge);
  }
  NoMoreThreads(const NoMoreThreads&) = delete;
  NoMoreThreads& operator=(const NoMoreThreads&) = delete;
  ~NoMoreThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }

 private:
  pthread_attr_t before_;
};

}  // namespace penstock
