# shellcheck shell=bash
# Debian packages that are missing on a fresh machine.

# install_packages PACKAGE...: as root without a question; otherwise says what
# to install and ends.
install_packages() {
	is_root || die "missing here: $*. Install with: sudo apt-get install $*"
	have apt-get || die "missing: $*, and there is no apt-get to install them"
	say "installing $* (once; log: $STATE/install.log)"
	make_dir "$STATE"
	without_package_services apt_install "$@" >"$STATE/install.log" 2>&1 || {
		show_log "$STATE/install.log"
		die "installing $* failed; the log is $STATE/install.log"
	}
}

apt_install() {
	export DEBIAN_FRONTEND=noninteractive
	local apt=(apt-get -q -y -o DPkg::Lock::Timeout=120 -o Dpkg::Options::=--force-confold)
	"${apt[@]}" update || true # an old list may still do
	"${apt[@]}" install --no-install-recommends "$@"
}

# without_package_services COMMAND...: while it runs, no package starts its
# service and PostgreSQL's does not make a cluster: we start our own.
without_package_services() (
	policy=/usr/sbin/policy-rc.d
	cluster=/etc/postgresql-common/createcluster.d/andes-dev.conf
	undo() {
		[ -z "${made_policy:-}" ] || rm -f "$policy"
		rm -f "$cluster"
	}
	trap undo EXIT
	trap 'exit 130' INT TERM
	if [ ! -e "$policy" ]; then
		printf '#!/bin/sh\nexit 101\n' >"$policy"
		chmod 755 "$policy"
		made_policy=1
	fi
	mkdir -p "${cluster%/*}"
	echo 'create_main_cluster = false' >"$cluster"
	"$@" </dev/null
)
