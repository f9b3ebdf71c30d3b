#!/usr/bin/env bash
# Installs the Debian packages that building, testing and the demo need. Says first what it will install; silent when
# nothing is missing. Needs root or sudo only when something is missing.
#   tools/install_packages.sh [--develop]     --develop adds what only checks of the tree need
set -euo pipefail

packages=(
  build-essential cmake ninja-build ccache pkg-config
  libdnnl-dev libfmt-dev nlohmann-json3-dev libyaml-cpp-dev libcli11-dev
  libpcre2-dev libutf8proc-dev libisal-dev libgtest-dev libgmock-dev
)
if [[ "${1:-}" == --develop ]]; then
  packages+=(clang-format-14 python3 clang-14 libclang-rt-14-dev libomp-14-dev)
fi

if ! command -v dpkg-query > /dev/null; then
  echo "draftsmith builds with Debian's packages, and this system has no dpkg. It needs:" >&2
  printf '  %s\n' "${packages[@]}" >&2
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null || true)
  [[ "$status" == installed ]] || missing+=("$package")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

echo "draftsmith needs these packages, which are not installed yet:"
printf '  %s\n' "${missing[@]}"

as_root=()
if [[ $EUID -ne 0 ]]; then
  if ! command -v sudo > /dev/null; then
    echo "Installing them takes root, and there is no sudo here. As root, run:" >&2
    echo "  apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "Installing them with apt-get ..."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { "${as_root[@]}" apt-get update -qq && "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
  --no-install-recommends "${missing[@]}"; } > "$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "The packages could not be installed (apt-get's last lines are above). Install them by hand, then try again:" >&2
  echo "  apt-get install ${missing[*]}" >&2
  exit 1
fi
