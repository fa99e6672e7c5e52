// Command broker runs the embedded broker in the foreground, or asks whether a
// Kafka broker is ready to serve. scripts/services uses both.
//
//	broker serve -addr 127.0.0.1:9092 -dir DIR
//	broker probe 127.0.0.1:9092
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"andes/test/broker"
)

const probeTimeout = 3 * time.Second

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "broker:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("usage: broker serve -addr HOST:PORT -dir DIR | broker probe HOST:PORT")
	}
	switch args[0] {
	case "serve":
		return serve(args[1:])
	case "probe":
		if len(args) != 2 {
			return fmt.Errorf("usage: broker probe HOST:PORT")
		}
		ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
		defer cancel()
		return broker.Probe(ctx, args[1])
	default:
		return fmt.Errorf("unknown command %q, want serve or probe", args[0])
	}
}

func serve(args []string) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	addr := flags.String("addr", "127.0.0.1:0", "listen address")
	dir := flags.String("dir", "", "directory of the records")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *dir == "" {
		return fmt.Errorf("serve needs -dir")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	b, err := broker.Start(broker.Config{Addr: *addr, Dir: *dir, SyncWrites: true, Logf: log.Printf})
	if err != nil {
		return err
	}
	log.Printf("embedded broker (kfake, for development only) on %s, records in %s", b.Addr(), *dir)
	<-ctx.Done()
	b.Close()
	log.Print("embedded broker stopped")
	return nil
}
