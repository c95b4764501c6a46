#include "callback.h"

#include <array>
#include <cstdio>
#include <exception>
#include <utility>

#include "gil.h"
#include "held.h"
#include "to_object.h"

namespace penstock::python {
namespace {

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): each thread's own
thread_local const OutputTypes* t_called_back =
    nullptr;  // Of the pipeline in whose callback it is.

/// The thread is in a callback while this lasts.
class CallingBack {
 public:
  explicit CallingBack(const OutputTypes* of) : before_(std::exchange(t_called_back, of)) {}
  ~CallingBack() { t_called_back = before_; }
  CallingBack(const CallingBack&) = delete;
  CallingBack& operator=(const CallingBack&) = delete;

 private:
  const OutputTypes* const before_;
};

}  // namespace

Callback::Callback(nb::object done, nb::object tag, std::shared_ptr<OutputTypes> outputs,
                   std::shared_ptr<std::uint64_t> uncalled, std::uint64_t generation)
    : done_(std::move(done)),
      tag_(std::move(tag)),
      outputs_(std::move(outputs)),
      uncalled_(std::move(uncalled)),
      generation_(generation) {
  ++*uncalled_;
}

void Callback::call(pipeline::Output output) {
  const WithGil gil;
  release_dropped();
  const nb::object done = std::move(done_);
  const auto number = output.number();
  leave();
  const CallingBack calling_back(outputs_.get());
  try {
    call(done, std::move(output));
  } catch (const std::exception&) {
    std::array<char, 80> where{};
    std::snprintf(where.data(), where.size(), "the callback of frame %llu of a penstock.Pipeline",
                  static_cast<unsigned long long>(number));
    discard_exception(where.data());
  }
  release_dropped();
}

void Callback::call(const nb::object& done, pipeline::Output output) {
  auto made = std::make_unique<Frame>(std::move(output), outputs_, std::move(tag_), generation_);
  const std::shared_ptr<Lease> lease = made->lease();
  {
    const nb::object frame = to_object(std::move(made));
    const nb::object returned = nb::steal(
        or_sleep([&] { return PyObject_CallFunctionObjArgs(done.ptr(), frame.ptr(), nullptr); }));
    if (!returned.is_valid()) {
      if (lease) lease->detach();  // The exception may hold the frame.
      throw nb::python_error();
    }
  }
  // Who kept the frame keeps its memory; the pipeline's next frames get other.
  if (lease && lease.use_count() > 1) lease->detach();
}

// From now on the frame has come out.
void Callback::leave() {
  if (uncalled_) --*std::exchange(uncalled_, nullptr);
}

bool Callback::runs_here(const OutputTypes* outputs) {
  return t_called_back == outputs;
}

}  // namespace penstock::python
