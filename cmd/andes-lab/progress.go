package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

const (
	progressWidth = 40
	tellEvery     = 10 * time.Second
)

// progress is a bar on a terminal, and a line now and then elsewhere.
type progress struct {
	name  string
	total int

	container *mpb.Progress // nil: not on a terminal
	bar       *mpb.Bar

	mu   sync.Mutex
	done int
	told time.Time
}

func newProgress(ctx context.Context, name string, total int) *progress {
	p := &progress{name: name, total: total, told: time.Now()}
	if info, err := os.Stderr.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return p
	}
	p.container = mpb.NewWithContext(ctx, mpb.WithOutput(os.Stderr), mpb.WithWidth(progressWidth))
	p.bar = p.container.AddBar(int64(total),
		mpb.PrependDecorators(decor.Name(name, decor.WCSyncSpaceR), decor.CountersNoUnit("%d of %d", decor.WCSyncSpace)),
		mpb.AppendDecorators(decor.Percentage(decor.WCSyncSpace), decor.Elapsed(decor.ET_STYLE_MMSS, decor.WCSyncSpace)),
	)
	return p
}

// step counts one more.
func (p *progress) step() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.show(p.done + 1)
}

// set says how many are done.
func (p *progress) set(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.show(n)
}

func (p *progress) show(n int) {
	p.done = n
	if p.bar != nil {
		p.bar.SetCurrent(int64(n))
		return
	}
	if time.Since(p.told) >= tellEvery {
		p.told = time.Now()
		fmt.Printf("%s: %d of %d\n", p.name, p.done, p.total)
	}
}

// stop leaves the bar as it is.
func (p *progress) stop() {
	if p.bar == nil {
		return
	}
	p.bar.Abort(false)
	p.container.Wait()
}
