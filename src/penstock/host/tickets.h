// Tickets: tensors that stay where they were computed, until whoever reads them next pulls them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/tensor/tensor.h"

namespace penstock::host {

/// Names a session for as long as the process lives.
using Owner = std::uint64_t;

/// A ticket is a secret of kSecretBytes: who knows it may pull the tensor.
/// \threads  all functions may be called from any thread.
class Tickets {
 public:
  explicit Tickets(std::uint64_t most_bytes) : most_bytes_(most_bytes) {}
  Tickets(const Tickets&) = delete;
  Tickets& operator=(const Tickets&) = delete;

  /// Keeps the tensor for so many pulls, or until it is released. \pre  pulls > 0
  /// \error kResourceExhausted  the tensors that are kept take so many bytes.
  Result<std::string> keep(Owner owner, Tensor tensor, unsigned pulls);

  /// One pull. It counts once finish() is called; else the ticket is as it was before.
  class Pull {
   public:
    Pull(Pull&& other) noexcept
        : tickets_(std::exchange(other.tickets_, nullptr)),
          id_(std::move(other.id_)),
          tensor_(std::move(other.tensor_)) {}
    Pull(const Pull&) = delete;
    Pull& operator=(const Pull&) = delete;
    Pull& operator=(Pull&&) = delete;
    ~Pull() { end(false); }
    [[nodiscard]] const Tensor& tensor() const { return tensor_; }
    void finish() { end(true); }

   private:
    friend class Tickets;
    Pull(Tickets* tickets, std::string id, Tensor tensor)
        : tickets_(tickets), id_(std::move(id)), tensor_(std::move(tensor)) {}
    void end(bool finished) {
      if (tickets_ != nullptr) std::exchange(tickets_, nullptr)->end_pull(id_, finished);
    }
    Tickets* tickets_;  // Null: moved away, or it has ended.
    std::string id_;
    Tensor tensor_;
  };
  /// \pre  the object outlives the pull
  /// \error kNotFound  there is none: pulled, released, or its owner is gone.
  Result<Pull> pull(const std::string& id);

  /// Frees what is left of them; those of others, and that are none, are passed over.
  void release(Owner owner, const std::vector<std::string>& ids);
  /// All of the owner's, but for these.
  void release_all(Owner owner, const std::set<std::string>& but = {});

  [[nodiscard]] std::uint64_t bytes() const;
  [[nodiscard]] std::size_t count(Owner owner) const;

 private:
  struct Kept {
    Owner owner = 0;
    Tensor tensor;
    unsigned pulls = 0;    // That may begin.
    unsigned pulling = 0;  // That have begun.
  };
  using ById = std::map<std::string, Kept>;

  void end_pull(const std::string& id, bool finished);
  Tensor forget(ById::iterator kept);

  const std::uint64_t most_bytes_;
  mutable std::mutex mutex_;  // Guards all below.
  ById kept_;
  std::map<Owner, std::size_t> counts_;
  std::uint64_t bytes_ = 0;
};

}  // namespace penstock::host
