#!/bin/sh
# Makes a virtual environment with everything that development and tests want: make_venv.sh FOLDER
# PYTHON names the interpreter; without it the first fit one on the PATH is taken.
set -eu

folder=$1
fit='import sys; sys.exit(sys.version_info < (3, 11))'

give_up() {
    echo "make: $1" >&2
    exit 1
}

# Called, not only found: a version manager's stand-in may be there and refuse to run.
find_python() {
    for candidate in python3 python3.13 python3.12 python3.11 python3.14 python; do
        if "$candidate" -c "$fit" 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    give_up "no Python 3.11 or newer on the PATH. Install one, or name it: make PYTHON=/path/to/python3.11 ..."
}

python=${PYTHON:-$(find_python)}
"$python" -c "$fit" || give_up "$python is not Python 3.11 or newer"

if [ ! -x "$folder/bin/python" ]; then
    echo "making $folder with $("$python" --version) ($python)"
    if "$python" -c 'import ensurepip' 2>/dev/null; then
        "$python" -m venv "$folder"
    else
        # Debian splits ensurepip off; pip of outside can fill the environment as well.
        "$python" -m pip --version >/dev/null 2>&1 ||
            give_up "$python has neither ensurepip nor pip. Debian: apt-get install python3-venv"
        "$python" -m venv --without-pip "$folder"
        "$python" -m pip --python "$folder/bin/python" install -q pip
    fi
fi

echo "installing Outlast and its tools into $folder (a minute, once)"
"$folder/bin/python" -m pip install -q --disable-pip-version-check -e '.[dev]'
