# shellcheck shell=bash
# One broker of an instance: Apache Kafka where there is a JVM, else the
# embedded broker. An instance keeps the kind that made its data.

KAFKA_VERSION=4.4.0
KAFKA_HEAP=512m
JAVA_OLDEST=17
KAFKA_START_SECONDS=60

kafka_pidfile() { echo "$INSTANCE/kafka.pid"; }
kafka_log() { echo "$INSTANCE/kafka.log"; }
kafka_address() { echo "127.0.0.1:$(kept_port "$INSTANCE/ports" kafka)"; }
kafka_version() {
	case $BROKER_KIND in
	kafka) echo "Apache Kafka $KAFKA_VERSION" ;;
	embedded) echo "embedded broker (kfake)" ;;
	esac
}

# kafka_find: BROKER_KIND and, if that is the embedded one unasked, why.
kafka_find() {
	KAFKA_LIBS=$STATE/kafka/libs-$KAFKA_VERSION
	BROKER_WHY=
	BROKER_KIND=$(kafka_kind_of_data)
	[ -z "$BROKER_KIND" ] || return 0
	BROKER_KIND=kafka
	if [ "${ANDES_BROKER:-}" = embedded ]; then
		BROKER_KIND=embedded
	elif ! java_is_new_enough; then
		BROKER_KIND=embedded BROKER_WHY="no Java $JAVA_OLDEST or newer"
	elif [ ! -d "$KAFKA_LIBS" ] && ! have mvn; then
		BROKER_KIND=embedded BROKER_WHY="no mvn to fetch Apache Kafka with"
	fi
}

kafka_kind_of_data() {
	local kind
	for kind in kafka embedded; do
		[ ! -d "$INSTANCE/$kind" ] || echo $kind
	done | head -n 1
}

java_is_new_enough() {
	local major
	have java || return 1
	major=$(java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1)
	[ "${major:-0}" -ge $JAVA_OLDEST ]
}

# A JVM is used if it is there and never installed; the embedded broker needs none.
kafka_missing_package() { :; }

kafka_launch() {
	build_broker_tool
	if [ "$BROKER_KIND" = kafka ] && ! kafka_fetch; then
		[ ! -d "$INSTANCE/kafka" ] || die "$NAME holds Kafka's data, so it cannot go on with the embedded broker; drop the data: scripts/services reset $NAME"
		BROKER_KIND=embedded BROKER_WHY="Apache Kafka could not be fetched, see $STATE/kafka/fetch.log"
	fi
	[ -z "${ANDES_BROKER:-}" ] || [ "$ANDES_BROKER" = "$BROKER_KIND" ] ||
		die "ANDES_BROKER=$ANDES_BROKER cannot be had: ${BROKER_WHY:-$NAME holds data of the $BROKER_KIND broker; drop it: scripts/services reset $NAME}"
	"${BROKER_KIND}_run"
}

# kafka_fetch: the jars, once for all instances of this checkout.
kafka_fetch() (
	make_dir "$STATE/kafka"
	exec 8>"$STATE/kafka/fetching" && flock 8
	[ ! -d "$KAFKA_LIBS" ] || exit 0
	say "fetching Apache Kafka $KAFKA_VERSION (once, 43 MB)" >&2
	rm -rf "$KAFKA_LIBS.new"
	mvn -q -B -f "$ROOT/scripts/kafka/pom.xml" dependency:copy-dependencies -DincludeScope=runtime \
		-Dkafka.version=$KAFKA_VERSION -DoutputDirectory="$KAFKA_LIBS.new" \
		</dev/null >"$STATE/kafka/fetch.log" 2>&1 &&
		mv "$KAFKA_LIBS.new" "$KAFKA_LIBS"
)

