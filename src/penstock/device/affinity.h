// Which CPUs threads may run on: setting it, reading it back.
#pragma once

#include <string>
#include <vector>

#include "penstock/base/result.h"

namespace penstock::device {

/// Restricts the calling thread. \error kPermissionDenied, kInvalidArgument
Status pin_this_thread(const std::vector<int>& cpus);

/// From now on the calling thread, and those that it creates, run only where nobody else wants to.
/// It may not be taken back. \error kPermissionDenied  the system does not let it
Status take_what_is_idle();

/// CPUs the thread may run on, ascending; empty if it has ended.
std::vector<int> cpus_of_thread(int tid);
int this_thread_id();

/// What the calling thread computed so far, in seconds of CPU time: what others took is not in it.
double computed_seconds();

/// Names the calling thread (15 characters at most); threads that it creates inherit the name.
void name_this_thread(const std::string& name);

/// The thread's name; empty if it has ended.
std::string name_of_thread(int tid);

/// Threads of this process that were made after its thread `tid`, oldest first; all of them if that
/// one has ended. The older ones are not read, so that a process of many threads can ask for each.
std::vector<int> threads_after(int tid);

/// Whether subnormal floats are taken as zero on the calling thread. Where the processor has no
/// such mode, set does nothing and get says false.
void set_flush_denormals(bool on);
bool flush_denormals();

}  // namespace penstock::device
