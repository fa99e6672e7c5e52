# shellcheck shell=bash
# One PostgreSQL of an instance. fsync is always on, in tests too: a test that
# passes without it says nothing about what survives a crash.

PG_OLDEST=15
PG_START_SECONDS=60 # also for the recovery after a kill -9
PG_STOP_SECONDS=120 # its last checkpoint syncs every file that changed
PG_CONNECTIONS=300
PG_LEFTOVER_TRIES=40 # half a second apart

postgres_pidfile() { echo "$INSTANCE/postgres.pid"; }
postgres_log() { echo "$INSTANCE/postgres.log"; }
postgres_bin() { # the newest installed one, or the one that made the data
	local dir best=
	if [ -f "$PG_DATA/PG_VERSION" ]; then
		dir=/usr/lib/postgresql/$(cat "$PG_DATA/PG_VERSION")/bin
		[ ! -x "$dir/postgres" ] || { echo "$dir" && return; }
	fi
	for dir in $(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V) "$(pg_config --bindir 2>/dev/null)"; do
		[ ! -x "$dir/initdb" ] || [ "$(postgres_major "$dir")" -lt $PG_OLDEST ] || best=$dir
	done
	[ -n "$best" ] && echo "$best"
}
postgres_full_version() { "$1/postgres" --version | grep -o '[0-9][0-9.]*' | head -n 1; }
postgres_major() { postgres_full_version "$1" | cut -d. -f1; }

postgres_version() { echo "PostgreSQL $(postgres_full_version "$PG_BIN")"; }
postgres_address() { echo "127.0.0.1:$(kept_port "$INSTANCE/ports" postgres)"; }
postgres_url() {
	echo "postgres://andes:$(cat "$INSTANCE/postgres-password")@$(postgres_address)/andes?sslmode=disable"
}

# as_postgres COMMAND...: replaces this shell; PostgreSQL refuses to run as root.
as_postgres() { "${PG_AS[@]}" "$@"; }

postgres_find() {
	PG_AS=()
	! is_root || PG_AS=(setpriv --reuid=postgres --regid=postgres --init-groups --)
	PG_DATA=$INSTANCE/postgres/data
	[ ! -e "$OUTSIDE/$NAME/postgres/data" ] || PG_DATA=$OUTSIDE/$NAME/postgres/data
	PG_BIN=$(postgres_bin) || PG_BIN=
}

postgres_missing_package() { [ -n "$PG_BIN" ] || echo postgresql; }

postgres_check() {
	[ -n "$PG_BIN" ] || die "PostgreSQL $PG_OLDEST or newer is needed; this system's packages have none"
	! is_root || id postgres >/dev/null 2>&1 || die "PostgreSQL cannot run as root and there is no user postgres: adduser --system --group postgres"
	[ ! -f "$PG_DATA/PG_VERSION" ] || [ "$(cat "$PG_DATA/PG_VERSION")" = "$(postgres_major "$PG_BIN")" ] ||
		die "the data of $NAME is of PostgreSQL $(cat "$PG_DATA/PG_VERSION"), which is not installed; install it, or drop the data: scripts/services reset $NAME"
}

postgres_launch() {
	local port
	postgres_check
	port=$(ensure_port "$INSTANCE/ports" postgres)
	[ -f "$PG_DATA/PG_VERSION" ] || postgres_create
	postgres_settings "$port" | postgres_write "$PG_DATA/andes.conf"
	postgres_run
}

postgres_run() {
	spawn "$(postgres_pidfile)" "$(postgres_log)" \
		"${PG_AS[@]}" "$PG_BIN/postgres" -D "$PG_DATA"
}

# postgres_create: an empty cluster, in a folder that its user can reach.
postgres_create() {
	local password pwfile
	if is_root && ! as_postgres test -x "$INSTANCE"; then
		PG_DATA=$OUTSIDE/$NAME/postgres/data
		make_dir "${OUTSIDE%/*}" "$OUTSIDE" "$OUTSIDE/$NAME"
	fi
	mkdir -p "${PG_DATA%/*}"
	! is_root || chown postgres: "${PG_DATA%/*}"
	password=$(head -c 18 /dev/urandom | base64 | tr '+/' '-_')
	pwfile=${PG_DATA%/*}/password
	postgres_write "$pwfile" <<<"$password"
	as_postgres rm -rf "$PG_DATA.new"
	as_postgres "$PG_BIN/initdb" -D "$PG_DATA.new" -U andes -A scram-sha-256 --pwfile="$pwfile" \
		-E UTF8 --locale=C.UTF-8 >"$INSTANCE/initdb.log" 2>&1 || {
		show_log "$INSTANCE/initdb.log"
		die "creating the PostgreSQL data in $PG_DATA failed"
	}
	as_postgres sh -c 'echo "include '\''andes.conf'\''" >>"$1/postgresql.conf"; rm -f "$2"' - "$PG_DATA.new" "$pwfile"
	(umask 077 && echo "$password" >"$INSTANCE/postgres-password")
	as_postgres mv "$PG_DATA.new" "$PG_DATA"
}

postgres_write() { as_postgres sh -c 'umask 077 && cat >"$1"' - "$1"; }

postgres_settings() { # postgres_settings PORT
	local buffers=256MB
	[[ $NAME != test* ]] || buffers=128MB
	cat <<-CONF
		# Written by scripts/services at each start.
		listen_addresses = '127.0.0.1'
		port = $1
		unix_socket_directories = ''
		max_connections = $PG_CONNECTIONS
		shared_buffers = $buffers
		fsync = on
		synchronous_commit = on
		max_wal_size = 2GB
		checkpoint_timeout = 15min
		jit = off
		timezone = 'UTC'
		log_timezone = 'UTC'
		log_line_prefix = '%m [%p] %d '
		log_checkpoints = off
	CONF
}

# postgres_await: for a moment after a kill -9 the old one's pid or shared memory
# is still there, and a new one ends at once: it is started again.
postgres_await() {
	local try
	for ((try = 0; try < PG_LEFTOVER_TRIES; try++)); do
		wait_until $PG_START_SECONDS postgres_ready_or_ended || break
		if is_running "$(postgres_pidfile)" || ! grep -qsE 'shared memory block|postmaster.pid' "$(postgres_log)"; then
			break
		fi
		sleep 0.5
		postgres_run
	done
	await_ready PostgreSQL "$(postgres_pidfile)" "$(postgres_log)" $PG_START_SECONDS postgres_ready &&
		postgres_database
}
postgres_ready_or_ended() { postgres_ready || not_running "$(postgres_pidfile)"; }

postgres_ready() {
	"$PG_BIN/pg_isready" -q -t 1 -h 127.0.0.1 -p "$(kept_port "$INSTANCE/ports" postgres)"
}

postgres_psql() {
	PGPASSWORD=$(cat "$INSTANCE/postgres-password") "$PG_BIN/psql" -X -q -A -t -h 127.0.0.1 \
		-p "$(kept_port "$INSTANCE/ports" postgres)" -U andes -v ON_ERROR_STOP=1 -d postgres -c "$1"
}

postgres_database() {
	[ -n "$(postgres_psql "SELECT 1 FROM pg_database WHERE datname = 'andes'")" ] ||
		postgres_psql 'CREATE DATABASE andes'
}

postgres_stop_signal() { echo INT; } # "fast": ends sessions, then writes a checkpoint
postgres_stop_seconds() { echo $PG_STOP_SECONDS; }

postgres_reset() {
	rm -rf "$INSTANCE/postgres" "${OUTSIDE:?}/$NAME" "$INSTANCE/postgres-password"
}
