# install_packages SCOPE...: installs those Debian packages of packages.txt in the scopes that are missing. To be sourced.
install_packages() {
  local list="${BASH_SOURCE[0]%/*}/packages.txt" scope package missing=() as_root=()
  while read -r scope package; do
    [[ " $* " == *" $scope "* ]] || continue
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
  done < <(grep -v '^#' "$list")
  ((${#missing[@]} > 0)) || return 0

  if ! command -v apt-get >/dev/null; then
    printf 'There is no apt-get here. Install what these Debian packages hold, if it is not there yet:\n  %s\n' \
      "${missing[*]}" >&2
    command -v cmake >/dev/null || return 1
    return 0
  fi
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      printf 'These packages are missing, and installing them needs root or sudo:\n  %s\n' "${missing[*]}" >&2
      return 1
    fi
    as_root=(sudo)
  fi
  printf 'Installing %s\n' "${missing[*]}" >&2
  "${as_root[@]}" apt-get update -qq >&2 </dev/null &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2 </dev/null
}
