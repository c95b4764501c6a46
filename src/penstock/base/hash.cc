// OpenSSL computes the digests and compares in constant time; files are read in blocks.
#include "penstock/base/hash.h"

#include <array>
#include <fstream>
#include <memory>
#include <new>
#include <vector>

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "penstock/base/hexadecimal.h"

namespace penstock {

namespace {

/// OpenSSL returns 0 without a cause. SHA-256 is built in: it is memory that was refused.
void check_memory(int done) {
  if (done != 1) throw std::bad_alloc();
}

}  // namespace

struct Sha256::State {
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context{EVP_MD_CTX_new(), EVP_MD_CTX_free};
  State() {
    if (context == nullptr) throw std::bad_alloc();
    check_memory(EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr));
  }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> bytes) {
  check_memory(EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()));
}

void Sha256::update(std::string_view text) {
  check_memory(EVP_DigestUpdate(state_->context.get(), text.data(), text.size()));
}

std::string Sha256::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  check_memory(EVP_DigestFinal_ex(state_->context.get(), digest.data(), &size));
  return to_hexadecimal({reinterpret_cast<const char*>(digest.data()), size});
}

std::string sha256_of(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return hash.finish();
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Result<std::string> sha256_of_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return not_found("file '", file.string(), "': cannot be read");
  Sha256 hash;
  std::vector<char> block(1U << 20U);
  while (in.read(block.data(), static_cast<std::streamsize>(block.size())) || in.gcount() > 0) {
    hash.update(std::string_view(block.data(), static_cast<std::size_t>(in.gcount())));
  }
  return hash.finish();
}

}  // namespace penstock