kafka_java() { # -> JAVA, the command line up to the main class
	local flags=(-Xms128m -Xmx$KAFKA_HEAP -Dlog4j2.configurationFile="$ROOT/scripts/kafka/log4j2.properties")
	# Saves memory and starts sooner, at the cost of throughput.
	[[ $NAME != test* ]] || flags+=(-XX:+UseSerialGC -XX:TieredStopAtLevel=1)
	JAVA=(java "${flags[@]}" -cp "$KAFKA_LIBS/*")
}

kafka_run() {
	local port controller id
	port=$(ensure_port "$INSTANCE/ports" kafka)
	controller=$(ensure_port "$INSTANCE/ports" kafka_controller)
	kafka_java
	if [ ! -d "$INSTANCE/kafka" ]; then
		id=$(head -c 16 /dev/urandom | base64 | tr '+/' 'ab' | tr -d '=') # as StorageTool random-uuid, without a JVM
		rm -rf "$INSTANCE/kafka.new"
		kafka_settings "$port" "$controller" "$INSTANCE/kafka.new" >"$INSTANCE/kafka.properties"
		"${JAVA[@]}" kafka.tools.StorageTool format -t "$id" -c "$INSTANCE/kafka.properties" >"$(kafka_log)" 2>&1 || {
			show_log "$(kafka_log)"
			die "formatting Kafka's folder failed"
		}
		mv "$INSTANCE/kafka.new" "$INSTANCE/kafka"
	fi
	kafka_settings "$port" "$controller" "$INSTANCE/kafka" >"$INSTANCE/kafka.properties"
	spawn "$(kafka_pidfile)" "$(kafka_log)" "${JAVA[@]}" kafka.Kafka "$INSTANCE/kafka.properties"
}

kafka_settings() { # kafka_settings PORT CONTROLLER_PORT DIR
	cat <<-CONF
		# Written by scripts/services at each start.
		process.roles=broker,controller
		node.id=1
		controller.quorum.voters=1@127.0.0.1:$2
		listeners=PLAINTEXT://127.0.0.1:$1,CONTROLLER://127.0.0.1:$2
		advertised.listeners=PLAINTEXT://127.0.0.1:$1
		listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
		controller.listener.names=CONTROLLER
		inter.broker.listener.name=PLAINTEXT
		log.dirs=$3
		auto.create.topics.enable=false
		# One broker: nothing to replicate to.
		offsets.topic.replication.factor=1
		transaction.state.log.replication.factor=1
		transaction.state.log.min.isr=1
		share.coordinator.state.topic.replication.factor=1
		share.coordinator.state.topic.min.isr=1
		# Sized for one machine; the defaults make 150 partitions and 128 MB of buffers.
		offsets.topic.num.partitions=8
		transaction.state.log.num.partitions=8
		share.coordinator.state.topic.num.partitions=8
		log.cleaner.dedupe.buffer.size=33554432
		log.index.size.max.bytes=1048576
		group.initial.rebalance.delay.ms=0
		# After a kill -9 a start waits for the old session to end.
		broker.session.timeout.ms=2000
		broker.heartbeat.interval.ms=500
	CONF
}

embedded_run() {
	local port
	port=$(ensure_port "$INSTANCE/ports" kafka)
	make_dir "$INSTANCE/embedded"
	spawn "$(kafka_pidfile)" "$(kafka_log)" "$STATE/bin/broker" serve -addr "127.0.0.1:$port" -dir "$INSTANCE/embedded"
}

kafka_await() {
	await_ready "$(kafka_version)" "$(kafka_pidfile)" "$(kafka_log)" $KAFKA_START_SECONDS kafka_ready
}

kafka_ready() {
	local port
	port=$(kept_port "$INSTANCE/ports" kafka)
	port_in_use "$port" && "$STATE/bin/broker" probe "127.0.0.1:$port" 2>/dev/null
}

kafka_stop_signal() { echo TERM; }
kafka_stop_seconds() { echo $KILL_AFTER; }

kafka_reset() {
	rm -rf "$INSTANCE/kafka" "$INSTANCE/embedded" "$INSTANCE"/*.properties
}
