package rebuild_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"andes/adapters/postgres"
	"andes/deadletters"
	"andes/rebuild"
)

// binary builds the product once.
var binary = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "andes-projections")
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "andes")
	if out, err := exec.Command("go", "build", "-o", path, "andes/cmd/andes").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w: %s", err, out)
	}
	return path, nil
})

// ran is a command that has ended.
type ran struct {
	code        int
	out, errors string
}

func (w *world) command(arguments ...string) *exec.Cmd {
	w.t.Helper()
	path, err := binary()
	if err != nil {
		w.t.Fatal(err)
	}
	command := exec.CommandContext(context.Background(), path, append([]string{"projections"}, arguments...)...)
	command.Env = append(os.Environ(),
		"ANDES_POSTGRES_URL="+w.postgres.URL, "ANDES_POSTGRES_SCHEMA="+w.postgres.Schema,
		"ANDES_REDIS_ADDRS="+strings.Join(w.redis.Addrs, ","), "ANDES_REDIS_PREFIX="+w.redis.Prefix,
		"ANDES_KAFKA_BROKERS="+strings.Join(w.kafka.Cluster.Brokers, ","), "ANDES_KAFKA_PREFIX="+w.kafka.Topics.Prefix)
	return command
}

func (w *world) projections(arguments ...string) ran {
	w.t.Helper()
	command := w.command(arguments...)
	var out, faults bytes.Buffer
	command.Stdout, command.Stderr = &out, &faults
	err := command.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		w.t.Fatal(err)
	}
	return ran{command.ProcessState.ExitCode(), out.String(), faults.String()}
}

func (r ran) expect(t *testing.T, code int, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(r.out+r.errors, word) {
			t.Errorf("%q is not in %s%s", word, r.out, r.errors)
		}
	}
	if r.code != code {
		t.Errorf("exit %d, want %d: %s%s", r.code, code, r.out, r.errors)
	}
}

func TestTheCommandLine(t *testing.T) {
	t.Parallel()
	w := open(t, choice{})
	w.fill(50)
	w.publish(w.set.Categories()...)
	w.projections("status").expect(t, 0, "stock  ", "serving", "lag")
	w.projections("rollback").expect(t, 1, "andes: stock: no generation is kept to go back to")
	w.projections("rebuild", "stonk").expect(t, 1, `there is no read model "stonk"`)
	w.projections("rebuild", "--rate=-1").expect(t, 1, "--rate is below zero")
	w.projections("verify", "stock").expect(t, 1, "missing stock:SKU-00001: has nothing, PostgreSQL has \"1 ", "differs from PostgreSQL in 50 keys")
	w.projections("rebuild", "--reason", "a trial").expect(t, 0, "generation 2 serves stock, price, product, source: 150 records from topics in", "verified")
	w.projections("verify").expect(t, 0, "stock", "50")

	w.damage("DEL", w.key(2, "stock:"+sku(3)))
	w.projections("rebuild", "--only", sku(3), "--output", "json").expect(t, 0, `"mended": true`)
	w.damage("DEL", w.key(2, "stock:"+sku(4)))
	w.projections("verify", "--repair").expect(t, 0, "missing stock:"+sku(4), "mended")
	w.projections("verify", "--output", "json").expect(t, 0, `"differences": null`)
	w.projections("rollback", "--output", "json").expect(t, 0, `"pointer": "1 2"`)
	w.projections("rollback", "stock").expect(t, 0, "stock: generation 2 serves", "price: generation 1 serves")

	var audited []string
	log, err := postgres.Settlements{DB: w.store.DB}.Audit(t.Context(), deadletters.AuditQuery{Subject: "projections", Limit: 10})
	for _, entry := range log {
		audited = append(audited, fmt.Sprintf("%s %d %s %s %s", entry.Action, entry.Count, entry.Run, entry.Detail, entry.Reason))
	}
	want := []string{
		"projections.rollback 1 1 2 stock=2,1 stock ", "projections.rollback 4 1 2 stock,price,product,source ",
		"projections.repair 1   ", "projections.repair 1  SKU-00003 ", "projections.rebuild 150 2 stock,price,product,source a trial",
	}
	if err != nil || !slices.Equal(audited, want) {
		t.Errorf("the audit log has\n%s\n%v, want\n%s", strings.Join(audited, "\n"), err, strings.Join(want, "\n"))
	}

	var status struct {
		Pointer     string
		Models      []struct{ Role string }
		LastRebuild struct {
			Phase, Actor string
			Records      int64
		}
		Lag []struct{ Committed, End, Lag int64 }
	}
	answer := w.projections("status", "--output", "json")
	if err := json.Unmarshal([]byte(answer.out), &status); err != nil {
		t.Fatalf("%v: %s", err, answer.out)
	}
	if status.Pointer != "1 2 stock=2,1" || len(status.Models) != 8 || status.LastRebuild.Phase != "done" || !strings.HasPrefix(status.LastRebuild.Actor, "os:") ||
		status.LastRebuild.Records != 150 || len(status.Lag) != 12 || status.Lag[0].Committed != -1 {
		t.Errorf("the status is %+v", status)
	}
}

