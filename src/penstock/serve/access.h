// Access: who may do what on a server. Tokens and the names of client certificates, from a file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "penstock/base/result.h"

namespace penstock::serve {

/// What a request needs.
enum class Right : std::uint8_t {
  kInfer,         ///< Models: what they are, what they did, and to run them.
  kSharedMemory,  ///< kInfer, and to be a client of this machine: a region is this machine's
                  ///< memory.
  kLoad,          ///< Load and unload models.
  kAdmin,         ///< The server's own: metrics, trace and log settings.
};

/// What a client shows of itself.
struct Credentials {
  std::string token;             ///< Empty: none.
  std::string certificate_name;  ///< Of the client's certificate, which TLS verified; empty: none.
  bool local = false;            ///< It is a process of this machine.
};

/// The token in a header `authorization: Bearer TOKEN`; empty where there is none.
std::string_view bearer_token(std::string_view authorization);

/// \threads  check() may be called from any thread.
class Access {
 public:
  struct Options {
    std::filesystem::path tokens;      ///< Empty: no file.
    bool client_certificates = false;  ///< TLS verifies those of clients.
    /// Told, in one sentence, when the file has been read again, or why it could not be, and where
    /// it names nobody.
    std::function<void(const std::string&)> say;
  };

  /// Without a file and without certificates nobody is asked: everybody may infer, clients of this
  /// machine may do everything. With certificates alone, whoever has one may do everything. With a
  /// file, only those that it names; it is read again when it changes, and what was read before
  /// holds where it is bad then.
  ///
  /// Its lines are `NAME sha256:HASH RIGHTS` and `NAME certificate RIGHTS`, with RIGHTS some of
  /// infer,load,admin; HASH is of the token, the second NAME the certificate's. `#` begins a
  /// comment.
  /// \error kNotFound  no such file. \error kInvalidArgument  a line is not such: file and line.
  static Result<Access> open(Options options);

  Access(Access&&) noexcept;
  Access& operator=(Access&&) noexcept;
  ~Access();

  /// \returns whose right it is, for the log; empty where nobody is asked.
  /// \error kUnauthenticated   no token or certificate, or one that is not known.
  /// \error kPermissionDenied  known, but without this right.
  [[nodiscard]] Result<std::string> check(Right right, const Credentials& credentials) const;

  /// Another number whenever the file has been read again, and check() may say otherwise: cheaper
  /// to ask for than check(), for who asks often.
  [[nodiscard]] std::uint64_t generation() const;

  /// Whether a token would be of use: a client certificate is not the only way in.
  [[nodiscard]] bool takes_tokens() const;

 private:
  struct State;
  explicit Access(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// A new token, and the line that gives it the rights in a file of tokens.
struct NewToken {
  std::string token;  ///< 256 random bits. Nothing but the client needs to keep it.
  std::string line;
};
/// \error kInvalidArgument  the name or the rights could not stand in a file.
Result<NewToken> make_token(const std::string& name, const std::string& rights);

/// \error kPermissionDenied  others could read what goes over `address`, and `insecure` does not
/// say that they may.
Status check_exposure(const std::string& address, bool encrypted, bool insecure);

}  // namespace penstock::serve
