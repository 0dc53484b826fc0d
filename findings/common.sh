# What every finding shares: a temporary folder, pinned packages in it, and the verdict.

set -u
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 77

# Leave a folder `venv` with these packages of PyPI, or end with 77.
install_from_pypi() {
    python3 -m venv venv && venv/bin/pip --quiet install "$@" 2>pip.log || {
        tail -n 1 pip.log
        echo "could not run: pip does not install $*"
        exit 77
    }
}

# Leave a folder `node_modules` with these packages of npm, or end with 77.
install_from_npm() {
    npm install --silent --no-audit --no-fund "$@" >npm.log 2>&1 || {
        echo "could not run: npm does not install $*"
        exit 77
    }
}

# Leave a folder `debian` with the files of these packages, NAME=VERSION, or end with 77. Nothing is installed.
install_from_debian() {
    for package in "$@"; do
        apt-get -qq download "$package" >apt.log 2>&1 || {
            echo "could not run: apt has no $package"
            exit 77
        }
    done
    for package in ./*.deb; do dpkg-deb -x "$package" debian; done
}

# Print what was seen, and end with 0 if it is what the finding says, else with 1.
judge() {
    printf '%s\n' "$1"
    if [ "$1" = "$2" ]; then
        echo holds
        exit 0
    fi
    printf 'changed; it was:\n%s\n' "$2"
    exit 1
}
