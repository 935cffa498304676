#!/usr/bin/env bash
# Install Coldtrace from this folder into a virtual environment, with no network.
#
#   ./install.sh [FOLDER]        default: ~/coldtrace
#   NOTEBOOK=0 ./install.sh      leaves JupyterLab out
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
target=${1:-$HOME/coldtrace}
extra='[notebook]'
[[ ${NOTEBOOK:-1} == 0 ]] && extra=

(cd "$here" && sha256sum --check --quiet SHA256SUMS)
"${PYTHON:-python3}" -m venv "$target"
"$target/bin/python" -m pip --disable-pip-version-check --quiet install \
    --no-index --find-links "$here/wheels" "coldtrace$extra"
echo "installed in $target"
echo "next: $target/bin/coldtrace demo"