func TestMistakesOnTheCommandLineAreToldPlainly(t *testing.T) {
	t.Parallel()
	w := open(t, choice{})
	w.fill(5)
	w.publish(w.set.Categories()...)
	w.rebuild(rebuild.Request{})
	// An unset variable in --only "$SKU" must not rebuild everything.
	w.projections("rebuild", "--only", "").expect(t, 1, "--only is empty")
	w.projections("verify", "--only", "").expect(t, 1, "--only is empty")
	w.projections("rebuild", "--only", "nosuch").expect(t, 1, "knows nosuch")
	w.projections("verify", "--only", sku(1)+",nosuch,none").expect(t, 1, "knows nosuch, none;")
	w.projections("verify", "price", "--only", sku(1)).expect(t, 0, "price")
	w.projections("rebuild", "stock", "stock").expect(t, 1, `"stock" is named twice`)
	w.expectPointer("2 1")
	w.projections("rebuild").expect(t, 0, "generation 1 of stock is dropped to make room", "generation 3 serves")

	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = full.Close() }()
	for _, words := range [][]string{{"status"}, {"status", "--output", "json"}, {"verify"}} {
		command := w.command(words...)
		command.Stdout = full
		if err := command.Run(); err == nil {
			t.Errorf("%v succeeds, though nobody gets its answer", words)
		}
	}

	w.damage("SET", w.redis.Prefix+"generation", "3 x")
	for _, command := range []string{"status", "verify", "rebuild", "rollback"} {
		w.projections(command).expect(t, 1, "is damaged; delete it", "redis-cli DEL "+w.redis.Prefix+"generation")
	}
	w.damage("DEL", w.redis.Prefix+"generation")
	w.projections("rebuild", "--from", "states", "--restart").expect(t, 0, "generation 4 serves")
	w.expectSame()
}

// PROJ-03: kill -9 in the middle, and an interrupt.
func TestAKilledRebuildGoesOn(t *testing.T) {
	t.Parallel()
	w := open(t, choice{partitions: 2})
	w.fill(2000)
	w.publish(w.set.Categories()...)
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT} {
		command := w.command("rebuild", "--rate", "1000")
		var faults bytes.Buffer
		command.Stderr = &faults
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		read := int64(1000)
		if signal == syscall.SIGINT {
			read = w.last().Records + 500
		}
		w.loaded(read)
		if err := command.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		err := command.Wait()
		if signal == syscall.SIGINT && (command.ProcessState.ExitCode() != 1 || !strings.Contains(faults.String(), "andes: stopped; run the same command again")) {
			t.Errorf("an interrupted rebuild: %v: %s", err, faults.String())
		}
		w.expectPointer("1 2")
	}
	w.projections("rebuild").expect(t, 0, "generation 2 serves")
	w.expectPointer("2 1")
	w.expectSame()
	if run := w.last(); run.Phase != rebuild.Done || run.Mended != 0 {
		t.Errorf("the run ended as %+v", run)
	}
}

func TestServicesThatAreAwayAreToldPlainly(t *testing.T) {
	t.Parallel()
	w := open(t, choice{ownKafka: true})
	w.fill(5)
	w.kafka.Stop(t)
	w.projections("rebuild").expect(t, 1, "Kafka")
	w.expectPointer("1")
	w.projections("status").expect(t, 0, "lag is not known", "Kafka")
	w.projections("rebuild", "--from", "states").expect(t, 0, "generation 2 serves", "15 records from states")
	w.redis.Addrs = []string{"127.0.0.1:1"}
	w.projections("status").expect(t, 1, "redis: connect to 127.0.0.1:1")
	w.postgres.URL = "postgres://nobody@127.0.0.1:1/none"
	w.projections("status").expect(t, 1, "postgres")
}
