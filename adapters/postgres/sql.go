package postgres

import (
	"embed"
	"fmt"
)

//go:embed queries/*.sql
var queryFiles embed.FS

//go:embed migrations/*.sql
var migrationFiles embed.FS

// The statements, each in a file of its own.
var (
	lockShard       = statement("lock_shard")
	loadStates      = statement("load_states")
	loadAnswers     = statement("load_answers")
	insertEvents    = statement("insert_events")
	insertEvent     = statement("insert_event")
	insertStates    = statement("insert_states")
	updateStates    = statement("update_states")
	updateState     = statement("update_state")
	insertAnswers   = statement("insert_answers")
	upsertDeadlines = statement("upsert_deadlines")
	deleteDeadlines = statement("delete_deadlines")
	claimDeadlines  = statement("claim_deadlines")
	readAll         = statement("read_all")
	readPage        = statement("read_page")
	readStream      = statement("read_stream")
	statesOf        = statement("states_of")
	sweepAnswers    = statement("sweep_answers")
	logPageQuery    = statement("log_page")
	logStreamPage   = statement("log_stream_page")
	logCounts       = statement("log_counts")
	logStreams      = statement("log_streams")
	backlog         = statement("backlog")
)

// statement reads an embedded file; that it is there is decided when the binary is built.
func statement(name string) string {
	text, err := queryFiles.ReadFile("queries/" + name + ".sql")
	if err != nil {
		panic(fmt.Sprintf("postgres: statement %s: %v", name, err))
	}
	return string(text)
}
