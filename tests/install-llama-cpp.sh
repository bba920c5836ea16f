#!/bin/sh
# llama.cpp's own server for the test that evaluates a model behind it (tests/tasks/language/served/test_llama_cpp.py)
# and for benchmarks/served_models.py.
#
#   sh tests/install-llama-cpp.sh           where no server is there: builds one; ends with 0
#   sh tests/install-llama-cpp.sh --check   ends with 0 if there is a server, with 1 if not
#
# The source comes from PyPI: the source archive of llama-cpp-python (77 MB) holds all of llama.cpp. Only the server is
# built, without its web page, for this machine's processor: 8.5 minutes on two busy cores. It needs cmake and a
# compiler. SMELT_LLAMA_SERVER names a binary; then nothing is built.
set -u

VERSION=0.3.36
place="${XDG_CACHE_HOME:-$HOME/.cache}/smelt-llama-cpp"

found() {
    command -v "${SMELT_LLAMA_SERVER:-llama-server}" >/dev/null 2>&1 || [ -x "$place/llama-server" ]
}

found && exit 0
[ "${1:-}" = --check ] && exit 1

for program in cmake c++ tar; do
    command -v $program >/dev/null 2>&1 || { echo "NO LLAMA.CPP FOR THE TESTS: there is no $program" >&2; exit 0; }
done
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
echo "NO LLAMA.CPP FOR THE TESTS: building its server (llama-cpp-python $VERSION has the source)" >&2
# The archive alone: the package itself, which pip would build from it, is not needed.
${PYTHON:-python3} -m pip download --quiet --no-deps --no-binary :all: --dest "$scratch" "llama-cpp-python==$VERSION" >&2
archive=$(ls "$scratch"/llama_cpp_python-*.tar.gz 2>/dev/null | head -n 1)
[ -n "$archive" ] || { echo "its source could not be fetched from PyPI" >&2; exit 0; }
tar -xzf "$archive" -C "$scratch" || exit 1
cmake -S "$scratch"/llama_cpp_python-*/vendor/llama.cpp -B "$scratch/build" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_C_FLAGS_RELEASE="-O2 -DNDEBUG" -DCMAKE_CXX_FLAGS_RELEASE="-O2 -DNDEBUG" -DBUILD_SHARED_LIBS=OFF \
    -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_UI=OFF \
    -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF -DGGML_NATIVE=ON >"$scratch/log" 2>&1 &&
    nice cmake --build "$scratch/build" --target llama-server -j "$(getconf _NPROCESSORS_ONLN)" >>"$scratch/log" 2>&1 ||
    { tail -n 20 "$scratch/log" >&2; echo "llama.cpp's server could not be built" >&2; exit 1; }
mkdir -p "$place" && cp "$scratch/build/bin/llama-server" "$place/llama-server" &&
    echo "$place/llama-server is built" >&2
