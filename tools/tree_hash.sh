#!/usr/bin/env bash
# Prints twelve letters made of the tree's files, their names and what is in them: alike before and
# after a commit. Ignored files do not count. Tests take it for the seed of their samples.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

files() {
  git ls-files --cached --others --exclude-standard 2>/dev/null ||
    find . -type f -not -path './build/*' -not -path './.venv/*' -not -path './.prefix/*' -printf '%P\n' # No git here.
}

files | LC_ALL=C sort -u | while read -r file; do
  [[ ! -f $file ]] || sha256sum "$file"
done | sha256sum | cut -c1-12
