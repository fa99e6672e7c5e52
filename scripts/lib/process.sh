# shellcheck shell=bash
# Background processes and their pid files.
#
# A pid file holds "PID START BOOT" and the folder it belongs to. A pid counts
# as ours only while all four agree, so that a pid used again by another
# program, a reboot or a copied checkout never makes us stop a stranger.

KILL_AFTER=20 # seconds a process gets to stop by itself

# process_birth PID -> "START BOOT", or 1 if it is gone (a zombie is gone).
process_birth() {
	local stat
	stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
	stat=${stat##*) } # the program's name may hold spaces
	# shellcheck disable=SC2086 # the fields of stat, one a word
	set -- $stat
	[ "$1" != Z ] && [ "$1" != X ] || return 1
	printf '%s %s' "${20}" "$(cat /proc/sys/kernel/random/boot_id)"
}

# running_pid PIDFILE -> the pid, or 1 if our process is not running.
running_pid() {
	local pid birth folder
	[ -f "$1" ] || return 1
	{ read -r pid birth && read -r folder; } <"$1" || return 1
	[ "$folder" = "${1%/*}" ] && [ "$birth" = "$(process_birth "$pid")" ] || return 1
	echo "$pid"
}

is_running() { running_pid "$1" >/dev/null; }

# spawn PIDFILE LOG COMMAND...: starts it in a session of its own, so that
# Ctrl-C in the terminal does not reach it, and holding none of our files.
spawn() {
	local pidfile=$1 log=$2 pid
	shift 2
	[ ! -s "$log" ] || mv -f "$log" "$log.old"
	(cd / && exec setsid "$@") </dev/null >"$log" 2>&1 9>&- &
	pid=$!
	printf '%s %s\n%s\n' $pid "$(process_birth $pid)" "${pidfile%/*}" >"$pidfile"
}

# signal_process PIDFILE SIGNAL: 1 if it is not running.
signal_process() {
	local pid
	pid=$(running_pid "$1") && kill "-$2" "$pid" 2>/dev/null
}

# wait_gone NAME PIDFILE [SECONDS]: waits for a signalled process, in the end kills it.
wait_gone() {
	local seconds=${3:-$KILL_AFTER}
	if ! wait_until "$seconds" not_running "$2"; then
		note "$1 did not stop within $seconds s and was killed"
		signal_process "$2" KILL || true
		wait_until 5 not_running "$2" || die "$1 (pid $(running_pid "$2")) cannot be killed"
	fi
	rm -f "$2"
}
not_running() { ! is_running "$1"; }

# await_ready NAME PIDFILE LOG SECONDS CHECK...: waits until the check passes;
# says what the log said if the process dies or time runs out.
await_ready() {
	local name=$1 pidfile=$2 log=$3 seconds=$4 deadline
	shift 4
	deadline=$(($(now_ms) + seconds * 1000))
	until "$@"; do
		if ! is_running "$pidfile"; then
			show_log "$log"
			note "$name ended while starting; its log is $log"
			return 1
		elif [ "$(now_ms)" -ge $deadline ]; then
			show_log "$log"
			note "$name is not ready after $seconds s; its log is $log"
			return 1
		fi
		sleep 0.1
	done
}

show_log() { tail -n 15 "$1" 2>/dev/null | sed 's/^/    /' >&2; }
