#!/usr/bin/env bash
# Provides hiprtc, which compiles kernels for AMD GPUs, where ROCm is not installed: downloads it and
# all it needs, its own C library included, from Debian, and unpacks that into a folder. Nothing is
# installed, the system's apt lists stay as they are, and root is not needed. Attune runs its compiler
# processes under the folder's own loader. Takes the newest that the mirror has, and says which.
#   tools/rocm-prefix.sh [folder]      default ${XDG_CACHE_HOME:-~/.cache}/attune/rocm, where Attune looks
#   ATTUNE_DEBIAN_MIRROR=URI           default: the mirror in this system's own apt sources
# A second run is quick: remove the folder to have it made anew.
set -euo pipefail
folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/attune/rocm}
loader=usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# level; suites; packages
levels='experimental; sid experimental; libhiprtc7 libhiprtc-builtins7 libamd-comgr3
sid; sid; libhiprtc6 libhiprtc-builtins6 libamd-comgr3
trixie; trixie; libamdhip64-5 libhiprtc-builtins5 libamd-comgr2
bookworm; bookworm; libamdhip64-5 libhiprtc-builtins5 libamd-comgr2'
# What comgr's package asks for and comgr does not open; taken as installed.
unneeded='libclang-common-21-dev libclang-common-22-dev'

fail() { echo "rocm-prefix: $*" >&2; exit 1; }

if [ -e "$folder/$loader" ]; then
    echo "$folder: $(cat "$folder/versions")"
    exit 0
fi
[ "$(uname -m)" = x86_64 ] || fail "Debian builds hiprtc for x86-64; this is $(uname -m)"
for program in apt-get dpkg-deb; do
    command -v $program >/dev/null || fail "no $program here: install ROCm instead"
done
mirror=${ATTUNE_DEBIAN_MIRROR:-$(apt-get indextargets --format '$(ORIGIN) $(COMPONENT) $(REPO_URI)' \
    'Created-By: Packages' | sed -n '/debian-security/!s/^Debian main //p' | head -n 1)}
[ -n "$mirror" ] || fail "no Debian mirror in the apt sources: set ATTUNE_DEBIAN_MIRROR"
[ -e $keyring ] || fail "no $keyring to check signatures with: install debian-archive-keyring"

mkdir -p "$(dirname "$folder")"
work=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf "$work"' EXIT

# apt with package lists, state and cache of its own, for which nothing is installed. Signatures are
# checked; only an index past its date is taken, as mirrors of a moment have them.
apt() {
    apt-get -qq -o Acquire::Retries=1 -o Acquire::http::Timeout=20 \
        -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::Etc::PreferencesParts=/dev/null -o Dir::State="$work/state" \
        -o Dir::State::status="$work/status" -o Dir::Cache="$work/cache" -o APT::Sandbox::User=root \
        -o APT::Architecture=amd64 -o APT::Architectures=amd64 -o APT::Get::AllowUnauthenticated=false \
        -o Acquire::Check-Valid-Until=false -o Acquire::Languages=none -o Debug::NoLocking=true "$@"
}

# download <level> <suites> <packages>
download() {
    rm -rf "${work:?}"/*
    mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial"
    for package in $unneeded; do
        printf 'Package: %s\nStatus: install ok installed\nArchitecture: amd64\nVersion: 9:0\n\n' "$package"
    done >"$work/status"
    for suite in $2; do
        echo "deb [signed-by=$keyring] $mirror $suite main"
    done >"$work/sources.list"
    # shellcheck disable=SC2086
    apt update && apt install -y --no-install-recommends --download-only -t "$1" $3
}

unpack() {
    mkdir -p "$work/prefix/usr/lib" "$work/prefix/usr/lib64"
    ln -s usr/lib usr/lib64 "$work/prefix"  # as Debian has them since trixie
    for package in "$work"/cache/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$package" |
            tar -x -C "$work/prefix" --keep-directory-symlink --wildcards --exclude='./usr/share' \
                --exclude='*/gconv' --exclude='./etc' --exclude='./var'
    done
    [ -e "$work/prefix/$loader" ] || ln -s ld-linux-x86-64.so.2 "$work/prefix/$loader"
}

while IFS=';' read -r level suites packages; do
    echo "$level: downloading from $mirror"
    download "$level" "$suites" "$packages" || continue
    unpack
    echo "Debian $level, $(cd "$work/cache/archives" && ls | sed -n 's/^\(libhiprtc[67]\|libamdhip64-5\|libamd-comgr[23]\|libllvm[0-9]*\|libc6\)_\([^_]*\)_.*/\1 \2/p' |
        sed 's/%3a/:/; s/%2b/+/g' | paste -sd, | sed 's/,/, /g')" >"$work/prefix/versions"
    break
done <<<"$levels"
[ -e "$work/prefix/versions" ] || fail "none of the levels could be downloaded from $mirror"
mv -T "$work/prefix" "$folder"
echo "$folder: $(cat "$folder/versions")"
