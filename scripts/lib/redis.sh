# shellcheck shell=bash
# One Redis (or Valkey) of an instance.

REDIS_OLDEST=7
REDIS_START_SECONDS=30

redis_pidfile() { echo "$INSTANCE/redis.pid"; }
redis_log() { echo "$INSTANCE/redis.log"; }
redis_bin() { command -v redis-server || command -v valkey-server; }
redis_full_version() { "$REDIS_BIN" --version | grep -o 'v=[0-9.]*' | cut -d= -f2; }

redis_version() {
	local name=Redis
	[[ $REDIS_BIN != *valkey* ]] || name=Valkey
	echo "$name $(redis_full_version)"
}
redis_address() { echo "127.0.0.1:$(kept_port "$INSTANCE/ports" redis)"; }

redis_find() { REDIS_BIN=$(redis_bin) || REDIS_BIN=; }

redis_missing_package() { [ -n "$REDIS_BIN" ] || echo redis-server; }

redis_launch() {
	local port append=yes
	[ "$(redis_full_version | cut -d. -f1)" -ge $REDIS_OLDEST ] ||
		die "Redis $REDIS_OLDEST or newer is needed, this is $(redis_full_version)"
	port=$(ensure_port "$INSTANCE/ports" redis)
	[[ $NAME != test* ]] || append=no
	make_dir "$INSTANCE/redis"
	spawn "$(redis_pidfile)" "$(redis_log)" "$REDIS_BIN" --port "$port" --bind 127.0.0.1 \
		--dir "$INSTANCE/redis" --appendonly $append --appendfsync everysec --save "" \
		--maxmemory-policy noeviction --loglevel notice
}

redis_await() {
	await_ready Redis "$(redis_pidfile)" "$(redis_log)" $REDIS_START_SECONDS redis_ready
}

# redis_ready: it answers PING with PONG, so it is not loading its data any more.
redis_ready() (
	{ exec 3<>"/dev/tcp/127.0.0.1/$(kept_port "$INSTANCE/ports" redis)"; } 2>/dev/null || exit 1
	printf 'PING\r\n' >&3
	IFS= read -r -t 2 reply <&3 && [[ $reply == +PONG* ]]
)

redis_stop_signal() { echo TERM; }
redis_stop_seconds() { echo $KILL_AFTER; }

redis_reset() { rm -rf "$INSTANCE/redis"; }
