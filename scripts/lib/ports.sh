# shellcheck shell=bash
# Free ports of 127.0.0.1: chosen once, kept in FILE as NAME=PORT lines.

# Below the range that the kernel gives to outgoing connections.
FIRST_PORT=20000
PORT_COUNT=10000
PORT_TRIES=200

port_in_use() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# kept_port FILE NAME -> the port chosen earlier, or 1.
kept_port() {
	[ -f "$1" ] && sed -n "s/^$2=//p" "$1" | grep . | head -n 1
}

# ensure_port FILE NAME -> a port that can be listened on now: the kept one, or
# a new one if that is taken. Ports kept by other instances here are avoided.
ensure_port() {
	local file=$1 name=$2 port try
	if port=$(kept_port "$file" "$name") && ! port_in_use "$port"; then
		echo "$port"
		return
	fi
	for ((try = 0; try < PORT_TRIES; try++)); do
		port=$((FIRST_PORT + (RANDOM * 32768 + RANDOM) % PORT_COUNT))
		if ! port_in_use $port && ! grep -qs "=$port\$" "$STATE"/*/ports; then
			forget_port "$file" "$name"
			echo "$name=$port" >>"$file"
			echo $port
			return
		fi
	done
	note "no free port found"
	return 1
}

forget_port() {
	[ ! -f "$1" ] || sed -i "/^$2=/d" "$1"
}
