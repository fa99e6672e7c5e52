// Command andes-lab is the world around Andes, for demos and tests: simulated
// legacy systems with faults that can be turned while they run, and a sales
// channel that replays real trading days. The product never imports it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

type cli struct {
	Sim     simCmd     `cmd:"" help:"Run the ERP, WMS, OMS, payment gateway and a partner's webhook receiver until interrupted."`
	Knobs   knobsCmd   `cmd:"" help:"Show a simulator's knobs, or turn some: andes-lab knobs erp latencyMs=300 outage=false"`
	Demo    demoCmd    `cmd:"" help:"Sell real trading days through the partner API and check what came of it."`
	Drill   drillCmd   `cmd:"" help:"Break things on the running platform and mend them as an operator does."`
	Reads   readsCmd   `cmd:"" help:"Put the same reads on the legacy systems themselves and on Andes, and compare."`
	Stats   statsCmd   `cmd:"" help:"Show a simulator's counters."`
	Welcome welcomeCmd `cmd:"" help:"Set a partner up, wait for the first sync and print what to try."`
	Env     envCmd     `cmd:"" help:"Print what a shell needs to try Andes: tokens and addresses, for eval."`
	Reset   resetCmd   `cmd:"" help:"Set a simulator's counters to zero; what it knows stays."`
}

// addresses of the simulators, as the product knows them too.
type addresses struct {
	ERP      string `name:"erp-url" env:"ANDES_ERP_URL" default:"http://127.0.0.1:18081" help:"ERP simulator."`
	WMS      string `name:"wms-url" env:"ANDES_WMS_URL" default:"http://127.0.0.1:18082" help:"WMS simulator."`
	OMS      string `name:"oms-url" env:"ANDES_OMS_URL" default:"http://127.0.0.1:18083" help:"OMS simulator."`
	Payment  string `name:"payment-url" env:"ANDES_PAYMENT_URL" default:"http://127.0.0.1:18084" help:"Payment gateway simulator."`
	Receiver string `name:"receiver-url" env:"LAB_RECEIVER_URL" default:"http://127.0.0.1:18085" help:"Partner's webhook receiver."`
}

// product says where Andes is.
type product struct {
	HTTPAddr string `name:"http-addr" env:"ANDES_HTTP_ADDR" default:"127.0.0.1:8080" help:"Where Andes listens."`
}

func (p product) url() string { return "http://" + p.HTTPAddr }

// dataFlags choose the data set.
type dataFlags struct {
	Data string `env:"LAB_DATA_DIR" help:"Folder of the online_retail set; without it, or if it is not there, a set of the same shape is generated."`
	Seed uint64 `default:"1" help:"Seed of the generated set, of the stock levels and of the faults."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var c cli
	app := kong.Parse(&c, kong.Name("andes-lab"), kong.UsageOnError(),
		kong.Description("Simulated legacy systems and sales channels for Andes."),
		kong.BindTo(ctx, (*context.Context)(nil)))
	if err := app.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "andes-lab:", err)
		stop()
		os.Exit(1)
	}
}
