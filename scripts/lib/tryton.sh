# shellcheck shell=bash
# One Tryton of an instance, on the instance's PostgreSQL. It is only started where it is asked for.
#
# Its databases are copies of the template, which is restored from scripts/tryton/template.sql.gz:
# making one takes Tryton minutes, copying one takes PostgreSQL a moment.

TRYTON_PACKAGES=(tryton-server tryton-modules-sale tryton-modules-sale-price-list tryton-modules-stock
	tryton-modules-product-price-list python3-psycopg2)
TRYTON_PYTHON=/usr/bin/python3 # the one that Debian's modules are installed for
TRYTON_TEMPLATE=tryton_template
TRYTON_DATABASE=tryton
TRYTON_START_SECONDS=60

tryton_pidfile() { echo "$INSTANCE/tryton.pid"; }
tryton_log() { echo "$INSTANCE/tryton.log"; }
tryton_address() { echo "127.0.0.1:$(kept_port "$INSTANCE/ports" tryton)"; }
tryton_version() { echo "Tryton $("$TRYTON_PYTHON" -c 'import trytond; print(trytond.__version__)' 2>/dev/null)"; }

tryton_find() { :; }

tryton_missing_package() {
	local package
	for package in "${TRYTON_PACKAGES[@]}"; do
		dpkg -s "$package" 2>/dev/null | grep -q '^Status:.* installed$' || echo "$package"
	done
}

# tryton_launch waits for PostgreSQL: tryton_await does both.
tryton_launch() { :; }

tryton_await() {
	local port
	tryton_restore
	tryton_copy "$TRYTON_DATABASE"
	port=$(ensure_port "$INSTANCE/ports" tryton)
	tryton_settings "$port" "$INSTANCE"
	spawn "$(tryton_pidfile)" "$(tryton_log)" "$TRYTON_PYTHON" /usr/bin/trytond -c "$INSTANCE/tryton.conf" -d $TRYTON_DATABASE
	await_ready Tryton "$(tryton_pidfile)" "$(tryton_log)" $TRYTON_START_SECONDS tryton_ready
}

# tryton_ready: somebody can log in. The first one waits until the modules are loaded.
tryton_ready() (
	body='{"id":1,"method":"common.db.login","params":["admin",{"password":"admin"},"en"]}'
	{ exec 3<>"/dev/tcp/127.0.0.1/$(kept_port "$INSTANCE/ports" tryton)"; } 2>/dev/null || exit 1
	printf 'POST /%s/ HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s' $TRYTON_DATABASE ${#body} "$body" >&3
	timeout $TRYTON_START_SECONDS cat <&3 | grep -q '"result":'
)

# tryton_settings PORT FOLDER: the password of PostgreSQL is in it.
tryton_settings() {
	make_dir "$2/tryton"
	(umask 077 && cat >"$2/tryton.conf") <<-CONF
		# Written by scripts/services at each start.
		[web]
		listen = 127.0.0.1:$1
		root = $2/tryton
		[database]
		uri = $(tryton_postgres | sed 's|^postgres:|postgresql:|; s|[^/]*$||')
		path = $2/tryton
		list = False
		[password]
		passlib = $ROOT/scripts/tryton/passlib.ini
	CONF
}

# tryton_postgres: the URL of the PostgreSQL that holds its databases.
tryton_postgres() { yours postgres || postgres_url; }

# tryton_psql DATABASE ARGUMENT...
tryton_psql() {
	local database=$1 psql=${PG_BIN:+$PG_BIN/}psql
	shift
	PGOPTIONS='-c client_min_messages=warning' "$psql" -X -q -A -t -v ON_ERROR_STOP=1 -d "$(tryton_postgres | sed "s|/[^/?]*\(?.*\)\?$|/$database\1|")" "$@"
}

tryton_has() { tryton_psql postgres -c "SELECT 1 FROM pg_database WHERE datname = '$1'" | grep -q 1; }

# tryton_restore: the template, once; half a one, or one of an older dump, is never taken for it.
tryton_restore() {
	local dump=$ROOT/scripts/tryton/template.sql.gz made=${TRYTON_TEMPLATE}_new sum
	sum=$(cksum <"$dump")
	[ "$(tryton_psql postgres -c "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = '$TRYTON_TEMPLATE'")" != "$sum" ] || return 0
	tryton_psql postgres -c "DROP DATABASE IF EXISTS $TRYTON_TEMPLATE" -c "DROP DATABASE IF EXISTS $made" -c "CREATE DATABASE $made TEMPLATE template0"
	gunzip -c "$dump" | tryton_psql $made -1 -o /dev/null -f - || die "restoring $dump failed"
	tryton_psql postgres -c "ALTER DATABASE $made RENAME TO $TRYTON_TEMPLATE" -c "COMMENT ON DATABASE $TRYTON_TEMPLATE IS '$sum'"
}

tryton_copy() { tryton_has "$1" || tryton_psql postgres -c "CREATE DATABASE $1 TEMPLATE $TRYTON_TEMPLATE"; }

tryton_stop_signal() { echo TERM; }
tryton_stop_seconds() { echo $KILL_AFTER; }

# Its databases go with PostgreSQL's data.
tryton_reset() { rm -rf "$INSTANCE/tryton" "$INSTANCE/tryton.conf"; }
