package e2e

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxy stands between the platform and a service, and can take the service away without touching it. With
// several targets it is a load balancer: a connection goes to the next one that accepts it.
type proxy struct {
	listener net.Listener
	targets  func() []string
	next     atomic.Int64
	serving  sync.WaitGroup

	mu      sync.Mutex
	changed *sync.Cond
	cut     bool // connections are closed, and new ones as soon as they come
	stalled bool // nothing passes and nobody is told, as when a cable is pulled
	delay   time.Duration
	links   map[*link]struct{}
}

// link is a connection and its continuation to the service.
type link struct {
	client, service net.Conn
	orphan          bool // the server behind it has gone without a word
}

func (l *link) close() {
	_ = l.client.Close()
	if l.service != nil {
		_ = l.service.Close()
	}
}

func startProxy(t *testing.T, targets func() []string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, targets: targets, links: map[*link]struct{}{}}
	p.changed = sync.NewCond(&p.mu)
	p.serving.Go(p.serve)
	t.Cleanup(func() {
		_ = listener.Close()
		p.turn(func(p *proxy) { p.cut, p.stalled = true, false })
		p.serving.Wait()
	})
	return p
}

// before puts a proxy in front of one address.
func before(t *testing.T, target string) *proxy {
	return startProxy(t, func() []string { return []string{target} })
}

func (p *proxy) address() string { return p.listener.Addr().String() }

// turn changes what the proxy does to connections, old and new.
func (p *proxy) turn(change func(p *proxy)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
	for l := range p.links {
		if p.cut {
			l.close()
		}
	}
	p.changed.Broadcast()
}

// Ways to take a service away.
func cut(p *proxy)     { p.cut = true }
func stall(p *proxy)   { p.stalled = true }
func restore(p *proxy) { p.cut, p.stalled, p.delay = false, false, 0 }

// replace is a failover: the old server is dead and its connections stay silent, new ones go to the new one.
func replace(p *proxy) {
	restore(p)
	for l := range p.links {
		l.orphan = true
		_ = l.service.Close()
	}
}

func (p *proxy) serve() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.serving.Go(func() { p.carry(conn) })
	}
}

func (p *proxy) carry(conn net.Conn) {
	l := &link{client: conn}
	defer l.close()
	if p.state(l).cut {
		return
	}
	if l.service = p.dial(); l.service == nil || !p.keep(l) {
		return
	}
	defer p.forget(l)
	var both sync.WaitGroup
	both.Go(func() { p.copy(l, l.service, l.client) })
	p.copy(l, l.client, l.service)
	both.Wait()
}

// dial asks each target once, beginning with the next.
func (p *proxy) dial() net.Conn {
	targets := p.targets()
	first := p.next.Add(1)
	for n := range targets {
		target := targets[(int(first)+n)%len(targets)]
		if conn, err := net.Dial("tcp", target); err == nil {
			return conn
		}
	}
	return nil
}

// copy carries bytes until one side ends; then both do. What is said to a server that is gone is lost, and
// its silence is not the end.
func (p *proxy) copy(l *link, to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			p.pass()
			if _, failed := to.Write(buffer[:n]); failed != nil && !p.state(l).orphan {
				break
			}
		}
		if err != nil {
			break
		}
	}
	if !p.state(l).orphan || from == l.client {
		l.close()
	}
}

// pass waits for as long as the proxy holds bytes back.
func (p *proxy) pass() {
	p.mu.Lock()
	for p.stalled && !p.cut {
		p.changed.Wait()
	}
	delay := p.delay
	p.mu.Unlock()
	if delay > 0 {
		<-time.After(delay)
	}
}

// condition of a link at this moment.
type condition struct{ cut, orphan bool }

func (p *proxy) state(l *link) condition {
	p.mu.Lock()
	defer p.mu.Unlock()
	return condition{p.cut, l.orphan}
}

func (p *proxy) keep(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.cut {
		p.links[l] = struct{}{}
	}
	return !p.cut
}

func (p *proxy) forget(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}
