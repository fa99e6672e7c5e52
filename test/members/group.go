package members

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
)

// Group is members, past and present, and what they did.
type Group struct {
	cfg Config

	mu      sync.Mutex
	effects []effect
	seen    map[string]int64 // the greatest version of each key
	words   map[string]int   // what members that refuse told, counted
	reading sync.WaitGroup
}

// effect is what a handler did, told by itself.
type effect struct {
	at      int64
	key     string
	version int64
}

// Member is a process of the group.
type Member struct {
	process *exec.Cmd
	heard   chan struct{} // closed when all that it told was read
}

// NewGroup makes a group without members.
func NewGroup(cfg Config) *Group {
	return &Group{cfg: cfg, seen: map[string]int64{}, words: map[string]int{}}
}

// Start adds a member: this very program, whose main has to call Main first.
func (g *Group) Start() (*Member, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(g.cfg)
	if err != nil {
		return nil, err
	}
	process := exec.Command(program)
	process.Env = append(os.Environ(), variable+"="+string(text))
	process.Stderr = os.Stderr
	out, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, err
	}
	member := &Member{process, make(chan struct{})}
	g.reading.Go(func() {
		defer close(member.heard)
		g.read(out)
	})
	return member, nil
}

func (g *Group) read(out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var e effect
		if _, err := fmt.Sscan(lines.Text(), &e.at, &e.key, &e.version); err != nil {
			g.word(lines.Text())
			continue // or a line that a kill cut
		}
		g.mu.Lock()
		g.effects = append(g.effects, e)
		g.seen[e.key] = max(g.seen[e.key], e.version)
		g.mu.Unlock()
	}
}

func (g *Group) word(text string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.words[text]++
}

func (g *Group) told(text string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.words[text]
}

// Begun counts the records that members which refuse have begun to work on.
func (g *Group) Begun() int { return g.told(begun) }

// Refused counts those that they have refused.
func (g *Group) Refused() int { return g.told(refused) }

// Kill ends the member as a crash does.
func (m *Member) Kill() error { return m.process.Process.Kill() }

// Pause stops the member without its noticing: after a while the group goes on without it.
func (m *Member) Pause() error { return m.process.Process.Signal(syscall.SIGSTOP) }

// Resume lets a paused member go on as if nothing had been.
func (m *Member) Resume() error { return m.process.Process.Signal(syscall.SIGCONT) }

// Leave asks the member to end in order.
func (m *Member) Leave() error { return m.process.Process.Signal(syscall.SIGTERM) }

// Wait waits until the member has ended, however it did.
func (m *Member) Wait() {
	<-m.heard
	_ = m.process.Wait()
}

// Reached counts the keys of which a version was handled.
func (g *Group) Reached(version int64) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	reached := 0
	for _, greatest := range g.seen {
		if greatest >= version {
			reached++
		}
	}
	return reached
}

// Account is what the members did, as a consumer sees it that guards itself by the stream's version.
type Account struct {
	Done     int // effects
	Repeats  int // that the guard recognised: they had no effect
	Disorder int // came before an earlier one of their key
}

// Account is taken when all members have ended.
func (g *Group) Account() Account {
	g.reading.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	slices.SortStableFunc(g.effects, func(a, b effect) int { return cmp.Compare(a.at, b.at) })
	var account Account
	last, done := map[string]int64{}, map[effect]bool{}
	for _, e := range g.effects {
		id := effect{key: e.key, version: e.version}
		switch {
		case done[id]:
			account.Repeats++
			continue
		case e.version != last[e.key]+1:
			account.Disorder++
		}
		done[id] = true
		account.Done++
		last[e.key] = max(last[e.key], e.version)
	}
	return account
}
