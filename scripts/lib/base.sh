# shellcheck shell=bash
# Where things lie, how the scripts speak, how they wait. Sourced, never run.

export LC_ALL=C # numbers with a point, whatever the user's language

ROOT=$(cd "${BASH_SOURCE[0]%/*}/../.." && pwd -P)
STATE=$ROOT/.andes
# Where root keeps PostgreSQL's data if its user cannot reach the checkout.
OUTSIDE=/var/lib/andes-dev/$(printf %s "$ROOT" | cksum | cut -d' ' -f1)

# forget_run_env: in a shell with `eval "$(scripts/platform env)"` the settings of the running platform are not
# those that its user chose: taken for such, the services of the run would be yours, and tests would use them.
forget_run_env() {
	local name value
	while IFS='=' read -r name value; do
		[ -z "$name" ] || [ "${!name-}" != "$value" ] || unset "$name"
	done <<<"${ANDES_RUN_ENV:-}"
	unset ANDES_RUN_ENV
}
forget_run_env

say() { printf '%s\n' "$*"; }
note() { printf 'note: %s\n' "$*" >&2; }
die() {
	printf 'error: %s\n' "$*" >&2
	exit 1
}

# service_line NAME VERSION ADDRESS NOTE: the one line said about a service.
service_line() { printf '%-11s %-24s %-22s %s\n' "$@"; }

is_root() { [ "$(id -u)" = 0 ]; }
have() { command -v "$1" >/dev/null 2>&1; }

now_ms() { echo $((${EPOCHREALTIME/./} / 1000)); }
seconds_since() { # seconds_since START_MS -> 1.2 s
	local ms=$(($(now_ms) - $1))
	printf '%d.%d s' $((ms / 1000)) $((ms % 1000 / 100))
}

# wait_until SECONDS COMMAND...: 0 as soon as the command succeeds, else 1.
wait_until() {
	local deadline=$(($(now_ms) + $1 * 1000))
	shift
	until "$@"; do
		[ "$(now_ms)" -lt $deadline ] || return 1
		sleep 0.1
	done
}

# make_dir DIR...: folders that other users may pass through, whatever the umask.
make_dir() {
	mkdir -p "$@" && chmod 755 "$@"
}

# build_broker_tool: the embedded broker, which also probes a real Kafka.
build_broker_tool() {
	make_dir "$STATE" "$STATE/bin"
	(cd "$ROOT" && go build -o "$STATE/bin/broker" ./test/broker/cmd)
}
