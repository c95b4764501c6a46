// Loops that are compiled twice, where processors of one kind differ much.
#pragma once

/// Stands before a function whose loops a compiler vectorises: on x86 it is compiled for AVX2, too,
/// and the loader takes what the processor has. Sums stay in order: both give the same numbers.
/// Sanitizers cannot be called as early as the loader chooses; Clang makes our builds for tests.
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__) && \
    defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define PENSTOCK_VECTORISED __attribute__((target_clones("avx2", "default")))
#else
#define PENSTOCK_VECTORISED
#endif
